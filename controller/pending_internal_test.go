package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/workqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rig is the pending keys and their queue, in a bubble.
type rig struct {
	*pending[string]
	t     *testing.T
	queue *workqueue.Queue[string]
}

func newRig(t *testing.T, expected ...Expectations[string]) rig {
	q, err := workqueue.New(workqueue.Config[string]{Timestamps: true})
	require.NoError(t, err)
	return rig{newPending(q, expected, nil, newStoreCaches[string]([]any{})), t, q}
}

// take takes the first ready key, asks whether it may be reconciled, has do decide what becomes of it, and gives it back.
func (r rig) take(key string, do func()) (admitted, expired bool) {
	r.t.Helper()
	item, ok := r.queue.TryTake()
	require.True(r.t, ok, "no key is ready")
	require.Equal(r.t, key, item.Key)
	admitted, _, gone := r.admits(item)
	if do != nil {
		do()
	}
	require.NoError(r.t, r.checkInvariants(true))
	item.Done()
	return admitted, len(gone) > 0
}

// admitted requires that the first ready key may be reconciled, and has do decide what becomes of it.
func (r rig) admitted(key string, do func()) {
	r.t.Helper()
	ok, expired := r.take(key, do)
	require.True(r.t, ok)
	require.False(r.t, expired)
}

// held requires that the first ready key may not be reconciled.
func (r rig) held(key, by string) {
	r.t.Helper()
	ok, expired := r.take(key, nil)
	require.False(r.t, ok)
	require.False(r.t, expired)
	require.Equal(r.t, by, r.of(key).heldBy)
}

// isHeld requires that key is held, and not in line.
func (r rig) isHeld(key, by string) {
	r.t.Helper()
	require.NotContains(r.t, r.ready(), key)
	require.Equal(r.t, by, r.of(key).heldBy)
}

func (r rig) ready() []string { return r.queue.Ready() }

// inBubble runs test with a new rig.
func inBubble(t *testing.T, test func(t *testing.T, r rig, e *testExpectation), expected ...Expectations[string]) {
	synctest.Test(t, func(t *testing.T) {
		e := &testExpectation{}
		r := newRig(t, append([]Expectations[string]{e}, expected...)...)
		test(t, r, e)
		require.NoError(t, r.checkInvariants(false))
	})
}

func TestKeyWithMetExpectationsDoesNotExpire(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, e *testExpectation) {
		e.at, e.waiting = time.Now().Add(time.Minute), true
		r.add("a", Lane{}, "")
		r.held("a", "expectations 1")
		e.waiting = false
		r.releaseMet(-1)
		r.admitted("a", nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Empty(t, r.ready(), "the schedule of the key has no effect")
	})
}

// late is an expectation that is met right after it was asked for the first time.
type late struct{ asked int }

func (l *late) Expires(string) (time.Time, bool)  { l.asked++; return time.Time{}, l.asked == 1 }
func (l *late) Notify(func(string)) (stop func()) { return func() {} }
func (l *late) Name() string                      { return "late" }

func TestKeyIsNotHeldIfExpectationsAreJustMet(t *testing.T) {
	inBubble(t, func(_ *testing.T, r rig, _ *testExpectation) {
		r.add("a", Lane{}, "")
		r.admitted("a", nil)
	}, &late{})
}

func TestReconcileReplacesScheduledOne(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, _ *testExpectation) {
		r.add("a", Lane{}, "")
		r.admitted("a", func() { r.after("a", time.Minute, "not yet") })
		assert.Empty(t, r.ready())
		r.add("a", Lane{}, "")
		r.admitted("a", nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Empty(t, r.ready())
	})
}

func TestKeyComesBackImmediatelyOrAfterDelay(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, _ *testExpectation) {
		r.add("a", Lane{}, "")
		r.admitted("a", func() { r.makeReady("a") })
		r.admitted("a", func() { r.after("a", time.Minute, "x") })
		assert.Equal(t, "x", r.of("a").Reasons[0].Text)
		time.Sleep(time.Minute - 1)
		synctest.Wait()
		assert.Empty(t, r.ready())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		r.admitted("a", func() { r.retry("a", 0, "y") })
		r.admitted("a", func() { r.retry("a", time.Second, "z") })
		assert.Equal(t, 2, r.of("a").Failures)
		assert.Equal(t, "z", r.of("a").Reasons[len(r.of("a").Reasons)-1].Text)
		assert.Equal(t, time.Now().Add(time.Second), r.of("a").Next)
		time.Sleep(time.Second)
		synctest.Wait()
		r.admitted("a", func() { r.park("a", "never again") })
		assert.Equal(t, []string{"a"}, r.queue.Parked())
	})
}

