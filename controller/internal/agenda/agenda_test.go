package agenda_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller/internal/agenda"
	"github.com/setpoint-go/setpoint/controller/internal/mirror"
	"github.com/setpoint-go/setpoint/workqueue"
)

// rig is an agenda and its queue, in a bubble.
type rig struct {
	*agenda.Agenda[string]
	t     *testing.T
	queue *workqueue.Queue[string]
}

func newRig(t *testing.T, expected ...agenda.Expectations[string]) rig {
	q, err := workqueue.New(workqueue.Config[string]{Timestamps: true})
	require.NoError(t, err)
	return rig{agenda.New(q, expected, mirror.New[string]([]any{})), t, q}
}

// take takes the first ready key, asks whether it may be reconciled, has do decide what becomes of it, and gives it back.
func (r rig) take(key string, do func()) (admitted, expired bool) {
	r.t.Helper()
	item, ok := r.queue.TryTake()
	require.True(r.t, ok, "no key is ready")
	require.Equal(r.t, key, item.Key)
	admitted, expired = r.Admits(key)
	if do != nil {
		do()
	}
	require.NoError(r.t, r.CheckInvariants(true))
	item.Done()
	return admitted, expired
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
	require.Equal(r.t, by, r.Of(key).HeldBy)
}

func (r rig) ready() []string { return r.queue.Ready() }

// inBubble runs test with a new rig.
func inBubble(t *testing.T, test func(t *testing.T, r rig, e *expectation), expected ...agenda.Expectations[string]) {
	synctest.Test(t, func(t *testing.T) {
		e := &expectation{}
		r := newRig(t, append([]agenda.Expectations[string]{e}, expected...)...)
		test(t, r, e)
		require.NoError(t, r.CheckInvariants(false))
	})
}

func TestKeyComesBackWhenEventMeetsExpectations(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, e *expectation) {
		end := r.Start()
		defer end()
		e.waiting = true
		r.Add("a", 0, "")
		r.held("a", "expectations 1")
		assert.Empty(t, r.ready())
		time.Sleep(24 * time.Hour)
		assert.Empty(t, r.ready(), "it does not expire")
		e.waiting = false
		e.told("b")
		assert.Empty(t, r.ready(), "b has no expectations")
		e.told("a")
		e.told("a")
		assert.Equal(t, []string{"a"}, r.ready())
		assert.Zero(t, r.Of("a").HeldBy)
		r.admitted("a", nil)
		end()
		assert.Nil(t, e.told)
	})
}

func TestKeyComesBackWhenExpectationsExpire(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, e *expectation) {
		e.at, e.waiting = time.Now().Add(time.Minute), true
		r.Add("a", 0, "")
		r.held("a", "expectations 1")
		assert.Equal(t, e.at, r.Of("a").HeldUntil)
		time.Sleep(time.Minute - 1)
		synctest.Wait()
		assert.Empty(t, r.ready())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		e.waiting = false
		admitted, expired := r.take("a", nil)
		assert.True(t, admitted)
		assert.True(t, expired)
		r.Add("a", 0, "")
		r.admitted("a", nil)
	})
}

func TestKeyWithMetExpectationsDoesNotExpire(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, e *expectation) {
		e.at, e.waiting = time.Now().Add(time.Minute), true
		r.Add("a", 0, "")
		r.held("a", "expectations 1")
		e.waiting = false
		r.ReleaseMet()
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
	inBubble(t, func(_ *testing.T, r rig, _ *expectation) {
		r.Add("a", 0, "")
		r.admitted("a", nil)
	}, &late{})
}

func TestStartReleasesKeysWhoseExpectationsWereMetMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, e *expectation) {
		e.waiting = true
		r.Add("a", 0, "")
		r.held("a", "expectations 1")
		r.Start()()
		assert.Empty(t, r.ready())
		e.waiting = false
		r.Start()()
		r.admitted("a", nil)
	})
}

