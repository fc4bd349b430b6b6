package debug

import (
	"slices"
	"sync"
	"time"
)

const (
	samplePeriod = 2 * time.Second
	sampleCount  = 150 // five minutes
)

// samples are the depths of queues over the last minutes.
type samples struct {
	mu sync.Mutex
	// mu guards the following.
	last time.Time          // of the last round
	of   map[string][]point // by queue, the latest last
}

// point is one sample.
type point struct {
	at              time.Time
	ready, inFlight int
}

// sample takes a sample of each queue, unless the last one is more recent than samplePeriod.
func (h *Handler) sample(ps parts) {
	s := &h.samples
	now := time.Now()
	s.mu.Lock()
	due := now.Sub(s.last) >= samplePeriod*9/10 // a ticker may fire late once, and early the next time
	if due {
		s.last = now
	}
	s.mu.Unlock()
	if !due {
		return
	}
	points := make(map[string]point)
	each(ps, func(name string, c aController) {
		q := c.Stats().Queue
		points[name] = point{now, q.Ready, q.InProcess}
	})
	each(ps, func(name string, c aQueue) {
		q := c.Stats()
		points[name] = point{now, q.Ready, q.InProcess}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = make(map[string][]point)
	}
	for name, p := range points {
		of := append(s.of[name], p)
		s.of[name] = of[max(0, len(of)-sampleCount):]
	}
	for name := range s.of {
		if _, ok := points[name]; !ok {
			delete(s.of, name) // the part is gone
		}
	}
}

// points returns the samples of a queue, the oldest first.
func (s *samples) points(name string) []point {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.of[name])
}
