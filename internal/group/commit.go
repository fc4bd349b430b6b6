package group

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Commit runs requests in turns. S is what a turn needs, such as a connection. Set all fields before the first call of Do. All methods
// are safe for concurrent use.
type Commit[S, R any] struct {
	// Limit is how many requests a turn takes at most.
	Limit int

	// Patience is how long a turn holds up the next one.
	Patience time.Duration

	// Begin prepares a turn, under the context of the request that has waited for longest. If it fails, that request fails.
	Begin func(ctx context.Context) (S, error)

	// Run runs the requests of a turn, and releases what Begin has returned.
	Run func(ctx context.Context, with S, requests []R)

	mu sync.Mutex
	// mu guards the following.
	waiting []*call[R] // not the one that begins a turn
	busy    bool       // whether a turn is under way, or begins
}

// call is a call of Do.
type call[R any] struct {
	request R
	turn    chan *turn // receives the turn that runs the request, or nil if the call is to begin one; has room for one
}

// turn is what the calls whose requests are run together share.
type turn struct {
	cancel context.CancelFunc
	ended  chan struct{} // closed when the requests have been run
	left   int           // calls that have not returned; guarded by Commit.mu
}

// Do returns when a turn has run the request, with nil, or with the error of Begin or the cause of ctx. The request must not share
// memory with the caller if ctx may end: see the third guarantee.
func (g *Commit[S, R]) Do(ctx context.Context, request R) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c := &call[R]{request: request, turn: make(chan *turn, 1)}
	g.mu.Lock()
	if g.busy {
		g.waiting = append(g.waiting, c)
	} else {
		g.busy = true
		c.turn <- nil
	}
	g.mu.Unlock()
	var t *turn
	select {
	case t = <-c.turn:
	case <-ctx.Done():
		if g.leave(c) {
			return context.Cause(ctx)
		}
		t = <-c.turn
	}
	if t == nil {
		var err error
		if t, err = g.begin(ctx, c); err != nil {
			return err
		}
	}
	select {
	case <-t.ended:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	t.left--
	last := t.left == 0
	g.mu.Unlock()
	if last {
		t.cancel()
		<-t.ended
	}
	return context.Cause(ctx)
}

// leave removes a call that waits. It returns false if the call does not wait any more.
func (g *Commit[S, R]) leave(c *call[R]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, c)
	if i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	}
	return i >= 0
}

// begin begins a turn with the request of c and those that wait.
func (g *Commit[S, R]) begin(ctx context.Context, c *call[R]) (*turn, error) {
	begun := false
	defer func() {
		if !begun { // also if Begin panics
			g.next()
		}
	}()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	with, err := g.Begin(ctx)
	if err != nil {
		return nil, err
	}
	begun = true
	under, cancel := context.WithCancel(context.WithoutCancel(ctx))
	t := &turn{cancel: cancel, ended: make(chan struct{})}
	requests := []R{c.request}
	g.mu.Lock()
	n := min(len(g.waiting), g.Limit-1)
	for _, other := range g.waiting[:n] {
		requests = append(requests, other.request)
		other.turn <- t
	}
	g.waiting = slices.Delete(g.waiting, 0, n)
	t.left = len(requests)
	g.mu.Unlock()
	next := sync.OnceFunc(g.next)
	late := time.AfterFunc(g.Patience, next)
	go func() { // runs the requests while their callers may leave; the last of the callers waits for it
		defer cancel()
		g.Run(under, with, requests)
		close(t.ended)
		late.Stop()
		next()
	}()
	return t, nil
}

// next makes the call that has waited for longest begin a turn.
func (g *Commit[S, R]) next() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.busy = false
		return
	}
	g.waiting[0].turn <- nil
	g.waiting = slices.Delete(g.waiting, 0, 1)
}
