package controller_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/poll"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/workqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	_ controller.Expectations[string] = (*expectations.Counted[string])(nil)
	_ controller.Expectations[string] = (*expectations.Tracked[string, int])(nil)
	_ controller.Expectations[string] = (*expectations.Versions[string])(nil)
	_ controller.Expectations[string] = (*expectations.Values[string])(nil)
)

// awaited is Expectations that do what a test says.
type awaited struct {
	asked func(n int) // called by the n-th Expires, from 1, before it looks

	mu sync.Mutex
	// mu guards the following.
	until map[string]time.Time // of the keys that wait
	tell  map[int]func(string)
	n     int
	calls int
}

func newAwaited() *awaited {
	return &awaited{until: map[string]time.Time{}, tell: map[int]func(string){}}
}

func (a *awaited) Expires(key string) (time.Time, bool) {
	a.mu.Lock()
	a.calls++
	n := a.calls
	at, ok := a.until[key]
	if ok && !at.IsZero() && !time.Now().Before(at) {
		delete(a.until, key)
		at, ok = time.Time{}, false
	}
	a.mu.Unlock()
	if a.asked != nil {
		a.asked(n)
	}
	return at, ok
}

func (a *awaited) Notify(f func(string)) (stop func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n++
	n := a.n
	a.tell[n] = f
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.tell, n)
	}
}

// expect makes key wait.
func (a *awaited) expect(key string, until time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.until[key] = until
}

// met makes key wait no longer, without a report.
func (a *awaited) met(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.until, key)
}

// meet reports that key no longer waits.
func (a *awaited) meet(key string) {
	a.mu.Lock()
	delete(a.until, key)
	var tell []func(string)
	for _, f := range a.tell {
		tell = append(tell, f)
	}
	a.mu.Unlock()
	for _, f := range tell {
		f(key)
	}
}

func (a *awaited) count() (calls, listeners int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	calls, a.calls = a.calls, 0
	return calls, len(a.tell)
}

// A worker asks twice, since a key may be released before it is held.
func TestHoldThatEndsAtOnceLeavesNoWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newAwaited()
		e.asked = func(int) { e.met("a") } // after each look
		c, reports := newController(t, controller.Config[string]{Expectations: []controller.Expectations[string]{e}},
			func(context.Context, string) (controller.Result, error) {
				return controller.Result{}, retry.Permanent(errBoom)
			})
		looptest.Start(t, c.Run)
		e.expect("a", time.Now().Add(time.Minute))
		c.Add("a")
		time.Sleep(time.Hour)
		assert.Len(t, reports.Take(), 1, "nothing revives a parked key")
		assert.Equal(t, []string{"a"}, c.Parked())
		c.CheckInvariants(t)
	})
}

func TestKeyIsHeldUntilEventMeetsExpectations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out looptest.Text
		first, second := newAwaited(), newAwaited()
		cfg := controller.Config[string]{Expectations: []controller.Expectations[string]{first, second}, Logger: looptest.Logger(&out)}
		c, reports := newController(t, cfg, noop)
		cfg.Expectations[0] = nil // it was copied
		looptest.Start(t, c.Run)
		first.expect("a", time.Now().Add(time.Hour))
		second.expect("a", time.Time{})
		c.Add("a")
		c.Add("b")
		synctest.Wait()
		assert.Equal(t, []string{"b"}, keysOf(reports.Take()))
		assert.Equal(t, 1, c.Stats().Held)
		c.Add("a")
		synctest.Wait()
		assert.Empty(t, reports.Take(), "an event does not count as a reconcile")
		first.count()
		time.Sleep(59 * time.Minute)
		calls, _ := first.count()
		assert.Zero(t, calls, "nobody polls")

		first.meet("b")
		first.meet("a")
		synctest.Wait()
		assert.Empty(t, reports.Take(), "it waits for both")
		second.meet("a")
		synctest.Wait()
		assert.Equal(t, []string{"a"}, keysOf(reports.Take()), "once, immediately")
		assert.Zero(t, c.Stats().Held)
		second.meet("a")
		time.Sleep(time.Hour)
		assert.Empty(t, reports.Take(), "keys that are not held are not added")
		assert.Empty(t, out.String())
		c.CheckInvariants(t)
	})
}

