package controller

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
)

// CheckInvariants tests what is written at the fields of a controller and of its ledger.
func (c *Controller[K]) CheckInvariants(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	assert.False(t, c.running && c.steps > 0, "running and stepping at once")
	assert.False(t, c.draining != nil && !c.running, "draining without running")
	c.mu.Unlock()

	l := c.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	seqs := map[uint64]bool{}
	for key, a := range l.accounts {
		assert.True(t, a.failures > 0 || a.owed, "an idle account of %v", key)
		assert.True(t, a.owed || !a.cut, "%v is cut and not owed", key)
		if a.owed {
			assert.False(t, seqs[a.seq], "two keys have the number %d", a.seq)
			seqs[a.seq] = true
		}
	}
}

// Accounts returns the number of keys that the ledger knows.
func (c *Controller[K]) Accounts() int {
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	return len(c.ledger.accounts)
}

// Work is what a worker does.
func (c *Controller[K]) Work(ctx context.Context) { c.work(ctx, c.intake.Load()) }

// AddAll is what an event with these keys adds.
func AddAll(add func(string), a, b []string) { addAll(add, a, b) }

// Exports for the black-box tests.
var (
	RunUntil    = runUntil
	WorkContext = workContext
)
