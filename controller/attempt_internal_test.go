package controller

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/internal/reconcile"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/workqueue"
)

type valueKey struct{ name string }

// with returns ctx with a value of a name.
func with(ctx context.Context, name, value string) context.Context {
	return context.WithValue(ctx, valueKey{name}, value)
}

// newTestController returns a controller that calls nothing. Its informers mirror the given caches.
func newTestController[K comparable](name string, logger *slog.Logger, caches ...*fakeCache) *Controller[K] {
	return &Controller[K]{name: name, cfg: Config[K]{Logger: logger}, caches: newStoreCaches[K](caches)}
}

func newTestAttempt(ctx context.Context, of *Controller[string], key string) *attempt[string] {
	return &attempt[string]{Context: ctx, work: ctx, of: of, key: key, number: 7, ordinal: 1}
}

func TestAttemptIsFoundInDerivedContexts(t *testing.T) {
	if got := attemptOf(t.Context()); got != nil {
		t.Errorf("attemptOf(t.Context()) = %v, want nil", got)
	}
	outer := newTestAttempt(with(t.Context(), "a", "1"), newTestController[string]("outer", nil), "x")
	if got := outer.Value(valueKey{"a"}); got != "1" {
		t.Errorf(`outer.Value(valueKey{"a"}) = %v, want "1"`, got)
	}
	if got := attemptOf(outer); got != outer {
		t.Errorf("attemptOf(outer) = %v, want %v", got, outer)
	}
	ctx, cancel := context.WithCancel(with(outer, "a", "2"))
	cancel()
	if got := attemptOf(ctx); got != outer {
		t.Errorf("attemptOf(ctx) = %v, want %v", got, outer)
	}
	inner := newTestAttempt(ctx, newTestController[string]("inner", nil), "y")
	if got := attemptOf(inner); got != inner {
		t.Errorf("attemptOf(inner) = %v, want %v", got, inner)
	}
	if err := inner.Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("inner.Err() = %v, want %v", err, context.Canceled)
	}
}

func TestAttemptInfo(t *testing.T) {
	var logged bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	of := newTestController[int]("sites", logger)
	a := &attempt[int]{Context: t.Context(), of: of, key: 42, number: 7, ordinal: 1}
	a.logger().Info("first")
	if diff := cmp.Diff(Info{Controller: "sites", Key: "42", Reconcile: 7, Attempt: 1}, a.info()); diff != "" {
		t.Errorf("a.info() mismatch (-want +got):\n%s", diff)
	}
	first := time.Unix(0, 0).UTC()
	reasons := []workqueue.Reason{{Text: "failed"}, {Text: "changed"}, {Text: "changed"}, {Text: "changed"}, {Text: "failed"}}
	a = &attempt[int]{Context: t.Context(), of: of, key: 42, number: 8, ordinal: 2, firstFailure: first, reasons: reasons}
	a.logger().Info("second")
	want := Info{Controller: "sites", Key: "42", Reconcile: 8, Attempt: 2, FirstFailure: first, Reasons: reasons}
	if diff := cmp.Diff(want, a.info()); diff != "" {
		t.Errorf("a.info() mismatch (-want +got):\n%s", diff)
	}
	if got, want := logged.String(), "level=INFO msg=first controller=sites key=42 attempt=1 reconcile=7\n"+
		"level=INFO msg=second controller=sites key=42 attempt=2 reconcile=8 first_failure=1970-01-01T00:00:00.000Z "+
		"reasons=\"[failed changed (3 times) failed]\"\n"; got != want {
		t.Errorf("logged.String() = %q, want %q", got, want)
	}
}

