package controller

import "github.com/setpoint-go/setpoint/workqueue"

// Stats is what a [Controller] did, and what it has to do, at one moment.
type Stats struct {
	// Running is true while Run runs.
	Running bool

	// Paused is true between Pause and Resume.
	Paused bool

	// Workers is the number of keys that are reconciled at once, unless the controller is paused.
	Workers int

	// Queue counts the keys in the queue.
	Queue workqueue.Stats

	// Held is the number of keys that are to be reconciled and are not ready: those of PauseKey, those whose expectations are
	// not met (which are also among Queue.Delayed, if these expire), and those that were added while a Run drains.
	Held int

	// Unmapped is the number of objects, and events of channels, that could not be mapped to keys and are tried again.
	Unmapped int

	// Outcomes counts the reconciles by their outcome since the controller was made. It has every Outcome, also those
	// that never occurred.
	Outcomes map[Outcome]uint64
}

// Stats returns the numbers of c. The caller may keep and change what it gets.
func (c *Controller[K]) Stats() Stats {
	c.mu.Lock()
	s := Stats{Running: c.running, Paused: c.paused, Workers: c.workers}
	feeds := c.feeds
	c.mu.Unlock()
	for _, f := range feeds {
		s.Unmapped += f.unmapped()
	}
	s.Queue = c.queue.Stats()
	s.Held = c.holds.held()
	s.Outcomes = make(map[Outcome]uint64, len(c.outcomes))
	for o := Succeeded; o <= Canceled; o++ {
		s.Outcomes[o] = c.outcomes[o].Load()
	}
	return s
}
