package controller_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/internal/reconcile"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/workqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStatsCountReconcilesByOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		once := map[string]bool{}
		c, _ := newController(t, controller.Config[string]{Queue: workqueue.Config[string]{MaxAttempts: 2}, Logger: quiet},
			func(_ context.Context, key string) (controller.Result, error) {
				first := !once[key]
				once[key] = true
				switch key {
				case "later":
					if first {
						return controller.Result{RequeueAfter: time.Second}, nil
					}
				case "panics":
					panic("boom")
				case "slow":
					time.Sleep(5 * time.Millisecond) // a bound belongs to its bucket
				case "slower":
					time.Sleep(5*time.Millisecond + 1)
				case "slowest":
					time.Sleep(time.Hour)
				case "fenced":
					return controller.Result{}, errors.Join(errBoom, store.ErrFenced)
				case "permanent":
					return controller.Result{}, retry.Permanent(errBoom)
				}
				return controller.Result{}, nil
			})
		r := looptest.Start(t, c.Run)
		for _, key := range []string{"later", "panics", "slow", "slower", "slowest", "fenced", "permanent", "nothing"} {
			c.Add(key)
			time.Sleep(2 * time.Hour)
		}
		s := c.Stats()
		assert.EqualValues(t, 1, s.Requeued)
		assert.EqualValues(t, 2, s.Panics, "including the one that parked the key")
		assert.EqualValues(t, 1, s.Outcomes[controller.Panicked])
		assert.EqualValues(t, 1, s.Fenced)
		assert.EqualValues(t, 10, s.Durations.Count())
		assert.Equal(t, time.Hour+10*time.Millisecond+1, s.Durations.Sum)
		assert.EqualValues(t, 8, s.Durations.Counts[0], "up to 5 ms")
		assert.EqualValues(t, 1, s.Durations.Counts[1], "up to 10 ms")
		assert.EqualValues(t, 1, s.Durations.Counts[40], "more than all bounds")
		require.Len(t, s.Durations.Bounds, 40)
		assert.Equal(t, 5*time.Millisecond, s.Durations.Bounds[0])
		assert.Equal(t, time.Minute, s.Durations.Bounds[39])
		assert.IsIncreasing(t, s.Durations.Bounds)
		assert.EqualValues(t, 10, s.Totals.Worked.Count())
		require.NoError(t, r.Stop())
	})
}

func TestStatsReportAgeOfOldestReadyKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newController(t, controller.Config[string]{}, noop)
		c.Add("a")
		time.Sleep(time.Minute)
		c.Add("b")
		assert.Equal(t, time.Minute, c.Stats().OldestReady)
		_, ok := c.Step(t.Context(), "a")
		require.True(t, ok)
		time.Sleep(time.Second)
		assert.Equal(t, time.Second, c.Stats().OldestReady)
	})
}

func TestStatsReportWhatHoldsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		children := expectations.NewCounted(expectations.Config[string]{Name: "children", TTL: time.Hour})
		disks := expectations.NewVersions(expectations.Config[string]{TTL: time.Second, Logger: quiet})
		w := newWriter(t, controller.Config[string]{Expectations: []controller.Expectations[string]{children, disks}, Logger: quiet})
		none := map[string]int{"pause": 0, "drain": 0, "unread things": 0, "cache things": 0, "expectations children": 0, "expectations 2": 0}
		with := func(held map[string]int) map[string]int {
			all := map[string]int{}
			for reason := range none {
				all[reason] = held[reason]
			}
			return all
		}
		assert.Equal(t, none, w.c.Stats().HeldBy)

		w.c.PauseKey("p")
		w.c.Add("p")
		assert.NotContains(t, w.c.Ready(), "p")
		assert.Equal(t, with(map[string]int{"pause": 1}), w.c.Stats().HeldBy)
		assert.Equal(t, 1, w.c.Stats().Held)

		w.write(t, objects, 4)
		assert.False(t, w.runs(t))
		children.ExpectCreations("c", 1)
		disks.ExpectVersion("c", 9) // expires first
		w.c.Add("c")
		w.c.Step(t.Context(), "c")
		assert.Equal(t, with(map[string]int{"pause": 1, "cache things": 1, "expectations children": 1}), w.c.Stats().HeldBy)

		children.CreationObserved("c") // so that it is tried again, and waits for the other
		w.c.Step(t.Context(), "c")
		assert.Equal(t, with(map[string]int{"pause": 1, "cache things": 1, "expectations 2": 1}), w.c.Stats().HeldBy)
		assert.Equal(t, 3, w.c.Stats().Held)

		time.Sleep(time.Minute) // all but the pause expires
		assert.True(t, w.runs(t))
		w.c.Step(t.Context(), "c")
		w.c.ResumeKey("p")
		w.c.Step(t.Context(), "p")
		assert.Equal(t, none, w.c.Stats().HeldBy)
		w.c.CheckInvariants(t)
	})
}

func TestStatsCountKeysLeftByDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newController(t, controller.Config[string]{}, func(context.Context, string) (controller.Result, error) {
			time.Sleep(time.Second)
			return controller.Result{}, nil
		})
		r := looptest.Start(t, c.Run)
		c.Add("a")
		synctest.Wait()
		r.Cancel()
		synctest.Wait()
		c.Add("b")
		assert.Equal(t, 1, c.Stats().HeldBy["drain"])
		require.NoError(t, r.Stop())
		assert.Zero(t, c.Stats().HeldBy["drain"])
	})
}

func TestCacheLagLastsUntilCacheShowsWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t, controller.Config[string]{})
		assert.Empty(t, w.c.Stats().CacheLag, "nothing was written")
		w.write(t, objects, 2)
		assert.Equal(t, map[string]time.Duration{"things": 0}, w.c.Stats().CacheLag, "the cache shows it already")

		w.write(t, objects, 4)
		time.Sleep(2 * time.Second)
		w.tell = func(ctx context.Context) { reconcile.ReportWrite(ctx, objects.Kind, objects.DB, 5) }
		w.c.Add("b")
		_, ok := w.c.Step(t.Context(), "b")
		require.True(t, ok)
		time.Sleep(time.Second)
		assert.Equal(t, map[string]time.Duration{"things": 3 * time.Second}, w.c.Stats().CacheLag, "so far, and of the oldest write")
		w.src.set(object{Key: "x"})
		w.read(t)
		assert.Equal(t, 3*time.Second, w.c.Stats().CacheLag["things"], "version 3 does not show it")
		w.src.set(object{Key: "x", Value: 1})
		w.read(t)
		time.Sleep(time.Hour)
		assert.Equal(t, 3*time.Second, w.c.Stats().CacheLag["things"], "of the last write that was followed")

		w.write(t, objects, 9)
		time.Sleep(time.Minute)
		assert.Equal(t, time.Minute, w.c.Stats().CacheLag["things"])
		w.disconnect()
		assert.Equal(t, 3*time.Second, w.c.Stats().CacheLag["things"], "nobody follows the cache anymore")
	})
}

func TestStaleReadsReportNoCacheLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t, controller.Config[string]{StaleReads: true})
		w.write(t, objects, 4)
		time.Sleep(time.Minute)
		assert.Empty(t, w.c.Stats().CacheLag)
	})
}

// While a Run drains, a reconcile makes a write that the cache does not show before the Run ends.
func TestCacheLagOfDrainEndsWithRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := must(informer.New(informer.ListWatcher[object](kinded{newSource(object{Key: "a"}), objects}), keyOf, informer.Config{Name: "things"}))
		looptest.Start(t, inf.Run)
		release := make(chan struct{})
		c, _ := newController(t, controller.Config[string]{}, func(ctx context.Context, _ string) (controller.Result, error) {
			<-release
			reconcile.ReportWrite(ctx, objects.Kind, objects.DB, 9)
			return controller.Result{}, nil
		}, controller.For(inf))
		r := looptest.Start(t, c.Run)
		synctest.Wait()
		r.Cancel()
		synctest.Wait()
		close(release)
		require.NoError(t, r.Stop())
		time.Sleep(time.Hour)
		assert.Empty(t, c.Stats().CacheLag, "nobody follows the cache anymore")
	})
}

// restore makes s a copy from a backup, which has only its first object, at version 1.
func (s *source) restore() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = s.events[:1]
	first := s.events[0].Object
	s.objects = map[string]object{first.Key: first}
}

func TestKeyWaitsForWritesAfterVersionsWentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(object{Key: "first"})
		for range 9 {
			s.set(object{Key: "child"})
		}
		inf := newInformer("things", s)
		versions := expectations.NewVersions(expectations.Config[string]{TTL: -1})
		c, reports := newController(t, controller.Config[string]{Expectations: []controller.Expectations[string]{versions}}, noop)
		inf.OnVersion(func(v informer.Version) { versions.VersionObserved(uint64(v)) }) // before Run: it misses no version
		running := looptest.Start(t, inf.Run)
		looptest.Start(t, c.Run)
		synctest.Wait()
		versions.ExpectVersion("old", 12) // a write to the old history, which is lost with it
		c.Add("old")
		synctest.Wait()
		require.Empty(t, reports.Take())
		s.restore()
		inf.Reset()
		synctest.Wait()
		require.EqualValues(t, 1, inf.Version())
		assert.Equal(t, []string{"old"}, keysOf(reports.Take()), "its version belongs to no history anymore")

		versions.ExpectVersion("a", 3)
		c.Add("a")
		time.Sleep(time.Hour)
		require.Empty(t, reports.Take(), "the cache does not show version 3 yet")
		s.set(object{Key: "child"})
		synctest.Wait()
		require.Empty(t, reports.Take())
		s.set(object{Key: "child"})
		synctest.Wait()
		assert.Equal(t, []string{"a"}, keysOf(reports.Take()))
		running.Stop()
	})
}
