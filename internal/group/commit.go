package group

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Commit runs requests in turns. S is the resource of a turn, such as a connection. Set all fields before the first call of Do. All methods
// are safe for concurrent use.
type Commit[S, R any] struct {
	// Limit is the maximum number of requests in a turn.
	Limit int

	// Patience is the maximum time that a turn delays the next one.
	Patience time.Duration

	// Begin prepares a turn for the longest waiting request. If it fails, that request fails. ctx is the context of the turn, so the
	// result may be bound to it. It also ends if that of the request ends before Begin has returned.
	Begin func(ctx context.Context) (S, error)

	// Run runs the requests of a turn, and releases the result of Begin. There are none if the context of the request ended during Begin.
	Run func(ctx context.Context, with S, requests []R)

	mu sync.Mutex
	// mu guards the following.
	waiting []*call[R] // without the call that begins a turn
	busy    bool       // whether a turn runs or begins
}

// call is a call of Do.
type call[R any] struct {
	request R
	turn    chan *turn // receives the turn that runs the request, or nil if the call must begin one; capacity 1
}

// turn is shared by the calls whose requests run together.
type turn struct {
	cancel context.CancelFunc
	ended  chan struct{} // closed when the requests have been run
	left   int           // calls that have not returned; guarded by Commit.mu
}

// Do returns nil when a turn has run the request. Otherwise it returns the error of Begin, or the cause of ctx. If ctx may end, the request
// must not share memory with the caller: see the third guarantee.
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
	if ctx.Err() != nil {
		g.next()
		return nil, context.Cause(ctx)
	}
	under, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	alone := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	begun := false
	defer func() {
		if !begun { // even if Begin panics
			alone()
			cancel(nil)
			g.next()
		}
	}()
	with, err := g.Begin(under)
	if err != nil {
		return nil, err
	}
	if !alone() {
		g.Run(under, with, nil)
		return nil, context.Cause(ctx)
	}
	begun = true
	t := &turn{cancel: func() { cancel(nil) }, ended: make(chan struct{})}
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
	go func() { // runs the requests while their callers may return; the last caller waits for it
		defer cancel(nil)
		g.Run(under, with, requests)
		close(t.ended)
		late.Stop()
		next()
	}()
	return t, nil
}

// next makes the longest waiting call begin a turn.
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
