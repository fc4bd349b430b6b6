package agenda_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

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
	if err != nil {
		t.Fatal(err)
	}
	return rig{agenda.New(q, expected, mirror.New[string]([]any{})), t, q}
}

// take takes the first ready key, asks whether it may be reconciled, has do decide what becomes of it, and gives it back.
func (r rig) take(key string, do func()) (admitted, expired bool) {
	r.t.Helper()
	item, ok := r.queue.TryTake()
	if !ok {
		r.t.Fatal("no key is ready: ok is false")
	}
	if item.Key != key {
		r.t.Fatalf("item.Key = %q, want %q", item.Key, key)
	}
	admitted, expired = r.Admits(key)
	if do != nil {
		do()
	}
	if err := r.CheckInvariants(true); err != nil {
		r.t.Fatalf("r.CheckInvariants(true): %v", err)
	}
	item.Done()
	return admitted, expired
}

// admitted requires that the first ready key may be reconciled, and has do decide what becomes of it.
func (r rig) admitted(key string, do func()) {
	r.t.Helper()
	ok, expired := r.take(key, do)
	if !ok {
		r.t.Fatal("ok is false")
	}
	if expired {
		r.t.Fatal("expired is true")
	}
}

// held requires that the first ready key may not be reconciled.
func (r rig) held(key, by string) {
	r.t.Helper()
	ok, expired := r.take(key, nil)
	if ok {
		r.t.Fatal("ok is true")
	}
	if expired {
		r.t.Fatal("expired is true")
	}
	if got := r.Of(key).HeldBy; got != by {
		r.t.Fatalf("r.Of(key).HeldBy = %q, want %q", got, by)
	}
}

func (r rig) ready() []string { return r.queue.Ready() }

// inBubble runs test with a new rig.
func inBubble(t *testing.T, test func(t *testing.T, r rig, e *expectation), expected ...agenda.Expectations[string]) {
	synctest.Test(t, func(t *testing.T) {
		e := &expectation{}
		r := newRig(t, append([]agenda.Expectations[string]{e}, expected...)...)
		test(t, r, e)
		if err := r.CheckInvariants(false); err != nil {
			t.Fatalf("r.CheckInvariants(false): %v", err)
		}
	})
}

func TestKeyComesBackWhenEventMeetsExpectations(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, e *expectation) {
		end := r.Start()
		defer end()
		e.waiting = true
		r.Add("a", 0, "")
		r.held("a", "expectations 1")
		if got := r.ready(); len(got) != 0 {
			t.Errorf("r.ready() = %v, want none", got)
		}
		time.Sleep(24 * time.Hour)
		if got := r.ready(); len(got) != 0 {
			t.Errorf("it does not expire: r.ready() = %v, want none", got)
		}
		e.waiting = false
		e.told("b")
		if got := r.ready(); len(got) != 0 {
			t.Errorf("b has no expectations: r.ready() = %v, want none", got)
		}
		e.told("a")
		e.told("a")
		if got, want := r.ready(), ([]string{"a"}); !slices.Equal(got, want) {
			t.Errorf("r.ready() = %q, want %q", got, want)
		}
		if got := r.Of("a").HeldBy; got != "" {
			t.Errorf(`r.Of("a").HeldBy = %q, want ""`, got)
		}
		r.admitted("a", nil)
		end()
		if e.told != nil {
			t.Error("e.told is left")
		}
	})
}

func TestKeyComesBackWhenExpectationsExpire(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, e *expectation) {
		e.at, e.waiting = time.Now().Add(time.Minute), true
		r.Add("a", 0, "")
		r.held("a", "expectations 1")
		if got := r.Of("a").HeldUntil; !got.Equal(e.at) {
			t.Errorf(`r.Of("a").HeldUntil = %v, want %v`, got, e.at)
		}
		time.Sleep(time.Minute - 1)
		synctest.Wait()
		if got := r.ready(); len(got) != 0 {
			t.Errorf("r.ready() = %v, want none", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		e.waiting = false
		admitted, expired := r.take("a", nil)
		if !admitted {
			t.Error("admitted is false")
		}
		if !expired {
			t.Error("expired is false")
		}
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
		if got := r.ready(); len(got) != 0 {
			t.Errorf("the schedule of the key has no effect: r.ready() = %v, want none", got)
		}
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
		if got := r.ready(); len(got) != 0 {
			t.Errorf("r.ready() = %v, want none", got)
		}
		e.waiting = false
		r.Start()()
		r.admitted("a", nil)
	})
}

