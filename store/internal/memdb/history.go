package memdb

import (
	"sort"

	"github.com/setpoint-go/setpoint/informer"
)

// history is a ring of the last changes of one kind, in order of version, at most limit of them. A position counts all changes since
// the first one, so dropping old changes leaves positions valid.
//
// Invariants:
//  1. oldest <= next, next-oldest <= limit, and changes are at the positions [oldest, next).
//  2. Versions increase with positions.
//  3. dropped is the version of the change at oldest-1, or zero if nothing was dropped.
type history struct {
	limit        int
	ring         []Item // position p is at p % limit; grows up to limit
	oldest, next int
	dropped      informer.Version
}

// add appends a change. It returns the change that it drops, or nil.
func (h *history) add(c Item) (dropped Item) {
	switch {
	case h.limit == 0:
		dropped = c
	case len(h.ring) < h.limit:
		h.ring = append(h.ring, c)
	default:
		slot := &h.ring[h.next%h.limit]
		dropped, *slot = *slot, c
	}
	if dropped != nil {
		h.dropped = dropped.ItemVersion()
		h.oldest++
	}
	h.next++
	return dropped
}

// at returns the change at position p.
func (h *history) at(p int) Item { return h.ring[p%h.limit] }

// after returns the position of the first change after version v. It returns false if some of those changes were dropped.
func (h *history) after(v informer.Version) (position int, ok bool) {
	if v < h.dropped {
		return 0, false
	}
	return h.oldest + sort.Search(h.next-h.oldest, func(i int) bool { return h.at(h.oldest+i).ItemVersion() > v }), true
}

// signal wakes goroutines that wait for the next event. The lock of its owner guards it.
type signal struct {
	ch chan struct{} // closed by fireLocked; nil while nothing waits
}

// waitLocked returns a channel that the next fireLocked closes.
func (s *signal) waitLocked() <-chan struct{} {
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *signal) fireLocked() {
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
