package fence

import (
	"context"
	"fmt"
	"sync"
)

// Guard admits the work of the newest leader only. The zero value has seen no term and is ready for use. A Guard must not be
// copied after its first use. All methods may be called concurrently.
type Guard struct {
	mu sync.Mutex
	// mu guards the following.
	highest uint64
	current int           // admitted work of the highest term that has not ended
	older   int           // the same for lower terms
	changed chan struct{} // closed when older is 0 or highest grows; nil without a waiter
}

// Do runs f and returns its error, unless a greater term was seen. If work of lower terms still runs, Do waits for it
// first. The error wraps [ErrStale] if a greater term was seen before or arrives while Do waits. If ctx ends before f
// begins, the error wraps the cause of ctx. Several calls with the same term may run concurrently.
func (g *Guard) Do(ctx context.Context, term uint64, f func(context.Context) error) error {
	for {
		wait, err := g.enter(term)
		if err != nil {
			return err
		}
		if wait == nil {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("fence: wait for work of terms before %d: %w", term, context.Cause(ctx))
		case <-wait:
		}
	}
	defer g.leave(term)
	if ctx.Err() != nil {
		return fmt.Errorf("fence: begin work of term %d: %w", term, context.Cause(ctx))
	}
	return f(ctx)
}

// Raise bars all terms below term. It does not wait for their work. If a greater term was seen, the error wraps ErrStale.
func (g *Guard) Raise(term uint64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.raiseLocked(term)
}

// Highest returns the greatest term that was seen, or 0.
func (g *Guard) Highest() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.highest
}

// enter admits work, or returns a channel that is closed when the work of lower terms has ended or a greater term was seen.
func (g *Guard) enter(term uint64) (wait <-chan struct{}, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.raiseLocked(term); err != nil {
		return nil, err
	}
	if g.older == 0 {
		g.current++
		return nil, nil
	}
	if g.changed == nil {
		g.changed = make(chan struct{})
	}
	return g.changed, nil
}

// leave counts work that has ended.
func (g *Guard) leave(term uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if term == g.highest {
		g.current--
		return
	}
	g.older--
	if g.older == 0 {
		g.wakeLocked()
	}
}

func (g *Guard) raiseLocked(term uint64) error {
	if term < g.highest {
		return stale(term, g.highest)
	}
	if term > g.highest {
		g.older, g.current = g.older+g.current, 0
		g.highest = term
		g.wakeLocked()
	}
	return nil
}

// wakeLocked wakes all waiters, which try again.
func (g *Guard) wakeLocked() {
	if g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}
