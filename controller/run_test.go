package controller_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/workqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slow is a reconcile that takes a second, unless its context ends.
func slow(ctx context.Context, _ string) (controller.Result, error) {
	select {
	case <-time.After(time.Second):
		return controller.Result{}, nil
	case <-ctx.Done():
		return controller.Result{}, context.Cause(ctx)
	}
}

func TestStopDrainsQueuedDirtyAndInFlightKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{DrainOnStop: true}, slow)
		r := looptest.Start(t, c.Run)
		c.Add("in flight and dirty")
		synctest.Wait()
		c.Add("in flight and dirty")
		c.Add("queued")
		began := time.Now()
		require.NoError(t, r.Stop())
		assert.Equal(t, 3*time.Second, time.Since(began))
		reported := reports.Take()
		assert.Equal(t, []string{"in flight and dirty", "queued", "in flight and dirty"}, keysOf(reported))
		for _, r := range reported {
			assert.Equal(t, controller.Succeeded, r.Outcome)
		}
		assert.Zero(t, c.Stats().Queue.Ready)
		c.CheckInvariants(t)
	})
}

func TestDrainLeavesDelayedKeysToNextRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		after := time.Hour
		c, reports := newController(t, controller.Config[string]{DrainOnStop: true}, func(context.Context, string) (controller.Result, error) {
			return controller.Result{RequeueAfter: after}, nil
		})
		r := looptest.Start(t, c.Run)
		keys := []string{"h", "a", "g", "b", "f", "c", "e", "d"}
		for _, key := range keys {
			c.Add(key)
		}
		synctest.Wait()
		began := time.Now()
		require.NoError(t, r.Stop())
		assert.Zero(t, time.Since(began))
		assert.Len(t, reports.Take(), len(keys))

		after = 0
		looptest.Start(t, c.Run)
		synctest.Wait()
		assert.Equal(t, keys, keysOf(reports.Take()), "in the order in which they came")
		time.Sleep(2 * time.Hour)
		assert.Empty(t, reports.Take(), "the wake-up of the earlier run is gone")
		c.CheckInvariants(t)
	})
}

func TestRequeueDuringDrainIsLeftToNextRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := controller.Config[string]{DrainOnStop: true, Workers: 3, Queue: workqueue.Config[string]{RateLimiter: &limiter{delay: time.Millisecond}}}
		again := true
		c, reports := newController(t, cfg, func(ctx context.Context, key string) (controller.Result, error) {
			r, err := slow(ctx, key)
			switch {
			case !again:
				return r, err
			case key == "requeued":
				return controller.Result{RequeueAfter: time.Millisecond}, err
			case key == "failed":
				return r, errBoom
			}
			_, err = slow(ctx, key)
			return r, err
		})
		r := looptest.Start(t, c.Run)
		for _, key := range []string{"requeued", "failed", "slow"} {
			c.Add(key)
		}
		synctest.Wait()
		began := time.Now()
		require.NoError(t, r.Stop())
		assert.Equal(t, 2*time.Second, time.Since(began))
		assert.Equal(t, []string{"failed", "requeued", "slow"}, sorted(reports.Take()), "each once")
		again = false
		looptest.Start(t, c.Run)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"failed", "requeued"}, sorted(reports.Take()))
		c.CheckInvariants(t)
	})
}

func TestAddDuringDrainIsLeftToNextRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{DrainOnStop: true}, slow)
		r := looptest.Start(t, c.Run)
		c.Add("a")
		c.Add("b")
		synctest.Wait()
		r.Cancel()
		synctest.Wait()
		c.Add("a")
		c.Add("late")
		assert.Equal(t, 1, c.Stats().Queue.InProcess, "of the draining queue")
		assert.Equal(t, 1, c.Stats().Queue.Ready, "of the draining queue")
		require.NoError(t, r.Stop())
		assert.Equal(t, []string{"a", "b"}, keysOf(reports.Take()))
		assert.Equal(t, 2, c.Stats().Queue.Ready, "of the next queue")

		looptest.Start(t, c.Run)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"a", "late"}, keysOf(reports.Take()))
	})
}

