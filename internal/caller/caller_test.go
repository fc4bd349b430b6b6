package caller_test

import (
	"context"
	"testing"

	"github.com/setpoint-go/setpoint/internal/caller"
)

func TestAttemptReportsItsEndOnce(t *testing.T) {
	if got := caller.From(t.Context()); got != nil {
		t.Errorf("caller.From(t.Context()) = %+v, want nil", got)
	}
	a := &caller.Attempt{ID: caller.ID{Controller: 1, Key: "k"}}
	if got := caller.From(context.WithValue(t.Context(), caller.Key{}, a)); got != a {
		t.Errorf("caller.From(context.WithValue(t.Context(), caller.Key{}, a)) = %p, want %p", got, a)
	}
	n := 0
	a.OnEnd(func() { n++; a.OnEnd(func() { n += 10 }) })
	if n != 0 {
		t.Errorf("n = %d, want 0", n)
	}
	a.End()
	a.End()
	if n != 11 {
		t.Errorf("n = %d, want 11", n)
	}
	a.OnEnd(func() { n++ })
	if n != 12 {
		t.Errorf("n = %d, want 12: a late result is delivered immediately", n)
	}
}
