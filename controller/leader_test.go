package controller_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/internal/reconcile"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/workqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLostLeadershipStopsWorkWithoutDraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type valueKey struct{}
		store := newLeases()
		var terms []uint64
		var began atomic.Int64
		c, reports := newController(t, controller.Config[string]{Workers: 2}, func(ctx context.Context, _ string) (controller.Result, error) {
			began.Add(1)
			assert.Equal(t, "value", ctx.Value(valueKey{}))
			l, _ := leaderelect.FromContext(ctx)
			if mine, ok := leaderelect.FromContext(ctx); ok && l.Term() == 1 {
				<-ctx.Done()
				assert.Equal(t, uint64(1), mine.Term())
				assert.ErrorIs(t, context.Cause(ctx), leaderelect.ErrLeaseExpired)
				assert.False(t, time.Now().After(l.Deadline()), "at the time of the loss, not later")
				return controller.Result{}, nil // even a success does not lead to the next key
			}
			return controller.Result{}, nil
		})
		for i := range 10 {
			c.Add(fmt.Sprint("k", i))
		}
		lead(t, store, func(ctx context.Context) error {
			mine, _ := leaderelect.FromContext(ctx)
			terms = append(terms, mine.Term())
			return c.Run(context.WithValue(ctx, valueKey{}, "value"))
		})
		time.Sleep(time.Second)
		synctest.Wait()
		cut(store, true)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		assert.EqualValues(t, 2, began.Load(), "no reconcile began after the loss")
		assert.False(t, c.Stats().Running)
		assert.Equal(t, 8, c.Stats().Queue.Ready, "the others wait")
		reports.Take()

		cut(store, false)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, []uint64{1, 2}, terms)
		assert.Len(t, reports.Take(), 8, "the next term does them")
	})
}

func TestLeadershipLossDuringDrainStopsIt(t *testing.T) {
	for _, lose := range []bool{false, true} {
		bubble(t, fmt.Sprintf("lost: %v", lose), func(t *testing.T) {
			store := newLeases()
			c, reports := newController(t, controller.Config[string]{DrainOnStop: true}, func(ctx context.Context, key string) (controller.Result, error) {
				for range 6 {
					if r, err := slow(ctx, key); err != nil {
						return r, err
					}
				}
				return controller.Result{}, nil
			})
			for i := range 4 {
				c.Add(fmt.Sprint("k", i))
			}
			var err error
			r := lead(t, store, func(ctx context.Context) error {
				err = c.Run(ctx)
				return err
			})
			time.Sleep(time.Second)
			r.Cancel()
			synctest.Wait()
			cut(store, lose)
			r.Stop()
			require.NoError(t, err)
			if lose {
				reported := reports.Take()
				assert.Less(t, len(reported), 4)
				assert.Equal(t, controller.Canceled, reported[len(reported)-1].Outcome)
				assert.Equal(t, 4-len(reported)+1, c.Stats().Queue.Ready)
			} else {
				assert.Len(t, reports.Take(), 4)
			}
		})
	}
}

func TestEndedDrainOfElectionNamesRemainingKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newController(t, controller.Config[string]{DrainOnStop: true}, slow)
		for i := range 4 {
			c.Add(fmt.Sprint("k", i))
		}
		cfg := *election(newLeases())
		cfg.DrainTimeout = 1500 * time.Millisecond
		var err error
		cfg.OnStartedLeading = func(ctx context.Context, _ *leaderelect.Leadership) error {
			err = c.Run(ctx)
			return err
		}
		elector, newErr := leaderelect.New(cfg)
		require.NoError(t, newErr)
		r := looptest.Start(t, elector.Run)
		synctest.Wait()
		r.Stop()
		require.ErrorIs(t, err, leaderelect.ErrDrainTimeout)
		assert.Contains(t, err.Error(), "3 keys left: k2, k3, k1")
	})
}

func TestRunEndsWithLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeases()
		ran := make(chan error, 1)
		c, _ := newController(t, controller.Config[string]{}, noop)
		lead(t, store, func(ctx context.Context) error {
			err := c.Run(context.WithoutCancel(ctx))
			ran <- err
			return err
		})
		synctest.Wait()
		cut(store, true)
		require.NoError(t, <-ran)
	})
}

// A process that was suspended resumes after its deadline, and the timer that ends its leadership has not run yet. These
// tests get there in two ways: a goroutine that wakes at the deadline races with that timer, which is why they repeat; and
// code that a worker calls before a reconcile returns after the deadline.

// resumptions is how often a process resumes at its deadline. In about half of them the worker is ahead of the timer.
const resumptions = 60

// untilDeadline returns at the deadline of l, perhaps before the timer has run that ends l.
func untilDeadline(l *leaderelect.Leadership) { time.Sleep(time.Until(l.Deadline())) }