func TestExpiredExpectationsReleaseKeyAndAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out looptest.Text
		exp := newAwaited()
		c, reports := newController(t, controller.Config[string]{Expectations: []controller.Expectations[string]{exp}, Logger: looptest.Logger(&out)}, noop)
		looptest.Start(t, c.Run)
		exp.expect("a", time.Now().Add(time.Hour))
		c.Add("a")
		time.Sleep(time.Hour - time.Nanosecond)
		synctest.Wait()
		assert.Empty(t, reports.Take())
		assert.Empty(t, out.String())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.Equal(t, []string{"a"}, keysOf(reports.Take()))
		assert.Equal(t, "level=WARN msg=\"expectations expired, reconciling anyway\" controller=test key=a reason=\"expectations 1\" waited=1h0m0s\n", out.String())
		c.CheckInvariants(t)

		exp.expect("b", time.Time{})
		c.Add("b")
		time.Sleep(1000 * time.Hour)
		assert.Empty(t, reports.Take(), "an infinite delay never ends")
		exp.meet("b")
		synctest.Wait()
		assert.Equal(t, []string{"b"}, keysOf(reports.Take()))
	})
}

func TestExpectationsMetWhileHoldingKeyReleaseIt(t *testing.T) {
	for n := 1; n <= 3; n++ {
		bubble(t, fmt.Sprint("during the look number ", n), func(t *testing.T) {
			exp := newAwaited()
			c, reports := newController(t, controller.Config[string]{Expectations: []controller.Expectations[string]{exp}}, noop)
			exp.asked = func(i int) {
				if i == n {
					exp.meet("a")
				}
			}
			exp.expect("a", time.Time{})
			looptest.Start(t, c.Run)
			c.Add("a")
			synctest.Wait()
			if n == 3 {
				c.Add("a")
				synctest.Wait()
			}
			want := []string{"a"}
			if n == 3 {
				want = []string{"a", "a"} // it was held, and released, while it was in the hand of the worker
			}
			assert.Equal(t, want, keysOf(reports.Take()))
			assert.Zero(t, c.Stats().Held)
			assert.Zero(t, c.Stats().Queue)
			c.CheckInvariants(t)
		})
	}
}

func TestHeldKeysDoNotDelayDrainAndAreRecheckedByNextRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exp := newAwaited()
		c, reports := newController(t, controller.Config[string]{Expectations: []controller.Expectations[string]{exp}}, slow)
		r := looptest.Start(t, c.Run)
		exp.expect("a", time.Time{})
		exp.expect("b", time.Now().Add(time.Hour))
		exp.expect("c", time.Now().Add(time.Hour))
		for _, key := range []string{"a", "b", "busy", "c"} {
			c.Add(key)
		}
		synctest.Wait()
		began := time.Now()
		require.NoError(t, r.Stop())
		assert.Equal(t, time.Second, time.Since(began))
		assert.Equal(t, []string{"busy"}, keysOf(reports.Take()))
		_, listeners := exp.count()
		assert.Zero(t, listeners, "no listeners between runs")
		assert.Equal(t, 2, c.Stats().Held)
		assert.Equal(t, 1, c.Stats().Queue.Ready, "c was not tried")
		c.CheckInvariants(t)

		exp.meet("a")
		looptest.Start(t, c.Run)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"a"}, keysOf(reports.Take()))
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"b", "c"}, sorted(reports.Take()))
		c.CheckInvariants(t)
	})
}

func TestStepHoldsAndReleasesKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exp := newAwaited()
		c, _ := newController(t, controller.Config[string]{Expectations: []controller.Expectations[string]{exp}}, noop)
		exp.expect("a", time.Time{})
		c.Add("a")
		c.Add("b")
		report, ok := next(t.Context(), c)
		assert.True(t, ok)
		assert.Equal(t, "b", report.Key, "a waits")
		_, ok = next(t.Context(), c)
		assert.False(t, ok)
		exp.meet("a")
		report, ok = next(t.Context(), c)
		assert.True(t, ok)
		assert.Equal(t, "a", report.Key)
		c.CheckInvariants(t)
	})
}

