package reconcile

import (
	"context"
	"sync"
)

// CallerKey is the key under which a context has an [*Caller].
type CallerKey struct{}

// CallerID identifies the object of an attempt. It is comparable.
type CallerID struct{ Controller, Key any }

// Caller identifies one attempt to limiters. It is safe for concurrent use.
type Caller struct {
	ID    CallerID
	Notes sync.Map // notes about this attempt, each under a key of its own

	mu sync.Mutex
	// mu guards the following.
	ended bool
	ends  []func()
}

// CallerOf returns the attempt that ctx belongs to, or nil.
func CallerOf(ctx context.Context) *Caller {
	a, _ := ctx.Value(CallerKey{}).(*Caller)
	return a
}

// OnEnd registers f to be called when the attempt has ended.
func (a *Caller) OnEnd(f func()) {
	a.mu.Lock()
	ended := a.ended
	if !ended {
		a.ends = append(a.ends, f)
	}
	a.mu.Unlock()
	if ended {
		f()
	}
}

// End marks the attempt as ended.
func (a *Caller) End() {
	a.mu.Lock()
	ends := a.ends
	a.ended, a.ends = true, nil
	a.mu.Unlock()
	for _, f := range ends {
		f()
	}
}
