package attempt_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

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
	assert.Nil(t, attempt.From(t.Context()))
	outer := newAttempt(with(t.Context(), "a", "1"), &attempt.Controller[string]{Name: "outer"}, "x")
	assert.Equal(t, "1", outer.Value(valueKey{"a"}))
	assert.Same(t, outer, attempt.From(outer))
	ctx, cancel := context.WithCancel(with(outer, "a", "2"))
	cancel()
	assert.Same(t, outer, attempt.From(ctx))
	inner := newAttempt(ctx, &attempt.Controller[string]{Name: "inner"}, "y")
	assert.Same(t, inner, attempt.From(inner))
	assert.ErrorIs(t, inner.Err(), context.Canceled)
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
	assert.Equal(t, attempt.Info{Controller: "sites", Key: "42", Reconcile: 7, Attempt: 1}, a.Info())
	first := time.Unix(0, 0).UTC()
	reasons := []workqueue.Reason{{Text: "changed"}, {Text: "failed"}}
	a = &attempt.Attempt[int]{Context: t.Context(), Of: of, Key: 42, Number: 8, Ordinal: 2, FirstFailure: first, Reasons: reasons}
	a.Log().Info("second")
	assert.Equal(t, attempt.Info{Controller: "sites", Key: "42", Reconcile: 8, Attempt: 2, FirstFailure: first, Reasons: reasons}, a.Info())
	assert.Equal(t, "level=INFO msg=first controller=sites key=42 attempt=1 reconcile=7\n"+
		"level=INFO msg=second controller=sites key=42 attempt=2 reconcile=8 first_failure=1970-01-01T00:00:00.000Z "+
		"reasons=\"[changed failed]\"\n", logged.String())
}

func TestLimiterIdentityLastsForAttempt(t *testing.T) {
	of, other := &attempt.Controller[string]{}, &attempt.Controller[string]{}
	a := newAttempt(t.Context(), of, "a")
	a.End() // no limiter has asked
	id := caller.From(with(a, "a", "1"))
	assert.Same(t, id, caller.From(a))
	assert.Same(t, id, caller.From(a.LastWord()), "its calls belong to the same attempt")
	again := caller.From(newAttempt(t.Context(), of, "a"))
	assert.NotSame(t, id, again)
	assert.True(t, id.ID == again.ID)
	assert.False(t, id.ID == caller.From(newAttempt(t.Context(), of, "b")).ID)
	assert.False(t, id.ID == caller.From(newAttempt(t.Context(), other, "a")).ID, "that is another controller")
	ended := false
	id.OnEnd(func() { ended = true })
	assert.False(t, ended)
	a.End()
	assert.True(t, ended)
	unasked := newAttempt(t.Context(), of, "a")
	assert.Same(t, caller.From(unasked.LastWord()), caller.From(unasked))
}

func TestWritesBelongToInnermostAttempt(t *testing.T) {
	var told []string
	listening := &attempt.Controller[string]{Wrote: func(key string, clock written.Clock, version uint64) {
		assert.Equal(t, written.Clock{Kind: "site", DB: 1}, clock)
		assert.EqualValues(t, 3, version)
		told = append(told, key)
	}}
	a := newAttempt(t.Context(), listening, "a")
	b := newAttempt(a, listening, "b")
	deaf := newAttempt(b, &attempt.Controller[string]{}, "deaf")
	for _, ctx := range []context.Context{a, with(a, "a", "1"), b, deaf} {
		written.Tell(ctx, "site", 1, 3)
	}
	assert.Equal(t, []string{"a", "a", "b"}, told)
}

func TestLastWordKeepsValuesOfReconcileContext(t *testing.T) {
	work := with(with(t.Context(), "a", "work"), "b", "work")
	a := newAttempt(work, &attempt.Controller[string]{Name: "sites"}, "a")
	limited, cancel := context.WithCancel(work)
	a.Context = limited
	assert.Same(t, a, a.Given())
	last := a.LastWord()
	assert.Equal(t, a.Info(), last.Info())
	assert.Same(t, last, attempt.From(last))

	a.Traced = with(a, "a", "traced")
	assert.Equal(t, "traced", a.Given().Value(valueKey{"a"}))
	cancel()
	assert.Error(t, a.Given().Err())
	last = a.LastWord()
	assert.NoError(t, last.Err(), "only the work context bounds it")
	assert.Equal(t, "traced", last.Value(valueKey{"a"}))
	assert.Equal(t, "work", last.Value(valueKey{"b"}))
	assert.Same(t, last, attempt.From(last))
}
