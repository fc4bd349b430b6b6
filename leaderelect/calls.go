package leaderelect

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/wait"
)

// maxCalls bounds the store calls that are under way at once. One is usual; more means that the store ignores the end
// of a context.
const maxCalls = 8

// calls runs store calls, each in a goroutine of its own, so that none of them can hold up its caller for longer than
// its timeout.
type calls struct {
	mu sync.Mutex
	// mu guards the following.
	running int
	idle    chan struct{} // made by a waiter, closed by the call that ends as the last; nil when nobody waits
}

// do runs f and returns what it returns, or an error as soon as ctx ends or timeout has passed, whether f has returned or
// not. The result of an f that returns later is dropped. A panic of f is an error that is not definite.
func (c *calls) do(ctx context.Context, timeout time.Duration, f func(context.Context) (Entry, error)) (Entry, error) {
	if !c.start() {
		return Entry{}, fmt.Errorf("leaderelect: call store: %d calls have not returned", maxCalls)
	}
	type result struct {
		entry Entry
		err   error
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errNoReply)
	defer cancel()
	reply := make(chan result, 1)

	// This goroutine exists so that a call that hangs delays nobody. It ends when the store returns; Run waits for it
	// in calls.wait.
	go func() {
		r := result{err: errGoexit}
		defer func() { // also when the store ends the goroutine
			c.end() // first: whoever has the reply may make the next call
			reply <- r
		}()
		r.err = wait.Call(ctx, func(ctx context.Context) (err error) {
			r.entry, err = f(ctx)
			return err
		})
	}()

	select {
	case r := <-reply:
		return r.entry, r.err
	case <-ctx.Done():
		// %v: whatever the cause is, it is not an answer of the store.
		return Entry{}, fmt.Errorf("leaderelect: call store: %v", context.Cause(ctx))
	}
}

// wait returns when no call is under way, or after timeout. It returns how many calls are left behind.
func (c *calls) wait(timeout time.Duration) int {
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
func (c *calls) start() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == maxCalls {
		return false
	}
	c.running++
	return true
}

// end counts a call that has returned.
func (c *calls) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	if c.running == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}
