package controller_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/workqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
)

func TestErrorAfterLostSlotSkipsKey(t *testing.T) {
	for _, test := range []struct {
		err  error
		want controller.Outcome
	}{
		{errBoom, controller.Canceled},
		{retry.Permanent(errBoom), controller.Canceled},
		{nil, controller.Succeeded},
	} {
		bubble(t, test.want.String(), func(t *testing.T) {
			store := newLeases()
			slots, err := shard.New(shard.Config{
				Lease:      leaderelect.Config{Store: store, Key: "things", Identity: "ann", Logger: quiet},
				Slots:      1,
				OnAcquired: func(context.Context, int) error { return nil },
			})
			require.NoError(t, err)
			looptest.Start(t, slots.Run)
			time.Sleep(time.Second)
			c, err := controller.New("things", func(ctx context.Context, key int) (controller.Result, error) {
				if key == 7 {
					cut(store, true)
					<-ctx.Done()
				}
				return controller.Result{}, test.err
			}, controller.Config[int]{Logger: quiet})
			require.NoError(t, err)
			c.Share(slots)
			c.Add(7)
			c.Add(8)
			report, ok := next(t.Context(), c)
			require.True(t, ok)
			assert.Equal(t, 7, report.Key)
			assert.Equal(t, test.want, report.Outcome)
			if test.want == controller.Canceled {
				require.ErrorIs(t, report.Err, controller.ErrNotOwned, "it is not left to the next Run: the next owner has it")
				require.ErrorIs(t, report.Err, leaderelect.ErrLeaseExpired)
				require.ErrorIs(t, report.Err, errBoom)
			}
			_, ok = next(t.Context(), c)
			assert.False(t, ok, "the slot of the other key is lost too")
		})
	}
}

// A key of another replica costs no reconcile: no span, no report, no count.
func TestForeignKeyIsNotReconciled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, cfg := traced()
		cfg.StuckAfter = time.Minute
		cfg.Queue = workqueue.Config[string]{DispatchLimit: rate.NewLimiter(1, 1), Timestamps: true}
		c, reports := newController(t, cfg, func(context.Context, string) (controller.Result, error) {
			t.Error("reconciled")
			return controller.Result{}, nil
		})
		c.Share(noSlots{})
		looptest.Start(t, c.Run)
		for i := range 200 {
			c.AddWith(fmt.Sprint(i), by("x"))
		}
		time.Sleep(100 * time.Second)
		require.NoError(t, c.Check(), "there is progress")
		time.Sleep(101 * time.Second)
		assert.Empty(t, tr.Take())
		assert.Empty(t, reports.Take())
		stats := c.Stats()
		for outcome, n := range stats.Outcomes {
			assert.Zero(t, n, outcome)
		}
		assert.Zero(t, stats.Queue.Ready+stats.Queue.Delayed+stats.Queue.InProcess)
		err := c.WaitReconciled(t.Context(), "a")
		require.ErrorIs(t, err, controller.ErrNotOwned)
	})
}

// A slot must not change hands before an attempt has made all its writes. Otherwise, a late GaveUp would overwrite
// the status that the next owner has written.
func TestSlotIsKeptUntilGaveUpReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type mark struct{}
		slots := &marked{key: mark{}}
		words := 0
		cfg := controller.Config[string]{GaveUp: func(ctx context.Context, _ string, _ error) error {
			words++
			assert.Equal(t, 1, slots.working, "this replica still has the slot")
			assert.Equal(t, slots, ctx.Value(mark{}), "the writes have the term of the slot")
			return nil
		}}
		end := retry.Permanent(errBoom)
		c, _ := newController(t, cfg, func(context.Context, string) (controller.Result, error) {
			assert.Equal(t, 1, slots.working)
			return controller.Result{}, end
		})
		c.Share(slots)
		c.Add("a")
		report, ok := c.Step(t.Context(), "a")
		require.True(t, ok)
		assert.Equal(t, controller.Parked, report.Outcome)
		assert.Equal(t, 1, words)
		assert.Zero(t, slots.working, "the slot may change hands")

		end = nil
		c.Add("a")
		_, ok = c.Step(t.Context(), "a")
		require.True(t, ok)
		assert.Zero(t, slots.working)
	})
}

func TestSlotIsReleasedAfterGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := &marked{key: "mark"}
		c, _ := newController(t, controller.Config[string]{}, func(context.Context, string) (controller.Result, error) {
			runtime.Goexit()
			return controller.Result{}, nil
		})
		c.Share(slots)
		c.Add("a")
		go c.Step(t.Context(), "a") // ends with the Goexit
		synctest.Wait()
		assert.Zero(t, slots.working)
		assert.EqualValues(t, 1, c.Stats().Outcomes[controller.Panicked])
	})
}

// ShardKey is user code and may have a bug, like a reconcile.
func TestPanickingShardKeyIsReconcilePanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mended atomic.Bool
		cfg := controller.Config[string]{ShardKey: func(key string) string {
			if !mended.Load() {
				panic("no shard for " + key)
			}
			return key
		}}
		c, reports := newController(t, cfg, noop)
		c.Share(byText{})
		_, ok := c.Inspect().Slot("a")
		assert.False(t, ok)
		looptest.Start(t, c.Run)
		c.Add("a")
		synctest.Wait()
		all := reports.Take()
		require.Len(t, all, 1)
		assert.Equal(t, controller.Panicked, all[0].Outcome)
		require.ErrorContains(t, all[0].Err, "no shard for a")
		mended.Store(true)
		time.Sleep(time.Minute)
		all = reports.Take()
		require.Len(t, all, 1)
		assert.Equal(t, controller.Succeeded, all[0].Outcome)
		assert.Equal(t, 2, all[0].Attempt)
	})
}

// Otherwise one bad key would keep all replicas from acquiring any slot.
func TestPanickingShardKeyBlocksNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		apps := newInformer("apps", newSource(object{Key: "aa"}, object{Key: "bad"}, object{Key: "bb"}))
		looptest.Start(t, apps.Run)
		cfg := controller.Config[string]{ShardKey: func(key string) string {
			if key == "bad" {
				panic("no shard for " + key)
			}
			return key
		}}
		c, reports := newController(t, cfg, noop, controller.For(apps))
		c.Share(byText{})
		looptest.Start(t, c.Run)
		synctest.Wait()
		reports.Take()
		c.Acquired(2)
		synctest.Wait()
		outcomes := make(map[string]controller.Outcome)
		for _, r := range reports.Take() {
			outcomes[r.Key] = r.Outcome
		}
		assert.Equal(t, map[string]controller.Outcome{
			"aa": controller.Succeeded, "bb": controller.Succeeded, "bad": controller.Panicked,
		}, outcomes)
	})
}

func TestInspectorFindsSlotOfKey(t *testing.T) {
	slots, err := shard.New(shard.Config{
		Slots: 16, Lease: leaderelect.Config{Store: newLeases(), Key: "things"},
		OnAcquired: func(context.Context, int) error { return nil },
	})
	require.NoError(t, err)
	c, err := controller.New("things", func(context.Context, int) (controller.Result, error) {
		return controller.Result{}, nil
	}, controller.Config[int]{ShardKey: func(key int) string { return fmt.Sprint("tenant ", key/10) }})
	require.NoError(t, err)
	in := c.Inspect()
	_, ok := in.Slot("17")
	assert.False(t, ok, "the keys are not shared")
	c.Share(slots)
	slot, ok := in.Slot("17")
	assert.True(t, ok)
	assert.Equal(t, slots.Slot("tenant 1"), slot)
	_, ok = in.Slot("x")
	assert.False(t, ok, "no key")
}

// marked are slots that this replica owns. The contexts of their work have a value.
type marked struct {
	key     any
	working int
}

func (*marked) Slot(string) int { return 0 }

func (m *marked) Begin(ctx context.Context, _ string) (context.Context, func(), bool) {
	m.working++
	return context.WithValue(ctx, m.key, m), func() { m.working-- }, true
}

// lendable are slots of which work ends with a cause, by an implementation that knows no leadership.
type lendable struct{ lose context.CancelCauseFunc }

