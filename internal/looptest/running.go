package looptest

import (
	"context"
	"testing"
)

// Running is a loop that [Start] has started.
type Running struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error // written before done is closed
}

// Start calls run in a goroutine. The loop is stopped at the end of the test, if it was not stopped before.
func Start(t testing.TB, run func(context.Context) error) *Running {
	t.Helper()
	return StartIn(t.Context(), t, run)
}

// StartIn is [Start] with a parent for the context of run.
func StartIn(ctx context.Context, t testing.TB, run func(context.Context) error) *Running {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	r := &Running{cancel: cancel, done: make(chan struct{})}
	go func() { // ends with run; Stop waits for it
		defer close(r.done)
		r.err = run(ctx)
	}()
	t.Cleanup(func() { _ = r.Stop() })
	return r
}

// Cancel ends the context of the loop.
func (r *Running) Cancel() { r.cancel() }

// Done returns a channel that is closed when the loop has returned.
func (r *Running) Done() <-chan struct{} { return r.done }

// Stop ends the context of the loop, waits for the loop, and returns its error. It may be called again.
func (r *Running) Stop() error {
	r.cancel()
	<-r.done
	return r.err
}

// Ended reports whether the loop has returned.
func (r *Running) Ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}
