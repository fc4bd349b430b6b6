package controller_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/pprof"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/workqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
)

// hangHere hangs until leave is closed.
func hangHere(leave chan struct{}) { <-leave }

func TestControllerIsStuckWhenNoReconcileReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leave := make(chan struct{})
		c, _ := newController(t, controller.Config[string]{Workers: 2, StuckAfter: time.Minute, DrainTimeout: time.Second},
			func(ctx context.Context, key string) (controller.Result, error) {
				switch key {
				case "hangs":
					pprof.Do(context.Background(), pprof.Labels("a", "b"), func(context.Context) { hangHere(leave) })
				case "long":
					time.Sleep(50 * time.Second)
				}
				return controller.Result{}, nil
			})
		require.NoError(t, c.Check(), "nothing runs")
		r := looptest.Start(t, c.Run)
		time.Sleep(time.Hour)
		require.NoError(t, c.Check(), "there is nothing to do")
		c.Add("long")
		time.Sleep(5 * time.Second)
		require.NoError(t, c.Check(), "there was nothing to do before")
		began := time.Now()
		c.Add("hangs")
		time.Sleep(90 * time.Second) // long ends after 45 s
		require.NoError(t, c.Check(), "a reconcile has ended")
		time.Sleep(15*time.Second + time.Nanosecond)

		err := c.Check()
		var stuck *controller.StuckError
		require.ErrorAs(t, err, &stuck)
		assert.Equal(t, "hangs", stuck.Key)
		assert.True(t, stuck.InFlight)
		assert.Equal(t, began, stuck.Since)
		assert.Equal(t, time.Minute+time.Nanosecond, stuck.Idle)
		assert.Contains(t, string(stuck.Stack), "controller_test.hangHere")
		assert.NotContains(t, string(stuck.Stack), "testing.tRunner", "only the stack of the worker")
		assert.Equal(t, `controller: check "test": no reconcile has ended for 1m0s: key hangs is in flight since `+began.Format(time.RFC3339), stuck.Error())

		c.Add("b") // the other worker does it
		synctest.Wait()
		require.NoError(t, c.Check())
		r.Cancel()
		time.Sleep(2 * time.Minute)
		require.ErrorAs(t, c.Check(), &stuck, "even when it ignores its stop")
		close(leave)
		require.NoError(t, r.Stop())
		require.NoError(t, c.Check())
	})
}

func TestControllerIsStuckWhenKeysAreNotHandedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newController(t, controller.Config[string]{StuckAfter: time.Minute, Queue: workqueue.Config[string]{DispatchLimit: rate.NewLimiter(0, 0)}}, noop)
		c.Add("a")
		time.Sleep(time.Hour)
		looptest.Start(t, c.Run)
		synctest.Wait()
		c.Add("b")
		time.Sleep(time.Minute)
		require.NoError(t, c.Check(), "it has not run for longer")
		time.Sleep(time.Second)
		err := c.Check()
		var stuck *controller.StuckError
		require.ErrorAs(t, err, &stuck)
		assert.Equal(t, "a", stuck.Key)
		assert.False(t, stuck.InFlight)
		assert.Nil(t, stuck.Stack)
		assert.Contains(t, err.Error(), "key a is ready since ")
		c.Pause()
		require.NoError(t, c.Check(), "a pause is not a failure")
	})
}

// A liveness probe of an idle controller looks at no key.
func TestCheckOfIdleControllerIsCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newController(t, controller.Config[string]{StuckAfter: time.Minute}, func(context.Context, string) (controller.Result, error) {
			return controller.Result{RequeueAfter: 24 * time.Hour}, nil
		})
		for i := range 1000 {
			c.Add(fmt.Sprint(i))
		}
		looptest.Start(t, c.Run)
		time.Sleep(time.Hour)
		require.Equal(t, 1000, c.Stats().Queue.Delayed)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 10 {
			require.NoError(t, c.Check())
		}
		runtime.ReadMemStats(&after)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(100_000), "a copy of all keys takes more")
	})
}

func TestSilentSourceIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, other := newSource(), newSource()
		promised := func(name string, s *source) *informer.Informer[string, object] {
			return must(informer.New(bookmarking{s}, keyOf, informer.Config{Name: name}))
		}
		things, others := promised("things", s), promised("others", other)
		looptest.Start(t, things.Run)
		looptest.Start(t, others.Run)
		c, _ := newController(t, controller.Config[string]{SilentAfter: time.Minute, Reads: []controller.Informer{others}}, noop, controller.For(things))
		looptest.Start(t, c.Run)
		time.Sleep(50 * time.Second)
		s.set(object{Key: "a"})
		time.Sleep(20 * time.Second)
		err := c.Check()
		require.ErrorIs(t, err, controller.ErrSilent)
		require.EqualError(t, err, `controller: check "test": others: the source is silent: 1m0s have passed`)
		time.Sleep(time.Hour)
		assert.Contains(t, c.Check().Error(), "things: ")
	})
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		s.hold = make(chan struct{})
		inf := newInformer("things", s)
		looptest.Start(t, inf.Run)
		c, _ := newController(t, controller.Config[string]{SilentAfter: time.Second, StuckAfter: time.Second}, noop, controller.For(inf))
		looptest.Start(t, c.Run)
		c.Add("a")
		time.Sleep(time.Minute)
		require.NoError(t, c.Check(), "it waits for its caches")
		close(s.hold)
	})
}

func TestStuckErrorMessage(t *testing.T) {
	var err error = &controller.StuckError{Controller: "x", Key: 7, Since: time.Unix(0, 0).UTC(), Idle: 90 * time.Second}
	assert.EqualError(t, errors.Join(err), `controller: check "x": no reconcile has ended for 1m30s: key 7 is ready since 1970-01-01T00:00:00Z`)
}

func TestControllerWithoutStuckAfterIsNeverStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leave := make(chan struct{})
		c, _ := newController(t, controller.Config[string]{}, func(context.Context, string) (controller.Result, error) {
			<-leave
			return controller.Result{}, nil
		})
		r := looptest.Start(t, c.Run)
		c.Add("hangs")
		time.Sleep(24 * time.Hour)
		require.NoError(t, c.Check())
		close(leave)
		require.NoError(t, r.Stop())
	})
}