func TestPausedKeyIsHeldUntilResumed(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, _ *expectation) {
		r.Pause("a")
		assert.NotZero(t, r.Of("a").PausedSince)
		assert.Zero(t, r.Of("a").HeldBy, "it is not due")
		r.Add("a", 0, "")
		r.held("a", "pause")
		r.Resume("a")
		assert.Zero(t, r.Of("a").PausedSince)
		r.admitted("a", nil)
		r.Pause("a")
		r.Resume("a")
		assert.Empty(t, r.ready(), "it was not added")
	})
}

func TestReconcileReplacesScheduledOne(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, _ *expectation) {
		r.Add("a", 0, "")
		r.admitted("a", func() { r.After("a", time.Minute, "not yet") })
		assert.Empty(t, r.ready())
		r.Add("a", 0, "")
		r.admitted("a", nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Empty(t, r.ready())
	})
}

func TestKeyComesBackImmediatelyOrAfterDelay(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, _ *expectation) {
		r.Add("a", 0, "")
		r.admitted("a", func() { r.Again("a") })
		r.admitted("a", func() { r.After("a", time.Minute, "x") })
		assert.Equal(t, "x", r.Of("a").Reasons[0].Text)
		time.Sleep(time.Minute - 1)
		synctest.Wait()
		assert.Empty(t, r.ready())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		r.admitted("a", func() { r.Retry("a", 0, "y") })
		r.admitted("a", func() { r.Retry("a", time.Second, "z") })
		assert.Equal(t, 2, r.Of("a").Failures)
		assert.Equal(t, "z", r.Of("a").Reasons[len(r.Of("a").Reasons)-1].Text)
		assert.Equal(t, time.Now().Add(time.Second), r.Of("a").Next)
		time.Sleep(time.Second)
		synctest.Wait()
		r.admitted("a", func() { r.Park("a", "never again") })
		assert.Equal(t, []string{"a"}, r.queue.Parked())
	})
}

func TestDrainLeavesAddedAndScheduledKeysToNextRun(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, e *expectation) {
		defer r.Start()()
		for _, key := range []string{"scheduled", "again", "failed", "late", "ready"} {
			r.Add(key, 0, "")
		}
		r.admitted("scheduled", func() { r.After("scheduled", time.Minute, "") })
		r.Divert()
		assert.Equal(t, "drain", r.Of("scheduled").HeldBy)
		r.admitted("again", func() { r.After("again", 0, "") })
		r.admitted("failed", func() { r.Retry("failed", 0, "oops") })
		e.waiting = true
		r.held("late", "expectations 1")
		e.waiting = false
		assert.False(t, r.Add("added", 3, "x"))
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		assert.Equal(t, []string{"ready"}, r.ready())
		require.Error(t, r.CheckInvariants(false), "keys are left to the next Run, and none runs")

		assert.Equal(t, []string{"ready"}, r.HandOver(), "keys left by the drain")
		assert.ElementsMatch(t, []string{"ready", "scheduled", "again", "failed", "late", "added"}, r.ready())
		assert.Equal(t, 3, r.Of("added").Priority)
		assert.Equal(t, "x", r.Of("added").Reasons[0].Text)
		assert.True(t, r.Add("new", 0, ""))
		all, _, _ := r.Held()
		assert.Zero(t, all)
	})
}

func TestKeyForNextRunIsReadyAtStart(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, _ *expectation) {
		r.Add("a", 0, "")
		r.admitted("a", func() { r.NextRun("a") })
		r.Add("b", 0, "")
		r.admitted("b", func() { r.After("b", time.Hour, "") })
		assert.Equal(t, "next run", r.Of("a").HeldBy)
		assert.Zero(t, r.Of("a").Next)
		assert.Zero(t, r.Of("b").HeldBy)
		time.Sleep(time.Minute)
		r.Start()()
		assert.Equal(t, []string{"a"}, r.ready())
	})
}

