package shard

import "time"

// Stats is a snapshot of [Slots].
type Stats struct {
	Slots   int // the number of slots
	Owned   int // slots that this replica owns: see Slots.Owned
	Members int // replicas that took part when the store was read last; 0 with one slot

	// Deadline is when the first of the slots that are owned is lost, unless its lease is renewed. Zero if none is owned.
	Deadline time.Time

	Acquired uint64 // how many times this replica has acquired a slot
	Lost     uint64 // how many of these were lost, and not handed over or released

	// LastError is the error of the last call of the store that had no clear reply, from the lowest-numbered slot that has such an error;
	// nil if none has.
	LastError error
}

// Stats returns a snapshot of s. The cost is linear in the number of slots.
func (s *Slots) Stats() Stats {
	stats := Stats{Slots: len(s.slots)}
	if len(s.slots) > 1 {
		stats.Members = len(s.Members())
	}
	for _, one := range s.slots {
		e := one.elector.Stats()
		stats.Acquired += e.Terms
		stats.Lost += e.Lost
		if stats.LastError == nil {
			stats.LastError = e.LastError
		}
		if !e.Leading {
			continue
		}
		stats.Owned++
		if stats.Deadline.IsZero() || e.Deadline.Before(stats.Deadline) {
			stats.Deadline = e.Deadline
		}
	}
	return stats
}
