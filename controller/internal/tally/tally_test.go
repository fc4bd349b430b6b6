package tally_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller/internal/tally"
)

// Guarantee 1.
func TestEachReconcileCountsOnce(t *testing.T) {
	var c tally.Tally
	c.Note(tally.Reconcile{Outcome: 1, Took: 5 * time.Millisecond})
	c.Note(tally.Reconcile{Outcome: 1, Requeued: true, Took: 5*time.Millisecond + 1})
	c.Note(tally.Reconcile{Outcome: 3, Panicked: true, Took: time.Minute})
	c.Note(tally.Reconcile{Outcome: 8, Fenced: true, Took: time.Minute + 1})
	s := c.Sums()
	assert.Equal(t, [tally.Outcomes]uint64{1: 2, 3: 1, 8: 1}, s.Outcomes)
	assert.EqualValues(t, 1, s.Requeued)
	assert.EqualValues(t, 1, s.Panics)
	assert.EqualValues(t, 1, s.Fenced)
	assert.Equal(t, 2*time.Minute+10*time.Millisecond+2, s.Durations.Sum)
	require.Len(t, s.Durations.Bounds, 40)
	require.Len(t, s.Durations.Counts, 41)
	for i, n := range s.Durations.Counts {
		want := map[int]uint64{0: 1, 1: 1, 39: 1, 40: 1}[i]
		assert.Equal(t, want, n, "place %d", i)
	}
}

func TestSumsReturnsACopy(t *testing.T) {
	var c tally.Tally
	s := c.Sums()
	s.Durations.Bounds[0], s.Durations.Counts[0] = 0, 7
	assert.Equal(t, 5*time.Millisecond, c.Sums().Durations.Bounds[0])
	assert.Zero(t, c.Sums().Durations.Counts[0])
}

// Guarantee 1: a dashboard subtracts Requeued from the successes.
func TestDifferencesOfSumsNeverDecrease(t *testing.T) {
	var c tally.Tally
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			for i := range 2000 {
				c.Note(tally.Reconcile{Outcome: 1, Requeued: (i+w)%2 == 0})
			}
		})
	}
	var last tally.Sums
	for last.Outcomes[1] < 8000 {
		s := c.Sums()
		require.GreaterOrEqual(t, s.Requeued, last.Requeued)
		require.GreaterOrEqual(t, s.Outcomes[1]-s.Requeued, last.Outcomes[1]-last.Requeued)
		last = s
	}
	workers.Wait()
	assert.EqualValues(t, 4000, last.Requeued)
}

// Guarantee 2.
func TestCountingDoesNotAllocate(t *testing.T) {
	var c tally.Tally
	assert.Zero(t, testing.AllocsPerRun(100, func() { c.Note(tally.Reconcile{Outcome: 2, Panicked: true, Took: time.Second}) }))
}