// leads fails the test unless the leadership of ctx lasts, by the clock.
func leads(ctx context.Context, t *testing.T, why string) {
	l, ok := leaderelect.FromContext(ctx)
	assert.True(t, ok && time.Until(l.Deadline()) > 0, why)
}

func TestNoReconcileStartsAfterDeadlineOfSuspendedLeader(t *testing.T) {
	for range resumptions {
		synctest.Test(t, func(t *testing.T) {
			store := newLeases()
			c, reports := newController(t, controller.Config[string]{}, func(ctx context.Context, key string) (controller.Result, error) {
				leads(ctx, t, key+" begins after the deadline")
				if key == "first" {
					l, _ := leaderelect.FromContext(ctx)
					untilDeadline(l)
				}
				return controller.Result{}, nil
			})
			lead(t, store, c.Run)
			synctest.Wait()
			cut(store, true)
			c.Add("first")
			synctest.Wait()
			for i := range 20 {
				c.Add(fmt.Sprint("k", i))
			}
			time.Sleep(15 * time.Second)
			synctest.Wait()
			assert.False(t, c.Stats().Running)
			assert.Zero(t, c.Stats().Queue.InProcess)

			reports.Take()
			cut(store, false)
			time.Sleep(time.Minute)
			assert.Zero(t, c.Stats().Queue, "the next term does the rest")
		})
	}
}

func TestNoReconcileStartsIfLeadershipEndsAfterDispatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeases()
		var suspended atomic.Bool
		cfg := controller.Config[string]{Queue: workqueue.Config[string]{Hooks: workqueue.Hooks[string]{
			Dispatched: func(string, int, time.Duration) {
				if suspended.CompareAndSwap(false, true) {
					time.Sleep(time.Minute)
				}
			},
		}}}
		c, reports := newController(t, cfg, func(ctx context.Context, _ string) (controller.Result, error) {
			leads(ctx, t, "it begins after the deadline")
			return controller.Result{}, nil
		})
		lead(t, store, c.Run)
		synctest.Wait()
		cut(store, true)
		c.Add("a")
		time.Sleep(90 * time.Second)
		synctest.Wait()
		assert.Empty(t, reports.Take())
		cut(store, false)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"a"}, keysOf(reports.Take()), "the next term does it")
	})
}

func TestStepOfSuspendedLeaderDoesNothing(t *testing.T) {
	for range resumptions {
		synctest.Test(t, func(t *testing.T) {
			store := newLeases()
			c, _ := newController(t, controller.Config[string]{}, func(ctx context.Context, _ string) (controller.Result, error) {
				leads(ctx, t, "a step begins after the deadline")
				return controller.Result{}, nil
			})
			c.Add("a")
			lead(t, store, func(ctx context.Context) error {
				cut(store, true)
				l, _ := leaderelect.FromContext(ctx)
				untilDeadline(l)
				_, ok := next(ctx, c)
				assert.False(t, ok)
				return nil
			})
			time.Sleep(20 * time.Second)
			synctest.Wait()
			assert.Equal(t, []string{"a"}, queued(c), "it waits for the next leader")
		})
	}
}

// queued returns the keys in the queue of c.
func queued(c *controller.Controller[string]) (keys []string) {
	for _, k := range c.Snapshot() {
		keys = append(keys, k.Key)
	}
	return keys
}

func TestErrorAfterDeadlineIsNoFailure(t *testing.T) {
	for range resumptions {
		synctest.Test(t, func(t *testing.T) {
			store := newLeases()
			c, reports := newController(t, controller.Config[string]{Queue: workqueue.Config[string]{MaxAttempts: 1}}, func(ctx context.Context, _ string) (controller.Result, error) {
				l, _ := leaderelect.FromContext(ctx)
				untilDeadline(l)
				return controller.Result{}, errBoom
			})
			c.Add("a")
			lead(t, store, c.Run)
			synctest.Wait()
			cut(store, true)
			time.Sleep(20 * time.Second)
			synctest.Wait()
			all := reports.Take()
			require.Len(t, all, 1)
			assert.Equal(t, controller.Canceled, all[0].Outcome)
			require.ErrorIs(t, all[0].Err, leaderelect.ErrLeaseExpired)
			require.ErrorIs(t, all[0].Err, errBoom)
			assert.Empty(t, c.Parked())
			cut(store, false)
		})
	}
}

