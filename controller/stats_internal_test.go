package controller

import (
	"sync"
	"testing"
	"time"
)

// stats returns Stats with the counts of c.
func (c *counters) stats() (s Stats) {
	c.addTo(&s)
	return s
}

func TestEachReconcileCountsOnce(t *testing.T) {
	var c counters
	c.note(1, false, false, false, 5*time.Millisecond)
	c.note(1, true, false, false, 5*time.Millisecond+1)
	c.note(3, false, true, false, time.Minute)
	c.note(3, false, true, false, time.Minute)
	c.note(8, false, false, true, time.Minute+1)
	s := c.stats()
	for o := Succeeded; o <= Canceled; o++ {
		if want := map[Outcome]uint64{1: 2, 3: 2, 8: 1}[o]; s.Outcomes[o] != want {
			t.Errorf("s.Outcomes[%v] = %d, want %d", o, s.Outcomes[o], want)
		}
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

func TestCountsAreACopy(t *testing.T) {
	var c counters
	s := c.stats()
	s.Durations.Bounds[0], s.Durations.Counts[0] = 0, 7
	if got := c.stats().Durations.Bounds[0]; got != 5*time.Millisecond {
		t.Errorf("c.stats().Durations.Bounds[0] = %v, want %v", got, 5*time.Millisecond)
	}
	if got := c.stats().Durations.Counts[0]; got != 0 {
		t.Errorf("c.stats().Durations.Counts[0] = %d, want 0", got)
	}
}

// A dashboard subtracts Requeued from the successes.
func TestDifferencesOfCountsNeverDecrease(t *testing.T) {
	var c counters
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			for i := range 2000 {
				c.note(Succeeded, (i+w)%2 == 0, false, false, 0)
			}
		})
	}
	var last Stats
	for last.Outcomes[1] < 8000 {
		s := c.stats()
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

func TestCountingDoesNotAllocate(t *testing.T) {
	var c counters
	if got := testing.AllocsPerRun(100, func() { c.note(2, false, true, false, time.Second) }); got != 0 {
		t.Errorf("testing.AllocsPerRun = %v, want 0", got)
	}
}