func TestDrainTimeoutNamesAndKeepsRemainingKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{DrainOnStop: true, Workers: 2, DrainTimeout: 2500 * time.Millisecond}, slow)
		r := looptest.Start(t, c.Run)
		for i := range 20 {
			c.Add(fmt.Sprint("k", i))
		}
		synctest.Wait()
		began := time.Now()
		err := r.Stop()
		assert.Equal(t, 2500*time.Millisecond, time.Since(began))
		require.ErrorIs(t, err, controller.ErrDrainTimeout)
		assert.Contains(t, err.Error(), `controller: run "test": not drained in time: 2.5s have passed: 16 keys left: `)
		assert.Contains(t, err.Error(), `k6, k7, k8, k9, k10, k11, k12, k13, k14, k15, ...`)

		outcomes := map[controller.Outcome]int{}
		for _, r := range reports.Take() {
			outcomes[r.Outcome]++
			if r.Outcome == controller.Canceled {
				require.ErrorIs(t, r.Err, controller.ErrDrainTimeout)
			}
		}
		assert.Equal(t, map[controller.Outcome]int{controller.Succeeded: 4, controller.Canceled: 2}, outcomes)
		c.CheckInvariants(t)

		looptest.Start(t, c.Run)
		time.Sleep(time.Minute)
		assert.ElementsMatch(t, []string{
			"k4", "k5", "k6", "k7", "k8", "k9", "k10", "k11", "k12", "k13", "k14", "k15", "k16", "k17", "k18", "k19",
		}, keysOf(reports.Take()))
	})
}

func TestDrainTimeoutWithNothingLeftIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{DrainTimeout: time.Second}, func(context.Context, string) (controller.Result, error) {
			time.Sleep(time.Minute) // ignores its context
			return controller.Result{}, nil
		})
		r := looptest.Start(t, c.Run)
		c.Add("a")
		synctest.Wait()
		began := time.Now()
		require.NoError(t, r.Stop())
		assert.Equal(t, time.Minute, time.Since(began), "Run waits for a Reconcile that ignores its context")
		assert.Equal(t, controller.Succeeded, reports.Take()[0].Outcome)
	})
}

func TestReconcileContextKeepsValuesOfRunAndOutlivesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type valueKey struct{}
		entered := make(chan context.Context, 1)
		leave := make(chan struct{})
		c, _ := newController(t, controller.Config[string]{}, func(ctx context.Context, _ string) (controller.Result, error) {
			entered <- ctx
			<-leave
			return controller.Result{}, nil
		})
		r := looptest.StartIn(context.WithValue(t.Context(), valueKey{}, 7), t, c.Run)
		c.Add("a")
		ctx := <-entered
		assert.Equal(t, 7, ctx.Value(valueKey{}))
		r.Cancel()
		synctest.Wait()
		require.NoError(t, ctx.Err())
		close(leave)
		require.NoError(t, r.Stop())
		require.Error(t, ctx.Err(), "work left behind by Reconcile is stopped")
	})
}

func TestKeyTakenDuringStopIsPutBack(t *testing.T) {
	c, reports := newController(t, controller.Config[string]{}, noop)
	c.Add("a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.Work(&endsLate{Context: t.Context(), looks: 2}, ctx) // after the key was taken
	assert.Empty(t, reports.Take())
	c.CheckInvariants(t)
	assert.Equal(t, workqueue.Stats{Ready: 1}, c.Stats().Queue)
}

// endsLate is a context that ends after a number of checks.
type endsLate struct {
	context.Context
	looks int
}

func (c *endsLate) Err() error {
	if c.looks--; c.looks >= 0 {
		return nil
	}
	return context.Canceled
}

func TestBlockedMapperDoesNotDelayStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		inf := newInformer("things", s)
		looptest.Start(t, inf.Run)
		var ended time.Time
		c, _ := newController(t, controller.Config[string]{DrainTimeout: time.Second}, func(ctx context.Context, _ string) (controller.Result, error) {
			<-ctx.Done()
			ended = time.Now()
			return controller.Result{}, ctx.Err()
		}, controller.Watches(inf, pure(func(object) []string {
			time.Sleep(time.Minute)
			return nil
		})))
		r := looptest.Start(t, c.Run)
		c.Add("a")
		synctest.Wait()
		s.set(object{Key: "x"})
		synctest.Wait()
		began := time.Now()
		require.ErrorContains(t, r.Stop(), "1 keys left: a")
		assert.Equal(t, time.Second, ended.Sub(began))
		assert.Equal(t, time.Minute, time.Since(began), "Run waits for the mapper")
	})
}

// large is a key, its first number, that takes long to copy: so a stop has the time to come between the steps of an Add.
type large [64]int