// lagging is a source that reports everything late.
type lagging struct {
	*source
	lag time.Duration
}

func (l lagging) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[object], error] {
	return func(yield func(informer.Event[object], error) bool) {
		for e, err := range l.source.Watch(ctx, after) {
			if err == nil {
				time.Sleep(l.lag)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func TestWaitingForWrittenVersionCreatesNoDuplicates(t *testing.T) {
	for _, wired := range []bool{true, false} {
		bubble(t, fmt.Sprint("wired: ", wired), func(t *testing.T) {
			s := newSource()
			inf := must(informer.New(lagging{s, 10500 * time.Millisecond}, keyOf, informer.Config{}))
			looptest.Start(t, inf.Run)
			versions := expectations.NewVersions[string](expectations.Config[string]{Logger: quiet})
			cfg := controller.Config[string]{}
			if wired {
				cfg.Expectations = []controller.Expectations[string]{versions}
			}
			var created []time.Duration
			began := time.Now()
			c, _ := newController(t, cfg, func(_ context.Context, owner string) (controller.Result, error) {
				if n := inf.Indexer().Len(); n < 3 {
					created = append(created, time.Since(began))
					s.set(object{Key: fmt.Sprint("child", len(created)), Owner: owner})
					versions.ExpectVersion(owner, uint64(len(created)))
				}
				return controller.Result{}, nil
			}, controller.Watches(inf, owner))
			inf.OnVersion(func(v informer.Version) { versions.VersionObserved(uint64(v)) })
			r := looptest.Start(t, c.Run)
			for range 60 {
				c.Add("x")
				time.Sleep(time.Second)
			}
			time.Sleep(time.Minute)
			if wired {
				assert.Equal(t, []time.Duration{0, 10500 * time.Millisecond, 21 * time.Second}, created, "as soon as the cache is there")
			} else {
				assert.Greater(t, len(created), 3, "so it works without one")
			}
			require.NoError(t, r.Stop())
			assertNoWorkers(t)
		})
	}
}

func TestRunReleasesKeyHeldByStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exp := expectations.NewCounted(expectations.Config[string]{TTL: -1})
		c, reports := newController(t, controller.Config[string]{Expectations: []controller.Expectations[string]{exp}}, noop)
		for _, key := range []string{"a", "b"} {
			exp.ExpectCreations(key, 1)
			c.Add(key)
		}
		_, ok := next(t.Context(), c)
		assert.False(t, ok, "both wait")
		exp.CreationObserved("a")
		looptest.Start(t, c.Run)
		synctest.Wait()
		assert.Equal(t, []string{"a"}, keysOf(reports.Take()))
		exp.CreationObserved("b")
		synctest.Wait()
		assert.Equal(t, []string{"b"}, keysOf(reports.Take()))
		c.CheckInvariants(t)
	})
}

// onSecondLook are Expectations that are met, and told so, just before they are asked for the second time.
type onSecondLook struct {
	asked int
	tell  func(key string)
}

func (e *onSecondLook) Notify(f func(key string)) (stop func()) {
	e.tell = f
	return func() {}
}

func (e *onSecondLook) Expires(key string) (at time.Time, waiting bool) {
	if e.asked++; e.asked == 2 {
		e.tell(key)
	}
	return time.Time{}, e.asked == 1
}

func TestKeyReleasedWhileBeingHeldIsReconciledOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exp := &onSecondLook{}
		c, reports := newController(t, controller.Config[string]{Expectations: []controller.Expectations[string]{exp}}, noop)
		looptest.Start(t, c.Run)
		c.Add("a")
		synctest.Wait()
		assert.Equal(t, []string{"a"}, keysOf(reports.Take()))
		assert.Zero(t, c.Stats().Held)
		c.CheckInvariants(t)
	})
}

