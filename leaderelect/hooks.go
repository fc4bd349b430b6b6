package leaderelect

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
)

// Hooks observe an [Elector]. Each may be nil. They are called without locks and should be fast: the work begins when
// StartedLeading returns, and a renewal waits for Request. A panic in a hook is captured and logged. StartedLeading and
// StoppedLeading are called one at a time, Request concurrently with them. With [Elector.Stats] they give the two metrics of
// client-go's leaderelection:
//
//	leader_election_master_status    StartedLeading and StoppedLeading, or Stats: Leading
//	leader_election_slowpath_total   Request, with the operation "get", while the elector leads
type Hooks struct {
	// StartedLeading is called when a term begins, before its work does.
	StartedLeading func(term uint64)

	// StoppedLeading is called when the work of a term has returned, and before the lease is released, with the cause that
	// OnStoppedLeading gets.
	StoppedLeading func(term uint64, cause error)

	// Request is called after each call of the store, or when it was given up, with the operation ("get", "create" or
	// "update") and how long it took.
	Request func(operation string, took time.Duration, err error)
}

// notify calls a hook.
func (e *Elector) notify(hook string, f func()) {
	if err := lease.Guard(context.Background(), func(context.Context) error { f(); return nil }); err != nil {
		e.log.Error("leaderelect: a hook failed", "hook", hook, "error", err)
	}
}

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
	lease.Wake(c.wake)
}

// stop makes the call that still waits, and returns when that call has returned.
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
