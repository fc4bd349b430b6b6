package lease

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/wait"
)

// maxCalls is the maximum number of store calls in flight. One is usual. More than one means that the store ignores the
// end of a context.
const maxCalls = 8

var (
	// ErrNoReply is the cause of the context of a call that has timed out.
	ErrNoReply = errors.New("no reply in time")

	// errGoexit is the result of a call that has ended its goroutine.
	errGoexit = errors.New("call store: it called runtime.Goexit")
)

// Calls counts the calls of a store that are in flight. Each call runs in its own goroutine, so that it cannot delay its
// caller for longer than its timeout. The zero value is ready for use. Do makes the calls.
type Calls struct {
	mu sync.Mutex
	// mu guards the following.
	running int
	idle    chan struct{} // made by a waiter, closed by the last call that ends; nil without a waiter
}

// Do calls f with arg and returns its result. If ctx ends or timeout passes first, Do returns an error at once and drops the
// later result of f. A panic of f becomes an error that is not definite.
func Do[A, T any](ctx context.Context, c *Calls, timeout time.Duration, f func(context.Context, A) (T, error), arg A) (T, error) {
	var none T
	if !c.start() {
		return none, fmt.Errorf("call store: %d calls have not returned", maxCalls)
	}
	type result struct {
		value T
		err   error
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, ErrNoReply)
	defer cancel()
	reply := make(chan result, 1)

	// This goroutine exists so that a call that hangs does not delay its caller. It ends when the store returns. Run
	// waits for it in Calls.Wait.
	go func() {
		r := result{err: errGoexit}
		defer func() { // also when f panics, or ends the goroutine
			if p := recover(); p != nil {
				r.err = &wait.PanicError{Value: p, Stack: debug.Stack()}
			}
			c.end() // first, because the receiver of the reply may make the next call
			reply <- r
		}()
		r.value, r.err = f(ctx, arg)
	}()

	select {
	case r := <-reply:
		if r.err == nil || ctx.Err() == nil || !errors.Is(r.err, context.Cause(ctx)) {
			return r.value, r.err
		}
	case <-ctx.Done():
	}
	// %v, because the cause is no reply of the store.
	return none, fmt.Errorf("call store: %v", context.Cause(ctx))
}

// Wait returns when no call is in flight, or after timeout. It returns the number of calls that are left behind.
func (c *Calls) Wait(timeout time.Duration) int {
	c.mu.Lock()
	if c.running == 0 {
		c.mu.Unlock()
		return 0
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	idle := c.idle
	c.mu.Unlock()

	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running
}

// start counts a call, unless there are too many.
func (c *Calls) start() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == maxCalls {
		return false
	}
	c.running++
	return true
}

// end counts a call that has returned.
func (c *Calls) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	if c.running == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// Guard runs a callback in its own goroutine and waits for it. A panic or a runtime.Goexit of the callback becomes an error.
func Guard(ctx context.Context, f func(context.Context) error) error {
	var g wait.Group
	g.Start(ctx, f)
	return g.Wait()
}