func TestPausedKeyIsHeldUntilResumed(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, _ *expectation) {
		r.Pause("a")
		if r.Of("a").PausedSince.IsZero() {
			t.Error(`r.Of("a").PausedSince is the zero time`)
		}
		if got := r.Of("a").HeldBy; got != "" {
			t.Errorf(`it is not due: r.Of("a").HeldBy = %q, want ""`, got)
		}
		r.Add("a", 0, "")
		r.held("a", "pause")
		r.Resume("a")
		if got := r.Of("a").PausedSince; !got.IsZero() {
			t.Errorf(`r.Of("a").PausedSince = %v, want the zero time`, got)
		}
		r.admitted("a", nil)
		r.Pause("a")
		r.Resume("a")
		if got := r.ready(); len(got) != 0 {
			t.Errorf("it was not added: r.ready() = %v, want none", got)
		}
	})
}

func TestReconcileReplacesScheduledOne(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, _ *expectation) {
		r.Add("a", 0, "")
		r.admitted("a", func() { r.After("a", time.Minute, "not yet") })
		if got := r.ready(); len(got) != 0 {
			t.Errorf("r.ready() = %v, want none", got)
		}
		r.Add("a", 0, "")
		r.admitted("a", nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := r.ready(); len(got) != 0 {
			t.Errorf("r.ready() = %v, want none", got)
		}
	})
}

func TestKeyComesBackImmediatelyOrAfterDelay(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, _ *expectation) {
		r.Add("a", 0, "")
		r.admitted("a", func() { r.Again("a") })
		r.admitted("a", func() { r.After("a", time.Minute, "x") })
		if got := r.Of("a").Reasons[0].Text; got != "x" {
			t.Errorf(`r.Of("a").Reasons[0].Text = %q, want %q`, got, "x")
		}
		time.Sleep(time.Minute - 1)
		synctest.Wait()
		if got := r.ready(); len(got) != 0 {
			t.Errorf("r.ready() = %v, want none", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		r.admitted("a", func() { r.Retry("a", 0, "y") })
		r.admitted("a", func() { r.Retry("a", time.Second, "z") })
		if got := r.Of("a").Failures; got != 2 {
			t.Errorf(`r.Of("a").Failures = %v, want 2`, got)
		}
		if got := r.Of("a").Reasons[len(r.Of("a").Reasons)-1].Text; got != "z" {
			t.Errorf(`r.Of("a").Reasons[len(r.Of("a").Reasons)-1].Text = %q, want %q`, got, "z")
		}
		if got, want := r.Of("a").Next, time.Now().Add(time.Second); !got.Equal(want) {
			t.Errorf(`r.Of("a").Next = %v, want %v`, got, want)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		r.admitted("a", func() { r.Park("a", "never again") })
		if got, want := r.queue.Parked(), ([]string{"a"}); !slices.Equal(got, want) {
			t.Errorf("r.queue.Parked() = %q, want %q", got, want)
		}
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
		if got := r.Of("scheduled").HeldBy; got != "drain" {
			t.Errorf(`r.Of("scheduled").HeldBy = %q, want %q`, got, "drain")
		}
		r.admitted("again", func() { r.After("again", 0, "") })
		r.admitted("failed", func() { r.Retry("failed", 0, "oops") })
		e.waiting = true
		r.held("late", "expectations 1")
		e.waiting = false
		if r.Add("added", 3, "x") {
			t.Error(`r.Add("added", 3, "x") is true`)
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if got, want := r.ready(), ([]string{"ready"}); !slices.Equal(got, want) {
			t.Errorf("r.ready() = %q, want %q", got, want)
		}
		if err := r.CheckInvariants(false); err == nil {
			t.Fatal("keys are left to the next Run, and none runs: r.CheckInvariants(false) = nil, want an error")
		}

		if got, want := r.HandOver(), ([]string{"ready"}); !slices.Equal(got, want) {
			t.Errorf("keys left by the drain: r.HandOver() = %q, want %q", got, want)
		}
		ready, want := slices.Sorted(slices.Values(r.ready())), []string{"added", "again", "failed", "late", "ready", "scheduled"}
		if !slices.Equal(ready, want) {
			t.Errorf("r.ready() = %q, want %q in any order", ready, want)
		}
		if got := r.Of("added").Priority; got != 3 {
			t.Errorf(`r.Of("added").Priority = %v, want 3`, got)
		}
		if got := r.Of("added").Reasons[0].Text; got != "x" {
			t.Errorf(`r.Of("added").Reasons[0].Text = %q, want %q`, got, "x")
		}
		if !r.Add("new", 0, "") {
			t.Error(`r.Add("new", 0, "") is false`)
		}
		all, _, _ := r.Held()
		if all != 0 {
			t.Errorf("all = %v, want 0", all)
		}
	})
}

func TestKeyForNextRunIsReadyAtStart(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, _ *expectation) {
		r.Add("a", 0, "")
		r.admitted("a", func() { r.NextRun("a") })
		r.Add("b", 0, "")
		r.admitted("b", func() { r.After("b", time.Hour, "") })
		if got := r.Of("a").HeldBy; got != "next run" {
			t.Errorf(`r.Of("a").HeldBy = %q, want %q`, got, "next run")
		}
		if got := r.Of("a").Next; !got.IsZero() {
			t.Errorf(`r.Of("a").Next = %v, want the zero time`, got)
		}
		if got := r.Of("b").HeldBy; got != "" {
			t.Errorf(`r.Of("b").HeldBy = %q, want ""`, got)
		}
		time.Sleep(time.Minute)
		r.Start()()
		if got, want := r.ready(), ([]string{"a"}); !slices.Equal(got, want) {
			t.Errorf("r.ready() = %q, want %q", got, want)
		}
	})
}