func TestNoKeyAddedDuringStopIsLost(t *testing.T) {
	const runs = 20
	synctest.Test(t, func(t *testing.T) {
		var seen sync.Map
		began := make(chan struct{}, 1)
		c, err := controller.New("test", func(_ context.Context, key large) (controller.Result, error) {
			if key[0] == 0 {
				began <- struct{}{}
			}
			seen.Store(key[0], true)
			return controller.Result{}, nil
		}, controller.Config[large]{Logger: quiet})
		require.NoError(t, err)
		n := 0
		for range runs {
			r := looptest.Start(t, c.Run)
			c.Add(large{})
			<-began
			r.Cancel()
			for !r.Ended() { // one goroutine adds, while another stops
				n++
				c.Add(large{n})
				runtime.Gosched()
			}
			require.NoError(t, r.Stop())
		}
		looptest.Start(t, c.Run)
		synctest.Wait()
		for i := range n {
			_, ok := seen.Load(i)
			require.True(t, ok, "key %d of %d", i, n)
		}
	})
}

func TestDrainErrorOmitsKeysInBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := controller.Config[string]{DrainOnStop: true, DrainTimeout: time.Second, Queue: workqueue.Config[string]{RateLimiter: &limiter{delay: time.Hour}}}
		c, _ := newController(t, cfg, func(ctx context.Context, key string) (controller.Result, error) {
			if key == "slow" {
				<-ctx.Done()
			}
			return controller.Result{}, errBoom
		})
		r := looptest.Start(t, c.Run)
		c.Add("failed")
		c.Add("slow")
		synctest.Wait()
		require.ErrorContains(t, r.Stop(), "1 keys left: slow")
		assert.Equal(t, 2, c.Stats().Queue.Ready)
	})
}

func TestImmediateRetriesDoNotPreventDrain(t *testing.T) {
	for name, f := range map[string]func(context.Context, string) (controller.Result, error){
		"a failure without a delay": func(context.Context, string) (controller.Result, error) {
			time.Sleep(time.Second)
			return controller.Result{}, errBoom
		},
		"the shortest delay": func(context.Context, string) (controller.Result, error) {
			time.Sleep(time.Second - 1)
			return controller.Result{RequeueAfter: 1}, nil
		},
	} {
		bubble(t, name, func(t *testing.T) {
			c, reports := newController(t, controller.Config[string]{DrainOnStop: true, Queue: workqueue.Config[string]{RateLimiter: &limiter{}}}, f)
			r := looptest.Start(t, c.Run)
			c.Add("a")
			time.Sleep(4500 * time.Millisecond)
			assert.Len(t, reports.Take(), 4, "it is repeated until the stop")
			require.NoError(t, r.Stop())
			assert.Len(t, reports.Take(), 1)
			assert.Equal(t, 1, c.Stats().Queue.Ready, "it is left to the next run")
			c.CheckInvariants(t)
		})
	}
}

func TestAddPanicsOnKeyUnequalToItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := controller.New("test", func(context.Context, float64) (controller.Result, error) {
			time.Sleep(time.Second)
			return controller.Result{}, nil
		}, controller.Config[float64]{Logger: quiet})
		require.NoError(t, err)
		check := func() {
			assert.Panics(t, func() { c.Add(math.NaN()) })
			assert.Panics(t, func() { c.PauseKey(math.NaN()) })
			assert.Panics(t, func() { _ = c.WaitReconciled(t.Context(), math.NaN()) })
			c.CheckInvariants(t)
		}
		check()
		r := looptest.Start(t, c.Run)
		c.Add(1)
		synctest.Wait()
		r.Cancel()
		synctest.Wait()
		check() // while it drains
		require.NoError(t, r.Stop())
		check()
	})
}

// A rolling deployment must not wait until a backlog is done that the next process lists anyway.
func TestStopFinishesOnlyWhatIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiting, workers = 5000, 4
		c, reports := newController(t, controller.Config[string]{Workers: workers}, slow)
		r := looptest.Start(t, c.Run)
		for i := range waiting {
			c.Add(fmt.Sprint(i))
		}
		synctest.Wait()
		for i := range workers { // dirty
			c.Add(fmt.Sprint(i))
		}
		began := time.Now()
		require.NoError(t, r.Stop(), "waiting keys are not lost, so they are no error")
		assert.Equal(t, time.Second, time.Since(began))
		reported := reports.Take()
		assert.Equal(t, []string{"0", "1", "2", "3"}, sorted(reported))
		for _, r := range reported {
			assert.Equal(t, controller.Succeeded, r.Outcome)
		}
		c.CheckInvariants(t)

		assert.Equal(t, waiting, c.Stats().Queue.Ready)
		looptest.Start(t, c.Run)
		time.Sleep(waiting / workers * time.Second)
		synctest.Wait()
		assert.Equal(t, waiting, reports.Len(), "the next Run does the rest")
	})
}

func TestStopErrorNamesOnlyInterruptedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{Workers: 3, DrainTimeout: 2 * time.Second},
			func(ctx context.Context, key string) (controller.Result, error) {
				switch key {
				case "stuck", "stuck too":
					<-ctx.Done()
					return controller.Result{}, context.Cause(ctx)
				}
				return slow(ctx, key)
			})
		r := looptest.Start(t, c.Run)
		for _, key := range []string{"stuck", "slow", "stuck too", "waits", "waits too"} {
			c.Add(key)
		}
		synctest.Wait()
		began := time.Now()
		err := r.Stop()
		assert.Equal(t, 2*time.Second, time.Since(began))
		require.ErrorIs(t, err, controller.ErrDrainTimeout)
		assert.Regexp(t, "2 keys left: (stuck, stuck too|stuck too, stuck)$", err.Error()) // in the order in which they have ended
		assert.NotContains(t, err.Error(), "waits")
		assert.Len(t, reports.Take(), 3)
		assert.Equal(t, 4, c.Stats().Queue.Ready)

		c.CheckInvariants(t)
	})
}

// A stop ends quiet times: the key is reconciled in the drain, or by the next Run.
func TestStopEndsQuietTimes(t *testing.T) {
	for _, drain := range []bool{true, false} {
		for _, debounce := range []time.Duration{time.Minute, 10 * time.Second} { // longer and shorter than DrainTimeout
			for state, enter := range map[string]func(c *controller.Controller[string]){
				"absent": func(c *controller.Controller[string]) { c.Add("a") },
				"in flight": func(c *controller.Controller[string]) {
					c.Add("a")
					time.Sleep(debounce)
					synctest.Wait()
					c.Add("a")
				},
				"parked": func(c *controller.Controller[string]) {
					c.Add("parked")
					time.Sleep(debounce + time.Second)
					synctest.Wait()
					c.Add("parked")
				},
			} {
				bubble(t, fmt.Sprintf("%v/%v/%s", drain, debounce, state), func(t *testing.T) {
					cfg := controller.Config[string]{DrainOnStop: drain, Queue: workqueue.Config[string]{Debounce: debounce, MaxAttempts: 1}}
					c, reports := newController(t, cfg, func(ctx context.Context, key string) (controller.Result, error) {
						result, err := slow(ctx, key)
						if key == "parked" {
							err = errBoom
						}
						return result, err
					})
					r := looptest.Start(t, c.Run)
					synctest.Wait()
					enter(c)
					inFlight := c.Stats().Queue.InProcess
					reports.Take()
					began := time.Now()
					require.NoError(t, r.Stop())
					if want := time.Duration(inFlight) * time.Second; drain {
						assert.Equal(t, want+time.Second, time.Since(began))
						assert.Equal(t, inFlight+1, len(reports.Take()))
						return
					}
					assert.Equal(t, time.Duration(inFlight)*time.Second, time.Since(began))
					assert.Equal(t, inFlight, len(reports.Take()))
					assert.Equal(t, 1, c.Stats().Queue.Ready, "%+v", c.Snapshot())
					looptest.Start(t, c.Run)
					time.Sleep(time.Second)
					synctest.Wait()
					assert.Len(t, reports.Take(), 1, "by the next Run, without a quiet time")
					c.CheckInvariants(t)
				})
			}
		}
	}
}

// A key that is added in the moment in which the drain begins is quiet in its queue.
func TestAddDuringBeginOfDrainDoesNotWaitForQuietTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{
			DrainOnStop: true, DrainTimeout: time.Hour, Queue: workqueue.Config[string]{Debounce: time.Minute},
		}, slow)
		r := looptest.Start(t, c.Run)
		for i := range 200 {
			go c.Add(fmt.Sprint(i)) // ends at once
		}
		began := time.Now()
		require.NoError(t, r.Stop())
		assert.Equal(t, time.Duration(reports.Len())*time.Second, time.Since(began))
		synctest.Wait()
		keys := make(map[string]bool) // a key that was added during its reconcile is reconciled again
		for _, r := range reports.Take() {
			keys[r.Key] = true
		}
		for _, k := range c.Snapshot() {
			keys[k.Key] = true
		}
		assert.Len(t, keys, 200, "no key is lost")
	})
}

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
