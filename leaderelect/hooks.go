package leaderelect

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
)

// Hooks observe an [Elector]. Each may be nil. They are called without locks and should be fast, because a renewal waits for
// them. A panic in a hook is captured and logged. Together with [Elector.Stats], they provide the two metrics of client-go's
// leaderelection:
//
//	leader_election_master_status    Stats: Leading
//	leader_election_slowpath_total   Request, with the operation "get", while the elector leads
type Hooks struct {
	// Request is called when a call of the store has returned, or when the elector has stopped waiting for it. The operation
	// is "get", "create", or "update".
	Request func(operation string, took time.Duration, err error)
}

// callbacks calls OnNewLeader in its own goroutine, one call at a time. While a call runs, it keeps only the newest
// leader. So a slow callback costs no memory, and a callback that hangs delays nothing else.
type callbacks struct {
	log         *slog.Logger
	onNewLeader func(Leader)
	wake        chan struct{} // capacity 1; newLeader and stop send after a change, never closed
	stopped     chan struct{} // closed by run when it returns

	mu sync.Mutex
	// mu guards the following.
	leader *Leader // the newest leader that was not reported yet; nil if there is none
	closed bool
}

// startCallbacks returns callbacks that wait for a new leader. The caller calls stop.
func startCallbacks(log *slog.Logger, onNewLeader func(Leader)) *callbacks {
	c := &callbacks{log: log, onNewLeader: onNewLeader, wake: make(chan struct{}, 1), stopped: make(chan struct{})}

	// This goroutine exists so that OnNewLeader delays neither a renewal nor the work. It ends after stop, which waits
	// for it.
	go c.run()
	return c
}

// newLeader makes l the next leader to report, in place of any that was not reported yet.
func (c *callbacks) newLeader(l Leader) {
	if c.onNewLeader == nil {
		return
	}
	c.mu.Lock()
	c.leader = &l
	c.mu.Unlock()
	lease.Wake(c.wake)
}

// stop reports a leader that was not reported yet, and returns when OnNewLeader has returned.
func (c *callbacks) stop() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	lease.Wake(c.wake)
	<-c.stopped
}

// run is the goroutine.
func (c *callbacks) run() {
	defer close(c.stopped)
	for {
		leader, closed := c.take()
		switch {
		case leader != nil:
			if err := lease.Guard(context.Background(), func(context.Context) error { c.onNewLeader(*leader); return nil }); err != nil {
				c.log.Error("OnNewLeader failed", "error", err)
			}
		case closed:
			return
		default:
			<-c.wake
		}
	}
}

// take returns the leader to report next, or nil.
func (c *callbacks) take() (leader *Leader, closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	leader, c.leader = c.leader, nil
	return leader, c.closed
}