func TestLimiterIdentityLastsForAttempt(t *testing.T) {
	of, other := newTestController[string]("", nil), newTestController[string]("", nil)
	a := newTestAttempt(t.Context(), of, "a")
	a.close() // no limiter has asked
	id := reconcile.CallerOf(with(a, "a", "1"))
	if got := reconcile.CallerOf(a); got != id {
		t.Errorf("reconcile.CallerOf(a) = %p, want %p", got, id)
	}
	if got := reconcile.CallerOf(a.forGaveUp()); got != id {
		t.Errorf("reconcile.CallerOf(a.forGaveUp()) = %p, want %p: its calls belong to the same attempt", got, id)
	}
	again := reconcile.CallerOf(newTestAttempt(t.Context(), of, "a"))
	if again == id {
		t.Errorf("again = %p, want another value than %p", again, id)
	}
	if id.ID != again.ID {
		t.Errorf("id.ID = %+v, want %+v", id.ID, again.ID)
	}
	if want := reconcile.CallerOf(newTestAttempt(t.Context(), of, "b")).ID; id.ID == want {
		t.Errorf("id.ID = %+v, want anything but %+v", id.ID, want)
	}
	if want := reconcile.CallerOf(newTestAttempt(t.Context(), other, "a")).ID; id.ID == want {
		t.Errorf("id.ID = %+v, want anything but %+v: that is another controller", id.ID, want)
	}
	ended := false
	id.OnEnd(func() { ended = true })
	if ended {
		t.Error("ended = true, want false")
	}
	a.close()
	if !ended {
		t.Error("ended = false, want true")
	}
	unasked := newTestAttempt(t.Context(), of, "a")
	if got, want := reconcile.CallerOf(unasked), reconcile.CallerOf(unasked.forGaveUp()); got != want {
		t.Errorf("reconcile.CallerOf(unasked) = %p, want %p", got, want)
	}
}

func TestWritesBelongToInnermostAttempt(t *testing.T) {
	site := reconcile.Clock{Kind: "site", DB: 1}
	listening := newTestController[string]("", nil, &fakeCache{clock: site})
	a := newTestAttempt(t.Context(), listening, "a")
	b := newTestAttempt(a, listening, "b")
	deaf := newTestAttempt(b, newTestController[string]("", nil), "deaf")
	behind := func() (keys []string) {
		cache := listening.caches.all[0]
		for key := range cache.behind {
			keys = append(keys, key)
		}
		cache.behind = make(map[string]awaitedWrite)
		slices.Sort(keys)
		return keys
	}
	for _, test := range []struct {
		ctx  context.Context
		want []string
	}{
		{a, []string{"a"}}, {with(a, "a", "1"), []string{"a"}}, {b, []string{"b"}}, {deaf, nil},
		{b.forGaveUp(), []string{"b"}},
	} {
		reconcile.ReportWrite(test.ctx, "site", 1, 3)
		if diff := cmp.Diff(test.want, behind()); diff != "" {
			t.Errorf("behind mismatch (-want +got):\n%s", diff)
		}
		reconcile.ReportWrite(test.ctx, "other", 1, 3)
		if got := behind(); got != nil {
			t.Errorf("behind = %v after a write to a kind that no cache mirrors, want none", got)
		}
	}
	if last := b.forGaveUp(); b.hasEnded() || last.hasEnded() {
		t.Error("the attempt has ended, want not before close")
	} else if b.close(); !b.hasEnded() || !last.hasEnded() {
		t.Error("the attempt has not ended after close")
	}
}

func TestGaveUpKeepsValuesOfReconcileContext(t *testing.T) {
	work := with(with(t.Context(), "a", "work"), "b", "work")
	a := newTestAttempt(work, newTestController[string]("sites", nil), "a")
	limited, cancel := context.WithCancel(work)
	a.Context = limited
	if got := a.given(); got != a {
		t.Errorf("a.given() = %v, want %v", got, a)
	}
	last := a.forGaveUp()
	if diff := cmp.Diff(a.info(), last.info()); diff != "" {
		t.Errorf("last.info() mismatch (-want +got):\n%s", diff)
	}
	if got := attemptOf(last); got != last {
		t.Errorf("attemptOf(last) = %v, want %v", got, last)
	}

	a.traced = with(a, "a", "traced")
	if got := a.given().Value(valueKey{"a"}); got != "traced" {
		t.Errorf(`a.given().Value(valueKey{"a"}) = %v, want "traced"`, got)
	}
	cancel()
	if err := a.given().Err(); err == nil {
		t.Error("a.given().Err() returned no error")
	}
	last = a.forGaveUp()
	if err := last.Err(); err != nil {
		t.Errorf("only the work context bounds it: %v", err)
	}
	if got := last.Value(valueKey{"a"}); got != "traced" {
		t.Errorf(`last.Value(valueKey{"a"}) = %v, want "traced"`, got)
	}
	if got := last.Value(valueKey{"b"}); got != "work" {
		t.Errorf(`last.Value(valueKey{"b"}) = %v, want "work"`, got)
	}
	if got := attemptOf(last); got != last {
		t.Errorf("attemptOf(last) = %v, want %v", got, last)
	}
}

