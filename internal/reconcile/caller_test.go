package reconcile_test

import (
	"context"
	"testing"

	"github.com/setpoint-go/setpoint/internal/reconcile"
)

func TestCallerReportsItsEndOnce(t *testing.T) {
	if got := reconcile.CallerOf(t.Context()); got != nil {
		t.Errorf("reconcile.CallerOf(t.Context()) = %+v, want nil", got)
	}
	a := &reconcile.Caller{ID: reconcile.CallerID{Controller: 1, Key: "k"}}
	if got := reconcile.CallerOf(context.WithValue(t.Context(), reconcile.CallerKey{}, a)); got != a {
		t.Errorf("reconcile.CallerOf(context.WithValue(t.Context(), reconcile.CallerKey{}, a)) = %p, want %p", got, a)
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