func (*lendable) Slot(string) int { return 0 }

func (l *lendable) Begin(ctx context.Context, _ string) (context.Context, func(), bool) {
	ctx, l.lose = context.WithCancelCause(ctx)
	return ctx, func() { l.lose(nil) }, true
}

func TestErrorAfterSlotContextEndsSkipsKeyWithoutLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := &lendable{}
		lost := errors.New("given to another")
		c, _ := newController(t, controller.Config[string]{ShardKey: func(key string) string { return key }},
			func(ctx context.Context, _ string) (controller.Result, error) {
				slots.lose(lost)
				return controller.Result{}, errBoom
			})
		c.Share(slots)
		c.Add("a")
		report, ok := next(t.Context(), c)
		require.True(t, ok)
		assert.Equal(t, controller.Canceled, report.Outcome)
		require.ErrorIs(t, report.Err, lost)
		require.ErrorIs(t, report.Err, errBoom)
		assert.Zero(t, report.Retry)
		assert.Zero(t, c.Stats().Queue.Delayed, "another replica tries the key again")
	})
}

// byText are slots that this replica owns, of which the slot of a text is its length.
type byText struct{}

func (byText) Slot(key string) int { return len(key) }

func (byText) Begin(ctx context.Context, _ string) (context.Context, func(), bool) {
	return ctx, func() {}, true
}

func TestAcquiredAddsWatchedKeysOfSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		apps := newInformer("apps", newSource(object{Key: "a"}, object{Key: "bb"}, object{Key: "skipped"}))
		things := newInformer("things", newSource(object{Key: "1", Owner: "cc"}, object{Key: "2", Owner: "bb"}, object{Key: "3", Owner: "d"}))
		looptest.Start(t, apps.Run)
		looptest.Start(t, things.Run)
		cfg := controller.Config[string]{ShardKey: func(key string) string { return "x" + key }, Reasons: true}
		c, reports := newController(t, cfg, noop,
			controller.For(apps).Where(func(o object) bool { return o.Key != "skipped" }),
			controller.Watches(things, func(_ context.Context, o object) ([]string, error) { return []string{o.Owner}, nil }))
		c.Acquired(3) // shares nothing yet
		c.Share(byText{})
		c.Acquired(3) // does not run: the present objects come with the Run
		assert.Empty(t, c.Snapshot())
		r := looptest.Start(t, c.Run)
		synctest.Wait()
		assert.ElementsMatch(t, []string{"a", "bb", "cc", "d"}, keysOf(reports.Take()))
		c.Pause()
		c.Acquired(3)
		waiting := c.Snapshot()
		require.Len(t, waiting, 2)
		for _, k := range waiting {
			assert.Len(t, k.Key, 2)
			assert.Equal(t, -1, k.Priority)
			assert.Equal(t, "slot 3 acquired", k.Reasons[len(k.Reasons)-1].Text)
		}
		c.Resume()
		synctest.Wait()
		assert.ElementsMatch(t, []string{"bb", "cc"}, keysOf(reports.Take()))
		require.NoError(t, r.Stop())
		c.Acquired(3)
		assert.Empty(t, c.Snapshot())
	})
}

// A Run that ends while Acquired calls a mapper waits for that call. The next Run then owns the mapping.
func TestStopWaitsForAcquired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		things := newInformer("things", newSource(object{Key: "1", Owner: "a"}))
		looptest.Start(t, things.Run)
		var slow atomic.Bool
		c, _ := newController(t, controller.Config[string]{}, noop,
			controller.Watches(things, func(_ context.Context, o object) ([]string, error) {
				if slow.Load() {
					time.Sleep(10 * time.Second)
				}
				return []string{o.Owner}, nil
			}))
		c.Share(byText{})
		r := looptest.Start(t, c.Run)
		synctest.Wait()
		slow.Store(true)
		acquiring := looptest.Start(t, func(context.Context) error { c.Acquired(1); return nil })
		synctest.Wait()
		began := time.Now()
		require.NoError(t, r.Stop())
		assert.Equal(t, 10*time.Second, time.Since(began))
		<-acquiring.Done()
	})
}