func TestWaitIdleWaitsForReadyInFlightAndHeldKeys(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, _ *expectation) {
		require.NoError(t, r.WaitIdle(t.Context()))
		r.Pause("a")
		r.Add("a", 0, "")
		returned := make(chan error, 1)
		// Returns when the agenda is idle.
		go func() { returned <- r.WaitIdle(t.Context()) }()
		for _, step := range []func(){
			func() { r.held("a", "pause") },
			func() { r.Resume("a") },
			func() { r.Pause("a"); r.held("a", "pause") },
			func() { r.Resume("a") },
			func() { r.admitted("a", func() { synctest.Wait() }) },
		} {
			synctest.Wait()
			require.Empty(t, returned)
			step()
		}
		require.NoError(t, <-returned)

		r.Add("a", 0, "")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("no more"))
		require.EqualError(t, r.WaitIdle(ctx), "no more")
		r.admitted("a", nil)
	})
}

func TestHeldCountsKeysByHolder(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, e *expectation) {
		none := map[string]int{"pause": 0, "drain": 0, "expectations 1": 0, "expectations late": 0}
		all, by, _ := r.Held()
		assert.Zero(t, all)
		assert.Equal(t, none, by)
		e.waiting = true
		r.Pause("b")
		for _, key := range []string{"a", "b", "c"} {
			r.Add(key, 0, "")
		}
		r.held("a", "expectations 1")
		r.held("b", "pause")
		r.held("c", "expectations 1")
		all, by, _ = r.Held()
		assert.Equal(t, 3, all)
		assert.Equal(t, map[string]int{"pause": 1, "drain": 0, "expectations 1": 2, "expectations late": 0}, by)
		r.Divert()
		r.Add("d", 0, "")
		all, by, _ = r.Held()
		assert.Equal(t, 4, all)
		assert.Equal(t, 1, by["drain"])
		r.HandOver()
	}, &late{asked: 1}, &late{asked: 1})
}

// named is an expectation with a name.
type named struct{ *expectation }

func (named) Name() string { return "shared" }

func TestHeldSumsExpectationsByName(t *testing.T) {
	first, second := named{&expectation{waiting: true}}, named{&expectation{}}
	inBubble(t, func(t *testing.T, r rig, _ *expectation) {
		r.Add("a", 0, "")
		r.held("a", "expectations shared")
		first.waiting, second.waiting = false, true
		r.Add("b", 0, "")
		r.held("b", "expectations shared")
		_, by, _ := r.Held()
		assert.Equal(t, 2, by["expectations shared"])
	}, first, second)
}

func TestLastDelayWins(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, _ *expectation) {
		r.Add("a", 0, "")
		r.admitted("a", func() {
			r.After("a", time.Minute, "")
			r.After("a", time.Hour, "")
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
	inBubble(t, func(t *testing.T, r rig, e *expectation) {
		e.at, e.waiting = time.Now().Add(time.Minute), true
		r.Add("waits", 0, "")
		r.held("waits", "expectations 1")
		e.at = time.Time{}
		r.Add("forever", 0, "")
		r.held("forever", "expectations 1")
		r.Pause("paused")
		r.Add("ready", 7, "")
		found := make(map[string]agenda.Key[string])
		for k := range r.All() {
			assert.NotContains(t, found, k.Key)
			found[k.Key] = k
		}
		assert.Len(t, found, 4)
		assert.Equal(t, workqueue.Delayed, found["waits"].State)
		assert.Equal(t, "expectations 1", found["waits"].HeldBy)
		assert.Zero(t, found["forever"].State)
		assert.Equal(t, "expectations 1", found["forever"].HeldBy)
		assert.NotZero(t, found["paused"].PausedSince)
		assert.Equal(t, 7, found["ready"].Priority)
		assert.Equal(t, agenda.Key[string]{KeyInfo: workqueue.KeyInfo[string]{Key: "unknown"}}, r.Of("unknown"))
		for range r.All() {
			break
		}
	})
}
