package looptest

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
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

// StartInBubble is [Start] in a bubble: it returns when every goroutine of the bubble is blocked. stop fails the test if run returns an error;
// further calls of stop, and the end of the test, have no effect then.
func StartInBubble(t testing.TB, run func(context.Context) error) (stop func()) {
	t.Helper()
	r := Start(t, run)
	stop = sync.OnceFunc(func() {
		if err := r.Stop(); err != nil {
			t.Errorf("Run returns %v", err)
		}
	})
	t.Cleanup(stop)
	synctest.Wait()
	return stop
}

// TakeAll returns the content of a channel, once every goroutine of the bubble is blocked.
func TakeAll[T any](events <-chan T) (all []T) {
	synctest.Wait()
	for len(events) > 0 {
		all = append(all, <-events)
	}
	return all
}