func TestWaitIdleWaitsForReadyInFlightAndHeldKeys(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, _ *expectation) {
		if err := r.WaitIdle(t.Context()); err != nil {
			t.Fatalf("r.WaitIdle(ctx): %v", err)
		}
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
			if len(returned) != 0 {
				t.Fatalf("returned = %v, want none", returned)
			}
			step()
		}
		if err := <-returned; err != nil {
			t.Fatalf("<-returned: %v", err)
		}

		r.Add("a", 0, "")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("no more"))
		if got := fmt.Sprint(r.WaitIdle(ctx)); got != "no more" {
			t.Fatalf("r.WaitIdle(ctx) = %q, want %q", got, "no more")
		}
		r.admitted("a", nil)
	})
}

func TestHeldCountsKeysByHolder(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig, e *expectation) {
		none := map[string]int{"pause": 0, "drain": 0, "expectations 1": 0, "expectations late": 0}
		all, by, _ := r.Held()
		if all != 0 {
			t.Errorf("all = %v, want 0", all)
		}
		if diff := cmp.Diff(none, by); diff != "" {
			t.Errorf("by mismatch (-want +got):\n%s", diff)
		}
		e.waiting = true
		r.Pause("b")
		for _, key := range []string{"a", "b", "c"} {
			r.Add(key, 0, "")
		}
		r.held("a", "expectations 1")
		r.held("b", "pause")
		r.held("c", "expectations 1")
		all, by, _ = r.Held()
		if all != 3 {
			t.Errorf("all = %v, want 3", all)
		}
		if diff := cmp.Diff(map[string]int{"pause": 1, "drain": 0, "expectations 1": 2, "expectations late": 0}, by); diff != "" {
			t.Errorf("by mismatch (-want +got):\n%s", diff)
		}
		r.Divert()
		r.Add("d", 0, "")
		all, by, _ = r.Held()
		if all != 4 {
			t.Errorf("all = %v, want 4", all)
		}
		if by["drain"] != 1 {
			t.Errorf(`by["drain"] = %v, want 1`, by["drain"])
		}
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
		if by["expectations shared"] != 2 {
			t.Errorf(`by["expectations shared"] = %v, want 2`, by["expectations shared"])
		}
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
		if got := r.ready(); len(got) != 0 {
			t.Errorf("r.ready() = %v, want none", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got, want := r.ready(), ([]string{"a"}); !slices.Equal(got, want) {
			t.Errorf("r.ready() = %q, want %q", got, want)
		}
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
			if _, ok := found[k.Key]; ok {
				t.Errorf("found = %v, want it not to contain %v", found, k.Key)
			}
			found[k.Key] = k
		}
		if len(found) != 4 {
			t.Errorf("len(found) = %d, want 4: %v", len(found), found)
		}
		if found["waits"].State != workqueue.Delayed {
			t.Errorf(`found["waits"].State = %v, want %v`, found["waits"].State, workqueue.Delayed)
		}
		if found["waits"].HeldBy != "expectations 1" {
			t.Errorf(`found["waits"].HeldBy = %q, want %q`, found["waits"].HeldBy, "expectations 1")
		}
		if found["forever"].State != 0 {
			t.Errorf(`found["forever"].State = %v, want 0`, found["forever"].State)
		}
		if found["forever"].HeldBy != "expectations 1" {
			t.Errorf(`found["forever"].HeldBy = %q, want %q`, found["forever"].HeldBy, "expectations 1")
		}
		if found["paused"].PausedSince.IsZero() {
			t.Error(`found["paused"].PausedSince is the zero time`)
		}
		if found["ready"].Priority != 7 {
			t.Errorf(`found["ready"].Priority = %v, want 7`, found["ready"].Priority)
		}
		if diff := cmp.Diff(agenda.Key[string]{KeyInfo: workqueue.KeyInfo[string]{Key: "unknown"}}, r.Of("unknown")); diff != "" {
			t.Errorf("r.Of(\"unknown\") mismatch (-want +got):\n%s", diff)
		}
		for range r.All() {
			break
		}
	})
}
