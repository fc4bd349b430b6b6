package gate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// CheckInvariants tests the invariants at the fields of a Limiter.
func (l *Limiter) CheckInvariants(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	assert.GreaterOrEqual(t, l.tokens, 0.0)
	assert.LessOrEqual(t, l.tokens, l.burst)
	promised, claimed, inLine := 0.0, 0.0, 0
	for id, p := range l.places {
		assert.Equal(t, id, p.id)
		assert.GreaterOrEqual(t, p.calls, 1.0)
		assert.LessOrEqual(t, p.calls, l.burst)
		promised += p.calls
		if p.owner != nil {
			claimed += p.calls
		}
	}
	for _, p := range l.line {
		if l.places[p.id] == p {
			inLine++
			assert.Nil(t, p.owner)
		}
	}
	last := time.Duration(0)
	for _, p := range l.owned {
		if l.places[p.id] == p {
			inLine++
			assert.NotNil(t, p.owner)
		}
		assert.GreaterOrEqual(t, p.at, last)
		last = p.at
	}
	assert.Equal(t, promised, l.promised)
	assert.Equal(t, claimed, l.claimed)
	assert.LessOrEqual(t, l.claimed, l.tokens+1e-9)
	assert.Len(t, l.places, inLine)
}

// Places returns the number of places that are kept.
func (l *Limiter) Places() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advanceLocked()
	return len(l.places)
}

// CheckInvariants tests the invariants at the fields of a Breaker.
func (b *Breaker) CheckInvariants(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	assert.True(t, b.trialUntil.IsZero() || !b.openUntil.IsZero() && time.Until(b.openUntil) <= 0)
	assert.True(t, b.openUntil.IsZero() || b.failures == 0)
}

// RetryAfter parses the header Retry-After.
var RetryAfter = retryAfter