func TestDrainLeavesAddedAndScheduledKeysToNextRun(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, e *testExpectation) {
		defer r.start()()
		for _, key := range []string{"scheduled", "again", "failed", "late", "ready"} {
			r.add(key, Lane{}, "")
		}
		r.admitted("scheduled", func() { r.after("scheduled", time.Minute, "") })
		r.divert(true)
		assert.Equal(t, "drain", r.of("scheduled").heldBy)
		r.admitted("again", func() { r.after("again", 0, "") })
		r.admitted("failed", func() { r.retry("failed", 0, "oops") })
		e.waiting = true
		r.held("late", "drain")
		e.waiting = false
		assert.True(t, r.add("added", Lane{Priority: 3}, "x"))
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		assert.Equal(t, []string{"ready"}, r.ready())
		require.Error(t, r.checkInvariants(false), "keys are left to the next Run, and none runs")

		assert.Equal(t, []string{"ready"}, r.handOver(), "keys left by the drain")
		assert.ElementsMatch(t, []string{"ready", "scheduled", "again", "failed", "added"}, r.ready())
		r.releaseMet(-1)
		assert.Contains(t, r.ready(), "late")
		assert.Equal(t, 3, r.of("added").Priority)
		assert.Equal(t, "x", r.of("added").Reasons[0].Text)
		assert.False(t, r.add("new", Lane{}, ""))
		all, _, _ := r.pending.held()
		assert.Zero(t, all)
	})
}

func TestKeyForNextRunIsReadyAtStart(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, _ *testExpectation) {
		r.add("a", Lane{}, "")
		r.admitted("a", func() { r.nextRun("a") })
		r.add("b", Lane{}, "")
		r.admitted("b", func() { r.after("b", time.Hour, "") })
		assert.Equal(t, "next run", r.of("a").heldBy)
		assert.Zero(t, r.of("a").Next)
		assert.Zero(t, r.of("b").heldBy)
		time.Sleep(time.Minute)
		r.start()()
		assert.Equal(t, []string{"a"}, r.ready())
	})
}

func TestWaitIdleWaitsForReadyInFlightAndHeldKeys(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, _ *testExpectation) {
		require.NoError(t, r.waitIdle(t.Context()))
		r.pause("a")
		r.add("a", Lane{}, "")
		returned := make(chan error, 1)
		// Returns when no key is pending.
		go func() { returned <- r.waitIdle(t.Context()) }()
		for _, step := range []func(){
			func() { r.isHeld("a", "pause") },
			func() { r.resume("a") },
			func() { r.pause("a"); r.held("a", "pause") },
			func() { r.resume("a") },
			func() { r.admitted("a", func() { synctest.Wait() }) },
		} {
			synctest.Wait()
			require.Empty(t, returned)
			step()
		}
		require.NoError(t, <-returned)

		r.add("a", Lane{}, "")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("no more"))
		require.EqualError(t, r.waitIdle(ctx), "no more")
		r.admitted("a", nil)
	})
}

func TestHeldCountsKeysByHolder(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, e *testExpectation) {
		none := map[string]int{"pause": 0, "drain": 0, "expectations 1": 0, "expectations late": 0}
		all, by, _ := r.pending.held()
		assert.Zero(t, all)
		assert.Equal(t, none, by)
		e.waiting = true
		r.pause("b")
		for _, key := range []string{"a", "b", "c"} {
			r.add(key, Lane{}, "")
		}
		r.held("a", "expectations 1")
		r.isHeld("b", "pause")
		r.held("c", "expectations 1")
		all, by, _ = r.pending.held()
		assert.Equal(t, 3, all)
		assert.Equal(t, map[string]int{"pause": 1, "drain": 0, "expectations 1": 2, "expectations late": 0}, by)
		r.divert(true)
		r.add("d", Lane{}, "")
		all, by, _ = r.pending.held()
		assert.Equal(t, 4, all)
		assert.Equal(t, 1, by["drain"])
		r.handOver()
	}, &late{asked: 1}, &late{asked: 1})
}

// named is an expectation with a name.
type named struct{ *testExpectation }

func (named) Name() string { return "shared" }

func TestHeldSumsExpectationsByName(t *testing.T) {
	first, second := named{&testExpectation{waiting: true}}, named{&testExpectation{}}
	inBubble(t, func(t *testing.T, r rig, _ *testExpectation) {
		r.add("a", Lane{}, "")
		r.held("a", "expectations shared")
		first.waiting, second.waiting = false, true
		r.add("b", Lane{}, "")
		r.held("b", "expectations shared")
		_, by, _ := r.pending.held()
		assert.Equal(t, 2, by["expectations shared"])
	}, first, second)
}