// On a source that can only be listed, and whose writes return no version, a reconcile acts once for each change.
func TestWaitingForValueOfPolledSourceRepeatsNoEffect(t *testing.T) {
	for _, wired := range []bool{true, false} {
		bubble(t, fmt.Sprint("wired: ", wired), func(t *testing.T) {
			api := newSource(object{Key: "acme"})
			src := must(poll.New(func(ctx context.Context) ([]object, error) {
				list, err := api.List(ctx)
				return list.Items, err
			}, keyOf, poll.Config[object]{Interval: 30 * time.Second}))
			inf := must(informer.New(src, keyOf, informer.Config{Name: "tenants"}))
			looptest.Start(t, inf.Run)
			wrote := expectations.NewValues(expectations.Config[string]{})
			cfg := controller.Config[string]{}
			if wired {
				cfg.Expectations = []controller.Expectations[string]{wrote}
			}
			effects := 0
			c, _ := newController(t, cfg, func(_ context.Context, key string) (controller.Result, error) {
				if o, _ := inf.Get(key); o.Value < 7 {
					effects++
					api.set(object{Key: key, Value: o.Value + 1})
					wrote.ExpectValue(key, func() bool {
						now, _ := inf.Get(key)
						return now != o
					})
				}
				return controller.Result{}, nil
			}, controller.For(inf))
			looptest.Start(t, c.Run)
			for range 600 {
				c.Add("acme") // other events
				time.Sleep(time.Second)
			}
			if wired {
				assert.Equal(t, 7, effects)
			} else {
				assert.Greater(t, effects, 7, "so it works without one")
			}
			assert.Zero(t, c.Stats().Held)
			c.CheckInvariants(t)
		})
	}
}

// A key that something has held comes back with its own priority: "high" goes before "b", and "low" after it.
func TestReleasedKeyHasItsOwnPriority(t *testing.T) {
	high, low := controller.AddOptions{Priority: 5}, controller.AddOptions{Priority: -5}
	for name, test := range map[string]struct {
		hold, release func(c *controller.Controller[string], e *awaited, key string)
	}{
		"pause": {
			func(c *controller.Controller[string], _ *awaited, key string) { c.PauseKey(key) },
			func(c *controller.Controller[string], _ *awaited, key string) { c.ResumeKey(key) },
		},
		"expectations": {
			func(_ *controller.Controller[string], e *awaited, key string) { e.expect(key, time.Time{}) },
			func(_ *controller.Controller[string], e *awaited, key string) { e.meet(key) },
		},
		"pause, after expectations": {
			func(c *controller.Controller[string], e *awaited, key string) {
				e.expect(key, time.Time{})
				synctest.Wait()
				c.AddWith(key, map[string]controller.AddOptions{"high": high, "low": low}[key])
				synctest.Wait()
				c.PauseKey(key)
				c.AddWith(key, low)
				synctest.Wait()
				e.meet(key)
			},
			func(c *controller.Controller[string], _ *awaited, key string) { c.ResumeKey(key) },
		},
	} {
		bubble(t, name, func(t *testing.T) {
			e := newAwaited()
			free := make(chan struct{})
			cfg := controller.Config[string]{Expectations: []controller.Expectations[string]{e}}
			c, reports := newController(t, cfg, func(_ context.Context, key string) (controller.Result, error) {
				if key == "busy" {
					<-free
				}
				return controller.Result{}, nil
			})
			looptest.Start(t, c.Run)
			for key, opts := range map[string]controller.AddOptions{"high": high, "low": low} {
				test.hold(c, e, key)
				c.AddWith(key, low)
				c.AddWith(key, opts)
				c.AddWith(key, low)
				synctest.Wait()
				c.AddWith(key, low) // held again, and still with the higher of two
				synctest.Wait()
			}
			require.Equal(t, 2, c.Stats().Held)
			require.Empty(t, reports.Take())
			c.Add("busy")
			synctest.Wait()
			test.release(c, e, "low")
			c.Add("b")
			test.release(c, e, "high")
			close(free)
			synctest.Wait()
			assert.Equal(t, []string{"busy", "high", "b", "low"}, keysOf(reports.Take()))
			c.CheckInvariants(t)
		})
	}
}