// lead calls work as a leader who loses the lease 10 s later.
func lead(t *testing.T, work func(ctx context.Context)) {
	store := memlease.New()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	elector, err := leaderelect.New(leaderelect.Config{
		Store: store, Key: "lock", Identity: "me", Logger: slog.New(slog.DiscardHandler),
		OnStartedLeading: func(ctx context.Context, _ *leaderelect.Leadership) error {
			defer cancel()
			work(ctx)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(10*time.Second, func() {
		store.Inject(memlease.Faults{Before: func(context.Context, memlease.Call) error { return errors.New("cut off") }})
	})
	if err := elector.Run(ctx); err != nil {
		t.Fatalf("elector.Run(ctx): %v", err)
	}
}

// Guarantees 1 and 2.
func TestWorkEndsWithLostLeadershipBeforeParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lead(t, func(ctx context.Context) {
			type valueKey struct{}
			work, stop := workContext(context.WithValue(ctx, valueKey{}, "value"))
			defer stop(nil)
			child, cancel := context.WithTimeout(work, time.Hour)
			defer cancel()
			for _, stack := range looptest.Stacks(t) {
				if strings.Contains(stack, "created by context.(*cancelCtx).propagateCancel") {
					t.Errorf("stack = %q, want it without %q: no goroutine propagates the end", stack, "created by context.(*cancelCtx).propagateCancel")
				}
			}
			_, hasDeadline := work.Deadline()
			if hasDeadline {
				t.Error("hasDeadline = true, want false")
			}
			if got := work.Value(valueKey{}); got != "value" {
				t.Errorf(`work.Value(valueKey{}) = %v, want "value"`, got)
			}
			if err := leadershipErr(work); err != nil {
				t.Fatalf("leadershipErr(work): %v", err)
			}
			<-ctx.Done()
			if err := context.Cause(child); !errors.Is(err, leaderelect.ErrLeaseExpired) {
				t.Errorf("context.Cause(child) = %v, want %v", err, leaderelect.ErrLeaseExpired)
			}
		})
	})
}

// Guarantee 1.
func TestWorkContinuesAfterParentEnds(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	work, stop := workContext(parent)
	cancel()
	if err := work.Err(); err != nil {
		t.Fatalf("work.Err(): %v", err)
	}
	if err := leadershipErr(work); err != nil {
		t.Fatalf("it belongs to no leadership: %v", err)
	}
	why := errors.New("why")
	stop(why)
	if got := context.Cause(work); got != why {
		t.Errorf("context.Cause(work) = %v, want %v", got, why)
	}
}

// Guarantee 3.
func TestErrReportsEndedLeadershipInDetachedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lead(t, func(ctx context.Context) {
			if err := leadershipErr(ctx); err != nil {
				t.Fatalf("leadershipErr(ctx): %v", err)
			}
			lasting := context.WithoutCancel(ctx)
			<-ctx.Done()
			if err := leadershipErr(lasting); !errors.Is(err, leaderelect.ErrLeaseExpired) {
				t.Errorf("leadershipErr(lasting) = %v, want %v", err, leaderelect.ErrLeaseExpired)
			}
		})
	})
}

func TestReleaseWaitsForStopAndPreventsLaterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var stopped atomic.Bool
		stop := func(cause error) {
			time.Sleep(time.Second)
			if !errors.Is(cause, context.DeadlineExceeded) {
				t.Errorf("cause = %v, want %v", cause, context.DeadlineExceeded)
			}
			stopped.Store(true)
		}
		release := stopWith(limit, stop)
		time.Sleep(1500 * time.Millisecond)
		release()
		if !stopped.Load() {
			t.Error("stopped.Load() = false, want true: release has waited for it")
		}

		stopped.Store(false)
		limit, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		stopWith(limit, stop)()
		time.Sleep(time.Minute)
		if stopped.Load() {
			t.Error("stopped.Load() = true, want false")
		}
	})
}
