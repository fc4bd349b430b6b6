package depth

import (
	"slices"
	"sync"
	"time"
)

// Period is the time between two rounds of samples.
const Period = 2 * time.Second

// kept is the number of samples of a queue: five minutes.
const kept = 150

// Point is one sample.
type Point struct {
	At              time.Time
	Ready, InFlight int
}

// Samples are the depths of queues over the last minutes. The zero value is ready for use. It is safe for concurrent use.
type Samples struct {
	mu sync.Mutex
	// mu guards the following.
	last time.Time          // of the last round
	of   map[string][]Point // by queue, the latest last
}

// Due reports whether a round should be taken at now. It returns true once per Period.
func (s *Samples) Due(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := now.Sub(s.last) >= Period*9/10 // a ticker may fire late once, and early the next time
	if due {
		s.last = now
	}
	return due
}

// Add adds a round, which has a point of each queue.
func (s *Samples) Add(round map[string]Point) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = make(map[string][]Point)
	}
	for name, p := range round {
		of := append(s.of[name], p)
		s.of[name] = of[max(0, len(of)-kept):]
	}
	for name := range s.of {
		if _, ok := round[name]; !ok {
			delete(s.of, name) // the part is gone
		}
	}
}

// Of returns the samples of a queue, the oldest first.
func (s *Samples) Of(name string) []Point {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.of[name])
}
