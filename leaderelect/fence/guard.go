package fence

import (
	"context"
	"fmt"
	"sync"

	"github.com/setpoint-go/setpoint/internal/broadcast"
)

// Guard admits the work of the newest leader only. The zero value has seen no term and is ready for use. A Guard must not be
// copied after its first use. All methods may be called concurrently.
type Guard struct {
	mu sync.Mutex
	// mu guards the following.
	highest uint64
	current int // admitted work of the highest term that has not ended
	older   int // the same for lower terms

	changed broadcast.Signal // wakes when older is 0 or highest grows; the waiters try again
}

// Do runs f and returns its error, unless a greater term was seen. If work of lower terms still runs, Do waits for it
// first. The error is a [*StaleError] if a greater term was seen before or arrives while Do waits. If ctx ends before f
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

// DoUntilStale is like Do, but the context of f also ends when a greater term is seen. The cause is then a [*StaleError]. Use
// it for work that lasts, such as a stream: a successor waits until f has returned.
func (g *Guard) DoUntilStale(ctx context.Context, term uint64, f func(context.Context) error) error {
	return g.Do(ctx, term, func(ctx context.Context) error {
		ctx, cancel := context.WithCancelCause(ctx)
		var watch sync.WaitGroup
		defer watch.Wait()
		defer cancel(nil)
		watch.Go(func() { // f may block, so another goroutine waits for a greater term; it ends with f
			for {
				changed := g.changed.Next()
				if have := g.Highest(); have > term {
					cancel(&StaleError{Term: term, Have: have})
					return
				}
				select {
				case <-changed:
				case <-ctx.Done():
					return
				}
			}
		})
		return f(ctx)
	})
}

// Raise bars all terms below term. It does not wait for their work. If a greater term was seen, the error is a [*StaleError].
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
	return g.changed.Next(), nil
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
		g.changed.Wake()
	}
}

func (g *Guard) raiseLocked(term uint64) error {
	if term < g.highest {
		return &StaleError{Term: term, Have: g.highest}
	}
	if term > g.highest {
		g.older, g.current = g.older+g.current, 0
		g.highest = term
		g.changed.Wake()
	}
	return nil
}
