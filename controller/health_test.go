package controller_test

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"runtime/pprof"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/poll"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/workqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
)

// hangHere hangs until leave is closed.
func hangHere(leave chan struct{}) { <-leave }

// Progress of other keys does not count: a worker that never returns is lost, and its key with it.
func TestControllerIsStuckWhileOtherKeysAreReconciled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leave := make(chan struct{})
		c, _ := newController(t, controller.Config[string]{Workers: 2, StuckAfter: time.Minute},
			func(_ context.Context, key string) (controller.Result, error) {
				switch key {
				case "hangs":
					hangHere(leave)
				case "fails":
					return controller.Result{RequeueAfter: time.Second}, nil
				}
				return controller.Result{}, nil
			})
		r := looptest.Start(t, c.Run)
		c.Add("hangs")
		c.Add("fails")
		time.Sleep(time.Minute)
		require.NoError(t, c.Check())
		for range 7 {
			time.Sleep(time.Minute)
			synctest.Wait()
			require.ErrorIs(t, c.Check(), controller.ErrStuck)
			assert.Contains(t, c.Check().Error(), "key hangs is in flight for ")
		}
		close(leave)
		synctest.Wait()
		require.NoError(t, c.Check())
		require.NoError(t, r.Stop())
	})
}

// The informer calls Where and When of For and Owns itself: one that does not return stops the cache, for every controller.
func TestControllerIsStuckWhileItsCacheWaitsForFunctionOfWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		inf := newInformer("things", s)
		looptest.Start(t, inf.Run)
		leave := make(chan struct{})
		cfg := controller.Config[string]{StuckAfter: time.Minute}
		bystander, _ := newController(t, cfg, noop, controller.For(inf))
		looptest.Start(t, bystander.Run)
		synctest.Wait()
		c, _ := newController(t, cfg, noop, controller.For(inf).When(func(_, o object) bool {
			if o.Value == 2 {
				hangHere(leave)
			}
			return true
		}))
		r := looptest.Start(t, c.Run)
		s.set(object{Key: "a", Value: 1})
		synctest.Wait()
		s.set(object{Key: "a", Value: 2})
		time.Sleep(time.Minute)
		require.NoError(t, c.Check())
		time.Sleep(time.Second)
		require.ErrorIs(t, c.Check(), controller.ErrStuck)
		require.EqualError(t, bystander.Check(), `controller: check "test": stuck: the cache of things has waited for 1m1s for things handler 2`)
		close(leave)
		synctest.Wait()
		require.NoError(t, c.Check())
		require.NoError(t, r.Stop())
		require.NoError(t, c.Check())
	})
}

// hangThere hangs until leave is closed.
func hangThere(leave chan struct{}) { <-leave }

// A page is read often, and by everybody. A dump of the stacks stops all goroutines.
func TestInspectorTakesAtMostOneStackOfAReconcileInFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next, leave := make(chan struct{}), make(chan struct{})
		c, _ := newController(t, controller.Config[string]{Workers: 2},
			func(_ context.Context, key string) (controller.Result, error) {
				if key == "first" {
					hangHere(next)
				}
				hangThere(leave)
				return controller.Result{}, nil
			})
		r := looptest.Start(t, c.Run)
		stack := func() string {
			t.Helper()
			return string(c.Inspect().Stack("first"))
		}
		c.Add("first")
		time.Sleep(time.Second)
		c.Add("second")
		time.Sleep(2 * time.Minute)
		assert.Contains(t, stack(), "hangHere")
		next <- struct{}{}
		time.Sleep(5*time.Second - time.Nanosecond)
		assert.Contains(t, stack(), "hangHere", "the last one is shown")
		assert.Contains(t, string(c.Inspect().Stack("second")), "hangThere", "each reconcile has its own")
		time.Sleep(time.Nanosecond)
		assert.Contains(t, stack(), "hangThere")
		close(leave)
		require.NoError(t, r.Stop())
	})
}

