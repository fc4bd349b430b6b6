package events

import "fmt"

// CheckInvariants returns an error that says which invariant of r does not hold.
func (r *Recorder) CheckInvariants() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ring.Len() != len(r.held) || r.ring.Len() > r.cfg.Size {
		return fmt.Errorf("the ring has %d events, %d are held, the size is %d", r.ring.Len(), len(r.held), r.cfg.Size)
	}
	for el := r.ring.Front(); el != nil; el = el.Next() {
		e := el.Value.(*Event)
		if r.held[identity{e.About, e.Type, e.Reason, e.Message}] != el {
			return fmt.Errorf("%v is not held under its identity", *e)
		}
		if e.Count < 1 || e.Last.Before(e.First) {
			return fmt.Errorf("%v happened %d times from %v to %v", e.About, e.Count, e.First, e.Last)
		}
		if before := el.Prev(); before != nil && e.Last.Before(before.Value.(*Event).Last) {
			return fmt.Errorf("%v is newer than what comes after it", before.Value)
		}
	}
	return nil
}
