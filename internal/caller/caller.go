package caller

import (
	"context"
	"sync"
)

// Key is the key under which a context has an [*Attempt].
type Key struct{}

// ID identifies the object of an attempt. It is comparable.
type ID struct{ Controller, Key any }

// Attempt is one attempt to work on something. It is safe for concurrent use.
type Attempt struct {
	ID    ID
	Notes sync.Map // notes about this attempt, each under a key of its own

	mu sync.Mutex
	// mu guards the following.
	ended bool
	ends  []func()
}

// From returns the attempt that ctx belongs to, or nil.
func From(ctx context.Context) *Attempt {
	a, _ := ctx.Value(Key{}).(*Attempt)
	return a
}

// OnEnd registers f to be called when the attempt has ended.
func (a *Attempt) OnEnd(f func()) {
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
func (a *Attempt) End() {
	a.mu.Lock()
	ends := a.ends
	a.ended, a.ends = true, nil
	a.mu.Unlock()
	for _, f := range ends {
		f()
	}
}
