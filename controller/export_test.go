package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/setpoint-go/setpoint/workqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// CheckInvariants tests the invariants at the fields of a controller.
func (c *Controller[K]) CheckInvariants(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	assert.False(t, c.running && (c.steps > 0 || c.connected), "running and stepping at once")
	assert.False(t, c.working != nil && !c.running, "workers without a run")
	running := c.running
	assert.False(t, c.inputs.started() && !running && !c.connected, "inputs are started without a run or steps")
	if c.working != nil {
		require.NoError(t, c.working.checkInvariants())
	}
	c.mu.Unlock()

	require.NoError(t, c.pending.checkInvariants(running))
	require.NoError(t, c.unfinished.checkInvariants())
	require.NoError(t, c.own.checkInvariants(running))
	if c.cancels != nil {
		require.NoError(t, c.cancels.checkInvariants(running))
	}
}

// Work is what a worker does until take ends. The work ends with ctx.
func (c *Controller[K]) Work(take, ctx context.Context) {
	ws := &workers[K]{ctx: ctx}
	ws.all = []*worker[K]{{of: ws, take: take}} // one too many
	c.work(ctx, ws.all[0])
}

// Exports for the black-box tests.
var (
	ErrGoexitForTest = errGoexit
	ErrNotOwned      = errNotOwned
	ErrSilent        = errSilent
	ErrStuck         = errStuck
	ErrSyncTimeout   = errSyncTimeout
	ErrTimeout       = errTimeout
	ErrSuperseded    = errSuperseded
)

// Snapshot is that of the queue.
func (c *Controller[K]) Snapshot() []workqueue.KeyInfo[K] { return c.queue.Snapshot() }

// UnfinishedKeys returns the number of keys that are unfinished and remembered.
func (c *Controller[K]) UnfinishedKeys() int { return int(c.unfinished.n.Load()) }

// Awaited returns the number of writes that caches do not show, by key and cache.
func (c *Controller[K]) Awaited() (n int) {
	for _, m := range c.caches.all {
		n += m.len()
	}
	return n
}

// Causes returns the number of keys that have causes.
func (c *Controller[K]) Causes() int { return int(c.pending.causes.n.Load()) }

// Waiters returns the number of callers that wait in WaitReconciled.
func (c *Controller[K]) Waiters() int {
	return c.waiters.len()
}

// checkInvariants returns an error if an invariant at the fields does not hold, or keys are left to the next Run although none is running.
func (p *pending[K]) checkInvariants(running bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	draining := p.draining.Load()
	holding, due := len(p.holds), 0
	if draining {
		holding++
	}
	for key, h := range p.holds {
		if !h.due.IsZero() {
			due++
		}
		switch {
		case h.paused.IsZero() && h.left.IsZero() && h.waitsSince.IsZero():
			return fmt.Errorf("nothing holds %v: %+v", key, *h)
		case !h.left.IsZero() && !draining:
			return fmt.Errorf("%v is left to the next Run, and none drains", key)
		case h.due.IsZero() && len(h.reasons) > 0:
			return fmt.Errorf("%v has the reasons %v, and is not due", key, h.reasons)
		case h.expiry != nil && (h.due.IsZero() || !h.paused.IsZero() || !h.left.IsZero()):
			return fmt.Errorf("%v waits for %v, and has no use for it", key, h.until)
		case h.waitsSince.IsZero() && !h.until.IsZero():
			return fmt.Errorf("%v does not wait, until %v", key, h.until)
		}
	}
	switch {
	case draining && !running:
		return errors.New("keys are left to the next Run without a Run")
	case p.holding.Load() != int64(holding) || p.due != due:
		return fmt.Errorf("%d holds, %d due, counted %d and %d", holding, due, p.holding.Load(), p.due)
	}
	return p.causes.checkInvariants()
}

// checkInvariants returns an error if an invariant written at a field does not hold.
func (b *causes[K]) checkInvariants() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := b.n.Load(); n != int64(len(b.keys)) || b.most < len(b.keys) {
		return fmt.Errorf("%d keys, n is %d, most is %d", len(b.keys), n, b.most)
	}
	for key, list := range b.keys {
		unique := slices.Compact(slices.Sorted(slices.Values(list)))
		if len(list) == 0 || len(list) > maxCauses || len(unique) != len(list) {
			return fmt.Errorf("%v has the causes %q", key, list)
		}
	}
	return nil
}

// checkInvariants returns an error if what is written at the fields does not hold.
func (s *unfinishedKeys[K]) checkInvariants() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.n.Load(); n != int64(len(s.keys)) {
		return fmt.Errorf("%d keys, counted %d", len(s.keys), n)
	}
	for key, now := range s.keys {
		if now == (unfinishedKey{}) {
			return fmt.Errorf("%v has %+v", key, now)
		}
	}
	return nil
}

// checkInvariants returns an error if an invariant at the fields does not hold, or if a reconcile is in flight although running is false.
func (c *cancelable[K]) checkInvariants(running bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, n := range c.ended {
		if n <= 0 || n > maxSuperseded {
			return fmt.Errorf("%v was superseded %d times", key, n)
		}
	}
	if !running && len(c.cancels) > 0 {
		return fmt.Errorf("%d reconciles are under way", len(c.cancels))
	}
	return nil
}

// checkInvariants returns an error if an invariant at the fields does not hold, or if a reconcile is in flight although running is false.
func (o *ownWrites[K]) checkInvariants(running bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := o.n.Load(); n != int64(len(o.keys)) {
		return fmt.Errorf("%d keys with own writes, counted %d", len(o.keys), n)
	}
	for key, k := range o.keys {
		switch {
		case len(k.open) > 0 && k.writing == 0, len(k.ownEvents) > 0 && !k.inFlight, len(k.writes) > maxWrites:
			return fmt.Errorf("the own writes of %v are %+v", key, *k)
		case k.inFlight && !running:
			return fmt.Errorf("%v writes although it is not in flight", key)
		}
	}
	return nil
}

// len returns the number of waiters.
func (ws *waiters[K]) len() int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	n := 0
	for _, of := range ws.keys {
		n += len(of)
	}
	return max(n, int(ws.n.Load()))
}

// checkInvariants returns an error if an invariant at the fields does not hold.
func (ws *workers[K]) checkInvariants() error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for i, w := range ws.all {
		if w.place != i {
			return fmt.Errorf("worker %d says that it is %d", i, w.place)
		}
	}
	return nil
}