func TestLastDelayWins(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, _ *testExpectation) {
		r.add("a", Lane{}, "")
		r.admitted("a", func() {
			r.after("a", time.Minute, "")
			r.after("a", time.Hour, "")
		})
		time.Sleep(time.Hour - 1)
		synctest.Wait()
		assert.Empty(t, r.ready())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.Equal(t, []string{"a"}, r.ready())
	})
}

func TestAllDescribesEachKeyOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, e *testExpectation) {
		e.at, e.waiting = time.Now().Add(time.Minute), true
		r.add("waits", Lane{}, "")
		r.held("waits", "expectations 1")
		e.at = time.Time{}
		r.add("forever", Lane{}, "")
		r.held("forever", "expectations 1")
		r.pause("paused")
		r.add("ready", Lane{Priority: 7}, "")
		found := make(map[string]pendingKey[string])
		for k := range r.all() {
			assert.NotContains(t, found, k.Key)
			found[k.Key] = k
		}
		assert.Len(t, found, 4)
		assert.Zero(t, found["waits"].State)
		assert.Equal(t, "expectations 1", found["waits"].heldBy)
		assert.Zero(t, found["forever"].State)
		assert.Equal(t, "expectations 1", found["forever"].heldBy)
		assert.NotZero(t, found["paused"].pausedSince)
		assert.Equal(t, 7, found["ready"].Priority)
		assert.Equal(t, pendingKey[string]{KeyInfo: workqueue.KeyInfo[string]{Key: "unknown"}}, r.of("unknown"))
		for range r.all() {
			break
		}
	})
}

// testExpectation waits until a time, and has at most one listener.
type testExpectation struct {
	at      time.Time
	waiting bool
	notify  func(string)
}

func (e *testExpectation) Expires(string) (time.Time, bool) { return e.at, e.waiting }

func (e *testExpectation) Notify(f func(string)) (stop func()) {
	e.notify = f
	return func() { e.notify = nil }
}

func TestKeyWaitsForLastOfItsExpectations(t *testing.T) {
	soon, late := time.Unix(1, 0), time.Unix(2, 0)
	for _, c := range []struct {
		all     []*testExpectation
		until   time.Time
		on      int
		waiting bool
	}{
		{nil, time.Time{}, 0, false},
		{[]*testExpectation{{}, {at: late}}, time.Time{}, 0, false},
		{[]*testExpectation{{at: soon, waiting: true}, {at: late, waiting: true}, {}}, late, 1, true},
		{[]*testExpectation{{at: late, waiting: true}, {at: soon, waiting: true}}, late, 0, true},
		{[]*testExpectation{{}, {waiting: true}, {at: soon, waiting: true}}, time.Time{}, 1, true},
		{[]*testExpectation{{at: soon, waiting: true}, {waiting: true}}, time.Time{}, 1, true},
	} {
		var all expectationSet[string]
		for _, e := range c.all {
			all = append(all, expectation[string]{Expectations: e})
		}
		until, on, waiting := all.Expires("key")
		assert.Equal(t, c.until, until)
		assert.Equal(t, c.on, on)
		assert.Equal(t, c.waiting, waiting)
	}
}

func TestAllNotifiesUntilStopped(t *testing.T) {
	a, b := &testExpectation{}, &testExpectation{}
	var met []string
	stop := expectationSet[string]{{Expectations: a}, {Expectations: b}}.Notify(func(key string) { met = append(met, key) })
	a.notify("x")
	b.notify("y")
	assert.Equal(t, []string{"x", "y"}, met)
	stop()
	assert.Nil(t, a.notify)
	assert.Nil(t, b.notify)
}

func TestKeyHasCausesSinceLastTake(t *testing.T) {
	var b causes[string]
	assert.Nil(t, b.take("a"))
	b.note("a", "1")
	b.note("a", "2")
	b.note("a", "1")
	b.note("b", "3")
	require.NoError(t, b.checkInvariants())
	assert.Nil(t, b.take("c"))
	assert.Equal(t, []string{"1", "2"}, b.take("a"), "each once, the oldest first")
	assert.Nil(t, b.take("a"))
	assert.Equal(t, int64(1), b.n.Load())
	assert.Equal(t, []string{"3"}, b.take("b"))
	assert.Zero(t, b.n.Load())
	require.NoError(t, b.checkInvariants())
}

func TestOldestAndNewestCausesAreKept(t *testing.T) {
	var b causes[string]
	for i := range maxCauses + 3 {
		b.note("a", fmt.Sprint(i))
		require.NoError(t, b.checkInvariants())
	}
	assert.Equal(t, []string{"0", "4", "5", "6", "7", "8", "9", "10"}, b.take("a"))
}