func TestNoReconcileStartsAfterSlotDeadline(t *testing.T) {
	for range resumptions {
		synctest.Test(t, func(t *testing.T) {
			store := newLeases()
			var c *controller.Controller[string]
			slots, err := shard.New(shard.Config{
				Lease: leaderelect.Config{Store: store, Key: "lock", Identity: "me", Logger: quiet}, Slots: 1,
				OnAcquired: func(context.Context, int) error {
					for _, key := range []string{"first", "b", "c", "d"} {
						c.Add(key)
					}
					return nil
				},
			})
			require.NoError(t, err)
			c, err = controller.New("test", func(ctx context.Context, key string) (controller.Result, error) {
				leads(ctx, t, key+" begins after the deadline")
				l, _ := leaderelect.FromContext(ctx)
				if key == "first" && l.Term() == 1 {
					untilDeadline(l)
					return controller.Result{}, errBoom
				}
				return controller.Result{}, nil
			}, controller.Config[string]{Logger: quiet, Queue: workqueue.Config[string]{MaxAttempts: 1}})
			require.NoError(t, err)
			c.Share(slots)
			looptest.Start(t, slots.Run)
			looptest.Start(t, c.Run)
			synctest.Wait()
			cut(store, true)
			time.Sleep(20 * time.Second)
			synctest.Wait()
			assert.EqualValues(t, 1, c.Stats().Outcomes[controller.Canceled], "the error came too late")
			cut(store, false)
			time.Sleep(time.Minute)
			assert.Zero(t, c.Stats().Queue)
			assert.EqualValues(t, 4, c.Stats().Outcomes[controller.Succeeded])
		})
	}
}

// restarted is a mirror of a store that was restored from a backup. Its cache is at version 2. Then it goes on to version 0, the
// beginning of the new history, and from there to version 3. As in an informer, a version is there first, and told then.
//
// It takes these steps while a controller connects: pauses says how many before OnVersion returns, and how many after each read of
// the version, before the reader can use it.
type restarted struct {
	pauses  []int
	taken   int // steps
	version informer.Version
	told    informer.Version
	tell    func(informer.Version)
}

const restartSteps = 8 // two for each of the versions 0, 1, 2, and 3

func (r *restarted) step() {
	next := informer.Version(r.taken / 2)
	if r.taken%2 == 0 {
		r.version = next
	} else {
		r.told = next
		if r.tell != nil {
			r.tell(next)
		}
	}
	r.taken++
}

func (r *restarted) pause() {
	if len(r.pauses) == 0 {
		return
	}
	n := r.pauses[0]
	r.pauses = r.pauses[1:]
	for range n {
		r.step()
	}
}

func (r *restarted) Version() informer.Version {
	defer r.pause()
	return r.version
}

func (r *restarted) OnVersion(f func(informer.Version)) (stop func()) {
	r.pause()
	r.tell = f
	r.pause()
	return func() { r.tell = nil }
}

func (r *restarted) WaitForVersion(context.Context, informer.Version) error { return nil }

func (r *restarted) Name() string { return "restarted" }

func (r *restarted) Source() any { return kinded{clock: objects} }

func (r *restarted) Run(context.Context) error { return nil }

func (r *restarted) Synced() <-chan struct{} {
	synced := make(chan struct{})
	close(synced)
	return synced
}

// schedules calls f with every way to take at most n steps in the given number of pauses.
func schedules(pauses, n int, f func([]int)) {
	var fill func(done []int, left int)
	fill = func(done []int, left int) {
		if len(done) == pauses {
			f(append([]int(nil), done...))
			return
		}
		for k := range left + 1 {
			fill(append(done, k), left-k)
		}
	}
	fill(nil, n)
}

// A source starts a new history while the controller reads the version of its cache. In any interleaving, a connected
// controller holds a key exactly until the cache has reached the version of its write in the new history.
func TestResetDuringConnectKeepsVersionsCorrect(t *testing.T) {
	n := 0
	schedules(6, restartSteps, func(pauses []int) {
		if t.Failed() {
			return
		}
		n++
		r := &restarted{pauses: pauses, version: 2, told: 2}
		checkRestart(t, r, fmt.Sprint("pauses ", pauses))
	})
	assert.Equal(t, 3003, n)
}

func checkRestart(t *testing.T, r *restarted, schedule string) {
	var wrote informer.Version
	c, _ := newController(t, controller.Config[string]{Reads: []controller.Informer{r}},
		func(ctx context.Context, _ string) (controller.Result, error) {
			reconcile.ReportWrite(ctx, objects.Kind, objects.DB, uint64(wrote))
			return controller.Result{}, nil
		})
	disconnect, err := c.Connect(t.Context())
	require.NoError(t, err)
	defer disconnect()
	keys := 0
	held := func(version informer.Version) bool {
		keys++
		key := fmt.Sprint(keys)
		wrote = version
		c.Add(key)
		_, ok := c.Step(t.Context(), key)
		if !ok {
			t.Fatal("nothing is reconciled: ", schedule)
		}
		c.Add(key)
		_, ok = c.Step(t.Context(), key)
		return !ok
	}
	for r.pauses = nil; ; r.step() {
		if r.told == r.version {
			if held(r.version) {
				t.Errorf("a key is held at version %d: %s", r.version, schedule)
			}
			if !held(r.version + 1) {
				t.Errorf("no key is held at version %d: %s", r.version+1, schedule)
			}
		}
		if r.taken == restartSteps {
			return
		}
	}
}