func TestKeyLeftToNextRunHasItsOwnPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		high, low := controller.AddOptions{Priority: 5}, controller.AddOptions{Priority: -5}
		e := newAwaited()
		stuck := true
		cfg := controller.Config[string]{
			Workers: 3, DrainTimeout: time.Second, Expectations: []controller.Expectations[string]{e},
		}
		c, reports := newController(t, cfg, func(ctx context.Context, key string) (controller.Result, error) {
			if stuck && key != "added" {
				<-ctx.Done()
			} else if stuck {
				time.Sleep(500 * time.Millisecond)
			}
			return controller.Result{}, ctx.Err()
		})
		r := looptest.Start(t, c.Run)
		e.expect("held", time.Time{})
		e.expect("held low", time.Time{})
		c.AddWith("held", high)
		c.AddWith("held low", low)
		synctest.Wait()
		c.AddWith("stopped", high)
		c.AddWith("stopped low", low)
		c.AddWith("added", high)
		synctest.Wait()
		time.AfterFunc(100*time.Millisecond, func() { c.Add("added") }) // in the drain, while it is in flight
		require.ErrorIs(t, r.Stop(), controller.ErrDrainTimeout)
		assert.Len(t, reports.Take(), 3)
		stuck = false
		e.meet("held")
		e.meet("held low")
		c.Add("b")
		c.SetWorkers(1)
		looptest.Start(t, c.Run)
		synctest.Wait()
		keys := keysOf(reports.Take())
		require.Len(t, keys, 6)
		assert.ElementsMatch(t, []string{"held", "stopped", "added"}, keys[:3])
		assert.Equal(t, "b", keys[3])
		assert.ElementsMatch(t, []string{"held low", "stopped low"}, keys[4:])
		c.CheckInvariants(t)
	})
}

func TestReleasedKeyHasItsReasons(t *testing.T) {
	pause := func(c *controller.Controller[string], _ *awaited) { c.PauseKey("a") }
	resume := func(c *controller.Controller[string], _ *awaited) { c.ResumeKey("a") }
	for name, test := range map[string]struct {
		hold, release func(c *controller.Controller[string], e *awaited)
	}{
		"pause": {pause, resume},
		"expectations": {
			func(_ *controller.Controller[string], e *awaited) { e.expect("a", time.Time{}) },
			func(_ *controller.Controller[string], e *awaited) { e.meet("a") },
		},
		"expectations that expire": {
			func(_ *controller.Controller[string], e *awaited) { e.expect("a", time.Now().Add(time.Hour)) },
			func(*controller.Controller[string], *awaited) { time.Sleep(time.Hour) },
		},
		"pause, after the add": {
			func(c *controller.Controller[string], _ *awaited) {
				c.Pause()
				c.AddWith("a", controller.AddOptions{Reason: "first"})
				c.PauseKey("a")
				c.Resume()
				synctest.Wait()
			}, resume,
		},
	} {
		bubble(t, name, func(t *testing.T) {
			e := newAwaited()
			var reasons looptest.Log[[]workqueue.Reason]
			cfg := controller.Config[string]{Expectations: []controller.Expectations[string]{e}, Logger: quiet}
			c, _ := newController(t, cfg, func(ctx context.Context, _ string) (controller.Result, error) {
				info, _ := controller.FromContext(ctx)
				reasons.Add(info.Reasons)
				return controller.Result{}, nil
			})
			looptest.Start(t, c.Run)
			test.hold(c, e)
			for _, reason := range []string{"first", "second", "second"} {
				c.AddWith("a", controller.AddOptions{Reason: reason})
				time.Sleep(time.Second)
			}
			require.Empty(t, reasons.Take())
			info, _ := c.Inspect().Key("a") // a held key shows them
			test.release(c, e)
			synctest.Wait()
			all := reasons.Take()
			require.Len(t, all, 1)
			assert.Equal(t, info.Reasons, all[0], "with their times")
			var texts []string
			for _, r := range all[0] {
				texts = append(texts, r.Text)
			}
			assert.Equal(t, []string{"first", "second"}, slices.Compact(texts))
			c.CheckInvariants(t)
		})
	}
}