func TestRestoredCausesPrecedeNewerOnes(t *testing.T) {
	var b causes[string]
	b.restore("a", nil)
	assert.Zero(t, b.n.Load())
	for _, c := range []string{"1", "2", "3"} {
		b.note("a", c)
	}
	taken := b.take("a")
	b.restore("a", taken)
	assert.Equal(t, []string{"1", "2", "3"}, b.take("a"))
	for i := range maxCauses - 1 {
		b.note("a", fmt.Sprint("new ", i))
	}
	b.note("a", "2")
	b.restore("a", taken)
	require.NoError(t, b.checkInvariants())
	assert.Equal(t, []string{"1", "new 1", "new 2", "new 3", "new 4", "new 5", "new 6", "2"}, b.take("a"))
	assert.Equal(t, []string{"1", "2", "3"}, taken, "a list that was taken never changes")
}

func TestCausesReleaseMemoryAfterBurst(t *testing.T) {
	var b causes[int]
	for i := range 5000 {
		b.note(i, "1")
	}
	require.NoError(t, b.checkInvariants())
	for i := range 5000 {
		assert.Equal(t, b.keys != nil, true)
		b.take(i)
	}
	assert.False(t, b.keys != nil)
	b.note(1, "1")
	b.take(1)
	assert.True(t, b.keys != nil)
	require.NoError(t, b.checkInvariants())
}

// A stop may begin while a key is being added: its quiet time must end too.
func TestKeyAddedWhileStopBeginsIsNotQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p *pending[string]
		stops := sync.OnceFunc(func() { p.divert(true) })
		q, err := workqueue.New(workqueue.Config[string]{Debounce: time.Minute, Group: func(string) string {
			stops() // the queue asks for the group before it has the key
			return ""
		}})
		require.NoError(t, err)
		p = newPending(q, nil, nil, newStoreCaches[string]([]any{}))
		assert.False(t, p.add("a", Lane{}, ""))
		assert.Equal(t, []string{"a"}, q.Ready())
		p.handOver()
	})
}

// An expectation that has expired unmet, and whose key nobody adds, costs no memory forever.
func TestExpiredWaitsAreSwept(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, e *testExpectation) {
		const n = 100
		e.at, e.waiting = time.Now().Add(time.Minute), true
		r.add("due", Lane{}, "")
		r.held("due", "expectations 1")
		for i := range n {
			r.waitFor(fmt.Sprint("idle ", i), 0, e.at)
		}
		r.waitFor("forever", 0, time.Time{})
		assert.Len(t, r.holds, n+2)
		time.Sleep(time.Minute)
		synctest.Wait() // due is ready
		for i := range 2 * n {
			r.pause(fmt.Sprint("paused ", i))
		}
		require.NoError(t, r.checkInvariants(false))
		assert.Len(t, r.holds, 2*n+2)
		e.waiting = false
		assert.Equal(t, "expectations 1", r.of("due").heldBy, "until a worker reports the expiry")
		_, expired := r.take("due", nil)
		assert.True(t, expired)
	})
}

func TestBurstOfHoldsFreesItsMemory(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, _ *testExpectation) {
		const n = 2 * keepHolds
		for i := range n {
			r.pause(fmt.Sprint(i))
		}
		assert.Greater(t, r.sweepAt, keepHolds)
		for i := range n {
			r.resume(fmt.Sprint(i))
		}
		assert.Equal(t, firstSweep, r.sweepAt)
		assert.Empty(t, r.holds)
	})
}

func TestExpiryDuringPauseIsReported(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, e *testExpectation) {
		e.at, e.waiting = time.Now().Add(time.Minute), true
		r.add("a", Lane{}, "why")
		r.held("a", "expectations 1")
		r.pause("a")
		time.Sleep(time.Minute)
		synctest.Wait()
		r.isHeld("a", "pause")
		e.waiting = false
		r.resume("a")
		item, ok := r.queue.TryTakeKey("a")
		require.True(t, ok)
		admitted, reasons, expired := r.admits(item)
		item.Done()
		assert.True(t, admitted)
		assert.Len(t, reasons, 1)
		assert.Len(t, expired, 1)
		assert.Empty(t, r.holds)
	})
}

func TestKeyAddedDuringReconcileIsNotLostWhenItsWaitExpires(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, e *testExpectation) {
		r.add("a", Lane{}, "")
		r.admitted("a", func() {
			r.add("a", Lane{}, "")
			e.at, e.waiting = time.Now(), true // it has just expired
			r.settle("a")
			e.waiting = false
		})
		assert.Equal(t, []string{"a"}, r.ready())
		r.admitted("a", nil)
	})
}
