package leaderelect

import (
	"context"
	"log/slog"
	"sync"

	"github.com/setpoint-go/setpoint/wait"
)

// callbacks calls OnNewLeader, one call after the other, in a goroutine of its own. It keeps only the newest leader that
// still waits for its call, so a slow callback costs no memory, and a callback that hangs delays nothing else.
type callbacks struct {
	log         *slog.Logger
	onNewLeader func(Leader)
	wake        chan struct{} // capacity 1; newLeader and stop send after a change, nobody closes
	stopped     chan struct{} // closed by run when it returns

	mu sync.Mutex
	// mu guards the following.
	leader *Leader // newest that was not called back yet; nil if there is none
	closed bool
}

// startCallbacks returns callbacks that wait for a new leader. Its owner calls stop.
func startCallbacks(log *slog.Logger, onNewLeader func(Leader)) *callbacks {
	c := &callbacks{log: log, onNewLeader: onNewLeader, wake: make(chan struct{}, 1), stopped: make(chan struct{})}

	// This goroutine exists so that OnNewLeader delays neither a renewal nor the work. It ends after stop, which waits
	// for it.
	go c.run()
	return c
}

// newLeader has OnNewLeader called. It replaces a leader that still waits for its call.
func (c *callbacks) newLeader(l Leader) {
	if c.onNewLeader == nil {
		return
	}
	c.mu.Lock()
	c.leader = &l
	c.mu.Unlock()
	wake(c.wake)
}

// stop makes the call that still waits, and returns when that call has returned.
func (c *callbacks) stop() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	wake(c.wake)
	<-c.stopped
}

// run is the goroutine.
func (c *callbacks) run() {
	defer close(c.stopped)
	for {
		leader, closed := c.take()
		switch {
		case leader != nil:
			if err := guard(context.Background(), func(context.Context) error { c.onNewLeader(*leader); return nil }); err != nil {
				c.log.Error("leaderelect: OnNewLeader failed", "error", err)
			}
		case closed:
			return
		default:
			<-c.wake
		}
	}
}

// take returns the leader that waits for its call, or nil.
func (c *callbacks) take() (leader *Leader, closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	leader, c.leader = c.leader, nil
	return leader, c.closed
}

// guard runs a callback in a goroutine of its own and waits for it, so that neither a panic nor runtime.Goexit goes any
// further. Both become errors.
func guard(ctx context.Context, f func(context.Context) error) error {
	var g wait.Group
	g.Start(ctx, f)
	return g.Wait()
}
