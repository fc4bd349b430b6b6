package tally_test

import (
	"sync"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/controller/internal/tally"
)

// Guarantee 1.
func TestEachReconcileCountsOnce(t *testing.T) {
	var c tally.Tally
	c.Note(tally.Reconcile{Outcome: 1, Took: 5 * time.Millisecond})
	c.Note(tally.Reconcile{Outcome: 1, Requeued: true, Took: 5*time.Millisecond + 1})
	c.Note(tally.Reconcile{Outcome: 3, Panicked: true, Took: time.Minute})
	c.Note(tally.Reconcile{Outcome: 3, Panicked: true, Took: time.Minute})
	c.Note(tally.Reconcile{Outcome: 8, Fenced: true, Took: time.Minute + 1})
	s := c.Sums()
	if want := ([tally.Outcomes]uint64{1: 2, 3: 2, 8: 1}); s.Outcomes != want {
		t.Errorf("s.Outcomes = %v, want %v", s.Outcomes, want)
	}
	if s.Requeued != 1 {
		t.Errorf("s.Requeued = %d, want 1", s.Requeued)
	}
	if s.Panics != 2 {
		t.Errorf("s.Panics = %d, want 2", s.Panics)
	}
	if s.Fenced != 1 {
		t.Errorf("s.Fenced = %d, want 1", s.Fenced)
	}
	if want := 3*time.Minute + 10*time.Millisecond + 2; s.Durations.Sum != want {
		t.Errorf("s.Durations.Sum = %v, want %v", s.Durations.Sum, want)
	}
	if len(s.Durations.Bounds) != 40 {
		t.Fatalf("len(s.Durations.Bounds) = %d, want 40: %v", len(s.Durations.Bounds), s.Durations.Bounds)
	}
	if len(s.Durations.Counts) != 41 {
		t.Fatalf("len(s.Durations.Counts) = %d, want 41: %v", len(s.Durations.Counts), s.Durations.Counts)
	}
	for i, n := range s.Durations.Counts {
		want := map[int]uint64{0: 1, 1: 1, 39: 2, 40: 1}[i]
		if n != want {
			t.Errorf("place %d: n = %d, want %d", i, n, want)
		}
	}
}

func TestSumsReturnsACopy(t *testing.T) {
	var c tally.Tally
	s := c.Sums()
	s.Durations.Bounds[0], s.Durations.Counts[0] = 0, 7
	if got := c.Sums().Durations.Bounds[0]; got != 5*time.Millisecond {
		t.Errorf("c.Sums().Durations.Bounds[0] = %v, want %v", got, 5*time.Millisecond)
	}
	if got := c.Sums().Durations.Counts[0]; got != 0 {
		t.Errorf("c.Sums().Durations.Counts[0] = %d, want 0", got)
	}
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
		if s.Requeued < last.Requeued {
			t.Fatalf("s.Requeued = %d, want at least %d", s.Requeued, last.Requeued)
		}
		if got, want := s.Outcomes[1]-s.Requeued, last.Outcomes[1]-last.Requeued; got < want {
			t.Fatalf("s.Outcomes[1]-s.Requeued = %d, want at least %d", got, want)
		}
		last = s
	}
	workers.Wait()
	if last.Requeued != 4000 {
		t.Errorf("last.Requeued = %d, want 4000", last.Requeued)
	}
}

// Guarantee 2.
func TestCountingDoesNotAllocate(t *testing.T) {
	var c tally.Tally
	if got := testing.AllocsPerRun(100, func() { c.Note(tally.Reconcile{Outcome: 2, Panicked: true, Took: time.Second}) }); got != 0 {
		t.Errorf("testing.AllocsPerRun = %v, want 0", got)
	}
}
