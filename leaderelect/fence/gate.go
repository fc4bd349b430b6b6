package fence

import (
	"context"
	"fmt"
	"sync"
)

// Gate lets in the work of the newest leader. The zero value has seen no term and is ready for use. All methods may be
// called by many goroutines at once. It must not be copied after its first use.
type Gate struct {
	mu sync.Mutex
	// mu guards the following.
	highest uint64
	current int           // work of the highest term that was let in and has not ended
	older   int           // the same of lower terms
	clear   chan struct{} // closed when older is 0; nil when nobody waits
}

// Do runs f if no greater term was seen, and returns what f returns. If the term is greater than all that were seen, it
// first waits for work of lower terms to end. The error wraps [ErrStale] if the term is less than the greatest, also if
// that has come while Do waited, and the cause of ctx if ctx ends before f has begun. Work of one term may run beside
// each other.
func (g *Gate) Do(ctx context.Context, term uint64, f func(context.Context) error) error {
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

// Raise bars all terms below term, without waiting for their work to end. The error wraps ErrStale if a greater term
// was seen.
func (g *Gate) Raise(term uint64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.raiseLocked(term)
}

// Highest returns the greatest term that was seen; 0 if there was none.
func (g *Gate) Highest() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.highest
}

// enter lets work in, or returns what it has to wait for.
func (g *Gate) enter(term uint64) (wait <-chan struct{}, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.raiseLocked(term); err != nil {
		return nil, err
	}
	if g.older == 0 {
		g.current++
		return nil, nil
	}
	if g.clear == nil {
		g.clear = make(chan struct{})
	}
	return g.clear, nil
}

// leave counts work that has ended.
func (g *Gate) leave(term uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if term == g.highest {
		g.current--
		return
	}
	g.older--
	if g.older == 0 && g.clear != nil {
		close(g.clear)
		g.clear = nil
	}
}

func (g *Gate) raiseLocked(term uint64) error {
	if term < g.highest {
		return stale(term, g.highest)
	}
	if term > g.highest {
		g.older, g.current = g.older+g.current, 0
		g.highest = term
	}
	return nil
}
