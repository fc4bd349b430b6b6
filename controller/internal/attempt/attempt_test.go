package attempt_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/controller/internal/attempt"
	"github.com/setpoint-go/setpoint/internal/caller"
	"github.com/setpoint-go/setpoint/internal/written"
	"github.com/setpoint-go/setpoint/workqueue"
)

type valueKey struct{ name string }

// with returns ctx with a value of a name.
func with(ctx context.Context, name, value string) context.Context {
	return context.WithValue(ctx, valueKey{name}, value)
}

func newAttempt(ctx context.Context, of *attempt.Controller[string], key string) *attempt.Attempt[string] {
	return &attempt.Attempt[string]{Context: ctx, Work: ctx, Of: of, Key: key, Number: 7, Ordinal: 1}
}

func TestAttemptIsFoundInDerivedContexts(t *testing.T) {
	if got := attempt.From(t.Context()); got != nil {
		t.Errorf("attempt.From(t.Context()) = %v, want nil", got)
	}
	outer := newAttempt(with(t.Context(), "a", "1"), &attempt.Controller[string]{Name: "outer"}, "x")
	if got := outer.Value(valueKey{"a"}); got != "1" {
		t.Errorf(`outer.Value(valueKey{"a"}) = %v, want "1"`, got)
	}
	if got := attempt.From(outer); got != outer {
		t.Errorf("attempt.From(outer) = %v, want %v", got, outer)
	}
	ctx, cancel := context.WithCancel(with(outer, "a", "2"))
	cancel()
	if got := attempt.From(ctx); got != outer {
		t.Errorf("attempt.From(ctx) = %v, want %v", got, outer)
	}
	inner := newAttempt(ctx, &attempt.Controller[string]{Name: "inner"}, "y")
	if got := attempt.From(inner); got != inner {
		t.Errorf("attempt.From(inner) = %v, want %v", got, inner)
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
	of := &attempt.Controller[int]{Name: "sites", Logger: logger}
	a := &attempt.Attempt[int]{Context: t.Context(), Of: of, Key: 42, Number: 7, Ordinal: 1}
	a.Log().Info("first")
	if diff := cmp.Diff(attempt.Info{Controller: "sites", Key: "42", Reconcile: 7, Attempt: 1}, a.Info()); diff != "" {
		t.Errorf("a.Info() mismatch (-want +got):\n%s", diff)
	}
	first := time.Unix(0, 0).UTC()
	reasons := []workqueue.Reason{{Text: "changed"}, {Text: "failed"}}
	a = &attempt.Attempt[int]{Context: t.Context(), Of: of, Key: 42, Number: 8, Ordinal: 2, FirstFailure: first, Reasons: reasons}
	a.Log().Info("second")
	want := attempt.Info{Controller: "sites", Key: "42", Reconcile: 8, Attempt: 2, FirstFailure: first, Reasons: reasons}
	if diff := cmp.Diff(want, a.Info()); diff != "" {
		t.Errorf("a.Info() mismatch (-want +got):\n%s", diff)
	}
	if got, want := logged.String(), "level=INFO msg=first controller=sites key=42 attempt=1 reconcile=7\n"+
		"level=INFO msg=second controller=sites key=42 attempt=2 reconcile=8 first_failure=1970-01-01T00:00:00.000Z "+
		"reasons=\"[changed failed]\"\n"; got != want {
		t.Errorf("logged.String() = %q, want %q", got, want)
	}
}

func TestLimiterIdentityLastsForAttempt(t *testing.T) {
	of, other := &attempt.Controller[string]{}, &attempt.Controller[string]{}
	a := newAttempt(t.Context(), of, "a")
	a.End() // no limiter has asked
	id := caller.From(with(a, "a", "1"))
	if got := caller.From(a); got != id {
		t.Errorf("caller.From(a) = %p, want %p", got, id)
	}
	if got := caller.From(a.LastWord()); got != id {
		t.Errorf("caller.From(a.LastWord()) = %p, want %p: its calls belong to the same attempt", got, id)
	}
	again := caller.From(newAttempt(t.Context(), of, "a"))
	if again == id {
		t.Errorf("again = %p, want another value than %p", again, id)
	}
	if id.ID != again.ID {
		t.Errorf("id.ID = %+v, want %+v", id.ID, again.ID)
	}
	if want := caller.From(newAttempt(t.Context(), of, "b")).ID; id.ID == want {
		t.Errorf("id.ID = %+v, want anything but %+v", id.ID, want)
	}
	if want := caller.From(newAttempt(t.Context(), other, "a")).ID; id.ID == want {
		t.Errorf("id.ID = %+v, want anything but %+v: that is another controller", id.ID, want)
	}
	ended := false
	id.OnEnd(func() { ended = true })
	if ended {
		t.Error("ended = true, want false")
	}
	a.End()
	if !ended {
		t.Error("ended = false, want true")
	}
	unasked := newAttempt(t.Context(), of, "a")
	if got, want := caller.From(unasked), caller.From(unasked.LastWord()); got != want {
		t.Errorf("caller.From(unasked) = %p, want %p", got, want)
	}
}

func TestWritesBelongToInnermostAttempt(t *testing.T) {
	var told []string
	listening := &attempt.Controller[string]{Wrote: func(key string, clock written.Clock, version uint64) {
		if want := (written.Clock{Kind: "site", DB: 1}); !reflect.DeepEqual(clock, want) {
			t.Errorf("clock = %+v, want %+v", clock, want)
		}
		if version != 3 {
			t.Errorf("version = %d, want 3", version)
		}
		told = append(told, key)
	}}
	a := newAttempt(t.Context(), listening, "a")
	b := newAttempt(a, listening, "b")
	deaf := newAttempt(b, &attempt.Controller[string]{}, "deaf")
	for _, ctx := range []context.Context{a, with(a, "a", "1"), b, deaf} {
		written.Tell(ctx, "site", 1, 3)
	}
	if diff := cmp.Diff([]string{"a", "a", "b"}, told); diff != "" {
		t.Errorf("told mismatch (-want +got):\n%s", diff)
	}
}

func TestLastWordKeepsValuesOfReconcileContext(t *testing.T) {
	work := with(with(t.Context(), "a", "work"), "b", "work")
	a := newAttempt(work, &attempt.Controller[string]{Name: "sites"}, "a")
	limited, cancel := context.WithCancel(work)
	a.Context = limited
	if got := a.Given(); got != a {
		t.Errorf("a.Given() = %v, want %v", got, a)
	}
	last := a.LastWord()
	if diff := cmp.Diff(a.Info(), last.Info()); diff != "" {
		t.Errorf("last.Info() mismatch (-want +got):\n%s", diff)
	}
	if got := attempt.From(last); got != last {
		t.Errorf("attempt.From(last) = %v, want %v", got, last)
	}

	a.Traced = with(a, "a", "traced")
	if got := a.Given().Value(valueKey{"a"}); got != "traced" {
		t.Errorf(`a.Given().Value(valueKey{"a"}) = %v, want "traced"`, got)
	}
	cancel()
	if err := a.Given().Err(); err == nil {
		t.Error("a.Given().Err() returned no error")
	}
	last = a.LastWord()
	if err := last.Err(); err != nil {
		t.Errorf("only the work context bounds it: %v", err)
	}
	if got := last.Value(valueKey{"a"}); got != "traced" {
		t.Errorf(`last.Value(valueKey{"a"}) = %v, want "traced"`, got)
	}
	if got := last.Value(valueKey{"b"}); got != "work" {
		t.Errorf(`last.Value(valueKey{"b"}) = %v, want "work"`, got)
	}
	if got := attempt.From(last); got != last {
		t.Errorf("attempt.From(last) = %v, want %v", got, last)
	}
}
