package controller

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
)

// CheckInvariants tests what is written at the fields of a controller.
func (c *Controller[K]) CheckInvariants(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	assert.False(t, c.running && (c.steps > 0 || c.connected), "running and stepping at once")
	assert.True(t, c.connected || c.syncing == nil)
	assert.False(t, c.crew != nil && !c.running, "workers without a run")
	running := c.running
	assert.False(t, c.attached != nil && !running && !c.connected, "feeds are started without a run or steps")
	assert.False(t, c.attached != nil && c.attaching != nil, "somebody waits for what is there")
	if c.crew != nil {
		for i, s := range c.crew.seats {
			assert.Equal(t, i, s.place)
		}
	}
	c.mu.Unlock()

	h := &c.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	assert.True(t, running || !h.diverting.Load(), "keys are left to the next run without a run")
	assert.Len(t, h.places, len(h.later))
	for i, k := range h.later {
		assert.Equal(t, i, h.places[k.key])
	}
	assert.True(t, h.diverting.Load() || len(h.later) == 0)
	assert.Equal(t, len(h.paused) > 0, h.pausing.Load())
	n := len(h.later) + len(h.waiting)
	for _, held := range h.paused {
		if held {
			n++
		}
	}
	assert.Equal(t, n, h.n, "nothing is just being released")
	assert.True(t, h.n > 0 || h.empty == nil)

	c.streaks.mu.Lock()
	defer c.streaks.mu.Unlock()
	assert.EqualValues(t, len(c.streaks.keys), c.streaks.n.Load())
	for _, s := range c.streaks.keys {
		assert.NotZero(t, s)
		assert.LessOrEqual(t, s.conflicts, maxConflicts)
	}

	if c.flights != nil {
		c.flights.mu.Lock()
		defer c.flights.mu.Unlock()
		for _, n := range c.flights.ended {
			assert.Positive(t, n)
			assert.LessOrEqual(t, n, maxSuperseded)
		}
		assert.True(t, running || len(c.flights.cancels) == 0)
	}
}

// Work is what a worker does until take ends. The work ends with ctx.
func (c *Controller[K]) Work(take, ctx context.Context) {
	w := &crew[K]{ctx: ctx, want: 1}
	w.seats = []*seat[K]{{crew: w, take: take}}
	c.work(ctx, w.seats[0])
}

// Exports for the black-box tests.
var (
	ErrGoexitForTest = errGoexit
	ErrNotOwned      = errNotOwned
	ErrSilent        = errSilent
	ErrSyncTimeout   = errSyncTimeout
	WorkContext      = workContext
)

// Later is the keys for the next Run.
type Later[K comparable] struct {
	l    holds[K]
	Opts map[K]AddOptions // of the keys that End has returned
}

func (l *Later[K]) Begin()                           { l.l.divert() }
func (l *Later[K]) Add(key K) bool                   { return l.AddWith(key, AddOptions{}) }
func (l *Later[K]) AddWith(key K, o AddOptions) bool { return l.l.leave(key, o) }

func (l *Later[K]) Len() int {
	l.l.mu.Lock()
	defer l.l.mu.Unlock()
	return len(l.l.later)
}

func (l *Later[K]) End() (keys []K) {
	l.Opts = map[K]AddOptions{}
	for _, k := range l.l.undivert() {
		keys = append(keys, k.key)
		l.Opts[k.key] = k.opts
	}
	return keys
}

// Streaks returns the number of keys that are unfinished and remembered.
func (c *Controller[K]) Streaks() int { return int(c.streaks.n.Load()) }

// Waiters returns the number of those who wait in WaitReconciled.
func (c *Controller[K]) Waiters() int {
	c.waiters.mu.Lock()
	defer c.waiters.mu.Unlock()
	n := 0
	for _, ws := range c.waiters.keys {
		n += len(ws)
	}
	return max(n, int(c.waiters.n.Load()))
}
