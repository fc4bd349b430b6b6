package controller_test

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	_ controller.Expectations[string] = (*expectations.Counted[string])(nil)
	_ controller.Expectations[string] = (*expectations.Tracked[string, int])(nil)
	_ controller.Expectations[string] = (*expectations.Versions[string])(nil)
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
		assert.Equal(t, "level=WARN msg=\"expectations expired, reconciling anyway\" controller=test key=a\n", out.String())
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
		assert.Equal(t, 3, c.Stats().Queue.Ready)
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
			versions := must(expectations.NewVersions[string](expectations.Config[string]{Logger: quiet}))
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
		exp := must(expectations.NewCounted(expectations.Config[string]{TTL: -1}))
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
		assert.Equal(t, 3, exp.asked)
		assert.Zero(t, c.Stats().Held)
		c.CheckInvariants(t)
	})
}
