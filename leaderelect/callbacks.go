package leaderelect

import (
	"context"
	"log/slog"
	"sync"

	"github.com/setpoint-go/setpoint/wait"
)

// callbacks runs the callbacks of one run, one after the other, in a goroutine of its own: new leaders first, then the
// work of a term. It keeps at most one of each, so a callback that takes its time costs no memory.
type callbacks struct {
	log         *slog.Logger
	onNewLeader func(Leader)
	wake        chan struct{} // capacity 1; whoever has changed something sends, nobody closes
	stopped     chan struct{} // closed by run when it returns

	mu sync.Mutex
	// mu guards the following.
	leader *Leader // newest that was not called back yet; nil if there is none
	term   func()  // to run next; nil if there is none
	closed bool
}

// startCallbacks returns callbacks that wait for something to do. Its owner calls stop.
func startCallbacks(log *slog.Logger, onNewLeader func(Leader)) *callbacks {
	c := &callbacks{log: log, onNewLeader: onNewLeader, wake: make(chan struct{}, 1), stopped: make(chan struct{})}

	// This goroutine exists so that a callback delays no renewal. It ends after stop, which waits for it.
	go c.run()
	return c
}

// newLeader has OnNewLeader called. A leader that still waits for its call is forgotten.
func (c *callbacks) newLeader(l Leader) {
	if c.onNewLeader == nil {
		return
	}
	c.mu.Lock()
	c.leader = &l
	c.mu.Unlock()
	c.signal()
}

// lead runs the callbacks of a term. The channel gets its outcome.
func (c *callbacks) lead(term func() outcome) <-chan outcome {
	done := make(chan outcome, 1)
	c.mu.Lock()
	c.term = func() { done <- term() }
	c.mu.Unlock()
	c.signal()
	return done
}

// stop lets what is waiting run and returns when that has returned.
func (c *callbacks) stop() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.signal()
	<-c.stopped
}

// run is the goroutine.
func (c *callbacks) run() {
	defer close(c.stopped)
	for {
		leader, term, closed := c.take()
		if leader != nil {
			if err := guard(context.Background(), func(context.Context) error { c.onNewLeader(*leader); return nil }); err != nil {
				c.log.Error("leaderelect: OnNewLeader failed", "error", err)
			}
		}
		switch {
		case term != nil:
			term()
		case leader != nil:
		case closed:
			return
		default:
			<-c.wake
		}
	}
}

// take returns what there is to do.
func (c *callbacks) take() (leader *Leader, term func(), closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	leader, term = c.leader, c.term
	c.leader, c.term = nil, nil
	return leader, term, c.closed
}

func (c *callbacks) signal() { wake(c.wake) }

// guard runs a callback in a goroutine of its own and waits for it, so that neither a panic nor runtime.Goexit goes any
// further. Both become errors.
func guard(ctx context.Context, f func(context.Context) error) error {
	var g wait.Group
	g.Start(ctx, f)
	return g.Wait()
}