// The expectations are met just when a reconcile ends: after they were asked, and before the key is held.
func TestKeyIsReleasedIfExpectationsAreMetWhileItIsBeingHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newAwaited()
		first, ends := true, false
		e.asked = func(int) {
			if ends {
				ends = false
				e.meet("a")
			}
		}
		var c *controller.Controller[string]
		var reports *looptest.Log[controller.Report[string]]
		c, reports = newController(t, controller.Config[string]{Expectations: []controller.Expectations[string]{e}},
			func(_ context.Context, key string) (controller.Result, error) {
				if first {
					first, ends = false, true
					e.expect(key, time.Time{})
					c.Add(key)
				}
				return controller.Result{}, nil
			})
		looptest.Start(t, c.Run)
		c.Add("a")
		time.Sleep(time.Minute)
		assert.Len(t, reports.Take(), 2)
		assert.Zero(t, c.Stats().Held)
		c.CheckInvariants(t)
	})
}

// A key that is held when a stop begins is left to the next Run, even if its expectations are met during the drain.
func TestKeyReleasedDuringDrainIsLeftToNextRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newAwaited()
		cfg := controller.Config[string]{DrainOnStop: true, Expectations: []controller.Expectations[string]{e}}
		c, reports := newController(t, cfg, func(_ context.Context, key string) (controller.Result, error) {
			if key == "busy" {
				time.Sleep(time.Second)
			}
			return controller.Result{}, nil
		})
		r := looptest.Start(t, c.Run)
		e.expect("held", time.Time{})
		c.Add("held")
		c.Add("busy")
		synctest.Wait()
		time.AfterFunc(500*time.Millisecond, func() { e.meet("held") })
		require.NoError(t, r.Stop())
		assert.Equal(t, []string{"busy"}, keysOf(reports.Take()))
		looptest.Start(t, c.Run)
		synctest.Wait()
		assert.Equal(t, []string{"held"}, keysOf(reports.Take()))
		c.CheckInvariants(t)
	})
}

// A key that is scheduled with a priority keeps it if it is added again during a drain.
func TestKeyAddedDuringDrainKeepsHigherPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		again := true
		c, reports := newController(t, controller.Config[string]{DrainOnStop: true}, func(_ context.Context, key string) (controller.Result, error) {
			if key == "busy" {
				time.Sleep(time.Second)
			}
			return controller.Result{}, nil
		})
		r := looptest.Start(t, c.Run)
		c.AddWith("busy", controller.AddOptions{Priority: 5})
		synctest.Wait()
		time.AfterFunc(500*time.Millisecond, func() { // dirty, with its priority
			if again {
				c.AddWith("busy", controller.AddOptions{Priority: -5})
			}
		})
		require.NoError(t, r.Stop())
		assert.Equal(t, []string{"busy"}, keysOf(reports.Take()))
		c.SetWorkers(1)
		again = false
		c.Add("b")
		looptest.Start(t, c.Run)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"busy", "b"}, keysOf(reports.Take()))
	})
}

// A held key occupies no worker, and costs no dispatch.
func TestKeyAddedWhileHeldIsDispatchedOnce(t *testing.T) {
	dispatches := func(dispatched *looptest.Log[string]) controller.Config[string] {
		return controller.Config[string]{Logger: quiet, Queue: workqueue.Config[string]{Hooks: workqueue.Hooks[string]{
			Dispatched: func(key string, _ int, _ time.Duration) { dispatched.Add(key) },
		}}}
	}
	bubble(t, "pause", func(t *testing.T) {
		var dispatched looptest.Log[string]
		c, _ := newController(t, dispatches(&dispatched), noop)
		looptest.Start(t, c.Run)
		c.PauseKey("a")
		for range 3 {
			c.Add("a")
			synctest.Wait()
		}
		assert.Empty(t, dispatched.Take())
		assert.Equal(t, map[string]int{"pause": 1, "drain": 0}, c.Stats().HeldBy)
		c.ResumeKey("a")
		synctest.Wait()
		assert.Equal(t, []string{"a"}, dispatched.Take())
	})
	bubble(t, "own write", func(t *testing.T) {
		var dispatched looptest.Log[string]
		a := newAcme(t, dispatches(&dispatched), time.Second, nil)
		synctest.Wait()
		a.Add("acme") // in its reconcile, which writes
		time.Sleep(time.Second)
		synctest.Wait()
		a.Add("acme")
		synctest.Wait()
		assert.Equal(t, []string{"acme"}, dispatched.Take())
		assert.Equal(t, 1, a.Stats().Held)
		a.catchUp()
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"acme"}, slices.Compact(dispatched.Take()))
	})
}
