package controller_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCachesSyncBeforeAnyWorkerRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watched, read := newSource(object{Key: "a"}), newSource(object{Key: "r"})
		watched.hold, read.hold = make(chan struct{}), make(chan struct{})
		things, others := newInformer("things", watched), newInformer("others", read)
		looptest.Start(t, things.Run)
		looptest.Start(t, others.Run)
		reads := []controller.Informer{others}
		c, reports := newController(t, controller.Config[string]{Reads: reads}, func(context.Context, string) (controller.Result, error) {
			_, ok := things.Get("a")
			assert.True(t, ok)
			_, ok = others.Get("r")
			assert.True(t, ok)
			return controller.Result{}, nil
		}, controller.For(things))
		reads[0] = nil // it was copied
		looptest.Start(t, c.Run)
		c.Add("early")
		time.Sleep(time.Second)
		assert.Empty(t, reports.Take())
		close(watched.hold)
		time.Sleep(time.Second)
		assert.Empty(t, reports.Take(), "the other is missing")
		close(read.hold)
		time.Sleep(time.Second)
		assert.Equal(t, []string{"early", "a"}, keysOf(reports.Take()))
	})
}

func TestWorkersWaitForMappingOfInitialObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := newInformer("things", newSource(object{Key: "a"}, object{Key: "b"}, object{Key: "c"}))
		looptest.Start(t, inf.Run)
		mapped := 0
		c, reports := newController(t, controller.Config[string]{}, func(context.Context, string) (controller.Result, error) {
			assert.Equal(t, 3, mapped)
			return controller.Result{}, nil
		}, controller.Watches(inf, pure(func(o object) []string {
			time.Sleep(time.Second)
			mapped++
			return []string{o.Key}
		})))
		looptest.Start(t, c.Run)
		time.Sleep(time.Minute)
		assert.Len(t, reports.Take(), 3)
	})
}

func TestUnsyncedCacheIsNamedAndBlocksReconciles(t *testing.T) {
	for _, wait := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newSource(object{Key: "a"})
			s.hold = make(chan struct{})
			good, bad := newInformer("good", newSource(object{Key: "b"})), newInformer("bad", s)
			looptest.Start(t, good.Run)
			looptest.Start(t, bad.Run)
			cfg := controller.Config[string]{}
			if wait {
				cfg.Reads = []controller.Informer{bad}
				cfg.SyncTimeout = time.Minute
			}
			inputs := []controller.Input[string]{controller.For(good), controller.For(bad)}
			if wait {
				inputs = inputs[:1]
			}
			c, reports := newController(t, cfg, noop, inputs...)
			c.Add("early")
			began := time.Now()
			err := c.Run(t.Context())
			require.ErrorIs(t, err, controller.ErrSyncTimeout)
			assert.Contains(t, err.Error(), `controller: run "test": `)
			assert.Contains(t, err.Error(), "bad")
			assert.NotContains(t, err.Error(), "good")
			if wait {
				assert.Equal(t, time.Minute, time.Since(began))
			} else {
				assert.Equal(t, 2*time.Minute, time.Since(began))
			}
			assert.Empty(t, reports.Take())

			close(s.hold)
			synctest.Wait()
			r := looptest.Start(t, c.Run)
			synctest.Wait()
			assert.Contains(t, keysOf(reports.Take()), "early", "the next run finishes the rest")
			require.NoError(t, r.Stop())
		})
	}
}

func TestStopDuringCacheSyncIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(object{Key: "a"})
		s.hold = make(chan struct{})
		inf := newInformer("things", s)
		looptest.Start(t, inf.Run)
		c, reports := newController(t, controller.Config[string]{}, noop, controller.For(inf))
		c.Add("early")
		r := looptest.Start(t, c.Run)
		time.Sleep(time.Second)
		require.NoError(t, r.Stop())
		assert.Empty(t, reports.Take())
		assert.Equal(t, 1, c.Stats().Queue.Ready, "added keys wait")
		close(s.hold)
		synctest.Wait()
		assert.Equal(t, 1, c.Stats().Queue.Ready, "and the handler is gone")
	})
}

func TestEndedInformerIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		good := newInformer("good", s)
		dead := newInformer("dead", newSource())
		looptest.Start(t, good.Run)
		require.NoError(t, looptest.Start(t, dead.Run).Stop())
		c, _ := newController(t, controller.Config[string]{}, noop, controller.For(good), controller.For(dead))
		err := c.Run(t.Context())
		require.ErrorIs(t, err, informer.ErrEnded)
		assert.Contains(t, err.Error(), "watch dead: ")
		s.set(object{Key: "a"})
		synctest.Wait()
		assert.Zero(t, c.Stats().Queue.Ready, "the handler at the good one is gone")
	})
}

func TestRunWithCanceledContextDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{}, noop)
		c.Add("a")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, c.Run(ctx))
		assert.Empty(t, reports.Take())
		assert.Equal(t, 1, c.Stats().Queue.Ready)
	})
}

func TestSourcesListsEachInputAndReadOnce(t *testing.T) {
	things, others, read := newInformer("things", newSource()), newInformer("others", newSource()), newInformer("read", newSource())
	uncomparable := list{read}
	c, _ := newController(t, controller.Config[string]{Reads: []controller.Informer{read, things, uncomparable, uncomparable}}, noop,
		controller.For(things), controller.Watches(others, owner), controller.For(things).When(changed(value)))
	assert.Equal(t, []controller.Informer{things, others, read, uncomparable, uncomparable}, c.Informers())
	clear(c.Informers())
	assert.Len(t, c.Informers(), 5, "the caller may change what it gets")
	c, _ = newController(t, controller.Config[string]{}, noop)
	assert.Empty(t, c.Informers())
}

// list is an informer whose type cannot be compared.
type list []controller.Informer

func (l list) Name() string                  { return l[0].Name() }
func (l list) Synced() <-chan struct{}       { return l[0].Synced() }
func (l list) Run(ctx context.Context) error { return l[0].Run(ctx) }

func TestRunReportsSourcesThatNobodyRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := newSource()
		stuck.hold = make(chan struct{})
		good, mute, forgotten := newInformer("good", newSource()), newInformer("mute", stuck), newInformer("forgotten", newSource())
		looptest.Start(t, good.Run)
		looptest.Start(t, mute.Run)
		c, _ := newController(t, controller.Config[string]{Reads: []controller.Informer{forgotten}}, noop,
			controller.For(good), controller.For(mute))
		err := c.Run(t.Context())
		require.ErrorIs(t, err, controller.ErrSyncTimeout)
		assert.EqualError(t, err, `controller: run "test": informer: wait for sync of mute, forgotten, mute handler 1: `+
			"not synced in time: 2m0s have passed; "+
			"the source of mute, forgotten has never answered: without a manager, call Run of the informer")
		close(stuck.hold)
	})
	synctest.Test(t, func(t *testing.T) {
		inf := newInformer("things", newSource(object{Key: "a"}))
		looptest.Start(t, inf.Run)
		c, _ := newController(t, controller.Config[string]{SyncTimeout: time.Millisecond}, noop, controller.Watches(inf, slowly))
		err := c.Run(t.Context())
		assert.EqualError(t, err, `controller: run "test": informer: wait for sync of things handler 1: `+
			"not synced in time: 1ms have passed", "it is the function that takes too long")
	})
}
