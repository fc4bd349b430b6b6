package controller

import (
	"context"
	"testing"

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
	assert.False(t, c.inputs.Started() && !running && !c.connected, "inputs are started without a run or steps")
	require.NoError(t, c.inputs.CheckInvariants())
	if c.working != nil {
		require.NoError(t, c.working.CheckInvariants())
	}
	c.mu.Unlock()

	require.NoError(t, c.agenda.CheckInvariants(running))
	require.NoError(t, c.streaks.CheckInvariants())
	if c.flights != nil {
		require.NoError(t, c.flights.CheckInvariants(running))
	}
}

// Work is what a worker does until take ends. The work ends with ctx.
func (c *Controller[K]) Work(take, ctx context.Context) {
	c.work(ctx, taking{take}, &hand[K]{of: &workers[K]{}})
}

// taking is a seat that a worker has until it ends.
type taking struct{ context.Context }

func (t taking) Stay() bool            { return t.Err() == nil }
func (t taking) Take() context.Context { return t.Context }

// Exports for the black-box tests.
var (
	ErrGoexitForTest = errGoexit
	ErrNotOwned      = errNotOwned
	ErrSilent        = errSilent
	ErrSyncTimeout   = errSyncTimeout
	ErrTimeout       = errTimeout
	ErrSuperseded    = errSuperseded
)

// Streaks returns the number of keys that are unfinished and remembered.
func (c *Controller[K]) Streaks() int { return c.streaks.Len() }

// Causes returns the number of keys that have causes.
func (c *Controller[K]) Causes() int { return c.agenda.Causes.Len() }

// Waiters returns the number of callers that wait in WaitReconciled.
func (c *Controller[K]) Waiters() int {
	return c.waiters.Len()
}