// The worker of a stack may be at another reconcile within five seconds.
func TestStackIsThatOfTheReconcileInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next, leave := make(chan struct{}), make(chan struct{})
		attempts := 0
		c, _ := newController(t, controller.Config[string]{}, func(context.Context, string) (controller.Result, error) {
			if attempts++; attempts == 1 {
				hangHere(next)
				return controller.Result{RequeueAfter: time.Second}, nil
			}
			hangThere(leave)
			return controller.Result{}, nil
		})
		r := looptest.Start(t, c.Run)
		c.Add("a")
		synctest.Wait()
		assert.Contains(t, string(c.Inspect().Stack("a")), "hangHere")
		close(next)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Contains(t, string(c.Inspect().Stack("a")), "hangThere")
		close(leave)
		synctest.Wait()
		assert.Empty(t, c.Inspect().Stack("a"), "it is not in flight")
		require.NoError(t, r.Stop())
	})
}

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
		time.Sleep(time.Minute) // long ends after 45 s
		require.NoError(t, c.Check())
		time.Sleep(time.Nanosecond)

		require.ErrorIs(t, c.Check(), controller.ErrStuck)
		require.EqualError(t, c.Check(), `controller: check "test": stuck: key hangs is in flight for 1m0s, since `+began.Format(time.RFC3339))
		stack := string(c.Inspect().Stack("hangs"))
		assert.Contains(t, stack, "controller_test.hangHere")
		assert.NotContains(t, stack, "testing.tRunner", "only the stack of the worker")
		r.Cancel()
		time.Sleep(2 * time.Minute)
		require.ErrorIs(t, c.Check(), controller.ErrStuck, "even when it ignores its stop")
		close(leave)
		require.NoError(t, r.Stop())
		require.NoError(t, c.Check())
	})
}

// blockingExpectations blocks in Expires while it is closed to callers.
type blockingExpectations struct{ open atomic.Pointer[chan struct{}] }

func (e *blockingExpectations) Expires(string) (time.Time, bool) {
	if open := e.open.Load(); open != nil {
		<-*open
	}
	return time.Time{}, false
}

func (e *blockingExpectations) Notify(func(string)) (stop func()) { return func() {} }

func TestControllerIsStuckWhenExpectationsDoNotReturn(t *testing.T) {
	for name, blocks := range map[string]bool{"before the reconcile": true, "after it": false} {
		bubble(t, name, func(t *testing.T) {
			e, leave := &blockingExpectations{}, make(chan struct{})
			cfg := controller.Config[string]{Workers: 2, StuckAfter: time.Minute, Expectations: []controller.Expectations[string]{e}}
			c, _ := newController(t, cfg, func(_ context.Context, key string) (controller.Result, error) {
				if key == "hangs" {
					e.open.Store(&leave)
				}
				return controller.Result{}, nil
			})
			c.Add("hangs")
			if blocks {
				e.open.Store(&leave)
			}
			time.Sleep(time.Second)
			began := time.Now()
			r := looptest.Start(t, c.Run)
			time.Sleep(time.Minute)
			require.NoError(t, c.Check())
			time.Sleep(time.Nanosecond)
			require.EqualError(t, c.Check(), `controller: check "test": stuck: a worker has a key since `+began.Format(time.RFC3339)+
				", and is not in its reconcile: a method of Config.Expectations, or ShardKey, has not returned")
			e.open.Store(nil)
			close(leave)
			synctest.Wait()
			require.NoError(t, c.Check())
			require.NoError(t, r.Stop())
		})
	}
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
		require.ErrorIs(t, err, controller.ErrStuck)
		assert.Contains(t, err.Error(), `check "test": stuck: no reconcile has ended for 1m1s, and key a is ready since `)
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

// tellTale is a source whose watch does what a test says.
type tellTale struct {
	*source
	watch func(ctx context.Context, yield func(informer.Event[object], error) bool)
}

func (s *tellTale) Watch(ctx context.Context, _ informer.Version) iter.Seq2[informer.Event[object], error] {
	return func(yield func(informer.Event[object], error) bool) { s.watch(ctx, yield) }
}

// promising is a tellTale that promises a bookmark every ten seconds.
type promising struct{ *tellTale }

func (promising) BookmarkPeriod() time.Duration { return 10 * time.Second }

// bookmarking is a source that promises a bookmark every second, and sends none.
type bookmarking struct{ *source }

func (bookmarking) BookmarkPeriod() time.Duration { return time.Second }

// idle is a watch of a source that is connected and has nothing to say.
func idle(ctx context.Context, yield func(informer.Event[object], error) bool) {
	<-ctx.Done()
	yield(informer.Event[object]{}, context.Cause(ctx))
}

// watchedBy returns a controller that runs and watches src.
func watchedBy(t *testing.T, src informer.ListWatcher[object], silentAfter time.Duration) *controller.Controller[string] {
	inf := must(informer.New(src, keyOf, informer.Config{Name: "things", OnError: func(error) {}}))
	looptest.Start(t, inf.Run)
	c, _ := newController(t, controller.Config[string]{SilentAfter: silentAfter}, noop, controller.For(inf))
	looptest.Start(t, c.Run)
	synctest.Wait()
	return c
}

func TestIdleConnectedSourceIsNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := watchedBy(t, &tellTale{newSource(), idle}, time.Minute)
		for range 100 {
			time.Sleep(time.Minute)
			require.NoError(t, c.Check())
		}
	})
}

func TestReconnectingIdleWatchIsNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := watchedBy(t, &tellTale{newSource(), func(_ context.Context, yield func(informer.Event[object], error) bool) {
			time.Sleep(time.Hour)
			yield(informer.Event[object]{}, errBoom)
		}}, time.Minute)
		for range 7200 {
			time.Sleep(time.Second)
			require.NoError(t, c.Check())
		}
	})
}

func TestUnreachableSourceIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := watchedBy(t, &tellTale{newSource(), func(_ context.Context, yield func(informer.Event[object], error) bool) {
			yield(informer.Event[object]{}, errBoom)
		}}, time.Minute)
		time.Sleep(time.Minute)
		require.NoError(t, c.Check())
		time.Sleep(time.Second)
		require.ErrorIs(t, c.Check(), controller.ErrSilent)
		require.EqualError(t, c.Check(), `controller: check "test": things: the source is silent: 1m0s have passed`)
	})
}

func TestSourceWithoutPromisedBookmarksIsSilent(t *testing.T) {
	for _, wrap := range []func(informer.ListWatcher[object]) informer.ListWatcher[object]{
		func(src informer.ListWatcher[object]) informer.ListWatcher[object] { return src },
		func(src informer.ListWatcher[object]) informer.ListWatcher[object] {
			return informer.Filter(src, func(object) bool { return true })
		},
		func(src informer.ListWatcher[object]) informer.ListWatcher[object] {
			return informer.Map(src, func(o object) object { return o })
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := watchedBy(t, wrap(promising{&tellTale{newSource(), func(ctx context.Context, yield func(informer.Event[object], error) bool) {
				for range 30 {
					time.Sleep(10 * time.Second)
					yield(informer.Event[object]{Type: informer.Bookmark}, nil)
				}
				idle(ctx, yield) // the connection is dead, without a sign
			}}}), time.Second)
			for range 300 + 20 {
				time.Sleep(time.Second)
				require.NoError(t, c.Check(), "it gets twice its promised interval")
			}
			time.Sleep(time.Second)
			require.ErrorIs(t, c.Check(), controller.ErrSilent)
		})
	}
}

func TestFailingPollerIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fail atomic.Bool
		src := must(poll.New(func(context.Context) ([]object, error) {
			if fail.Load() {
				return nil, errBoom
			}
			return nil, nil
		}, keyOf, poll.Config[object]{Interval: 10 * time.Second}))
		c := watchedBy(t, src, time.Minute)
		time.Sleep(time.Hour)
		require.NoError(t, c.Check(), "each poll without changes counts as heard")
		fail.Store(true)
		time.Sleep(2 * time.Minute)
		assert.ErrorIs(t, c.Check(), controller.ErrSilent)
	})
}
