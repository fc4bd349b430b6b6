package store

import (
	"sort"

	"github.com/setpoint-go/setpoint/informer"
)

// history is the last changes of one kind, in order of version: a ring of at most limit. A position counts the changes
// since the beginning, so that it keeps its meaning when old changes are dropped.
//
// Invariants:
//  1. oldest <= next, next-oldest <= limit, and changes are at the positions [oldest, next).
//  2. Versions grow with positions.
//  3. dropped is the version of the change at oldest-1, or zero when nothing was dropped.
type history struct {
	limit        int
	ring         []item // position p is at p % limit; grows up to limit
	oldest, next int
	dropped      informer.Version
}

// add appends a change, and returns the one that it drops, or nil.
func (h *history) add(c item) (dropped item) {
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
		h.dropped = dropped.itemVersion()
		h.oldest++
	}
	h.next++
	return dropped
}

// at returns the change at position p.
func (h *history) at(p int) item { return h.ring[p%h.limit] }

// after returns the position of the first change after version v. False means that not all of them are known.
func (h *history) after(v informer.Version) (position int, ok bool) {
	if v < h.dropped {
		return 0, false
	}
	return h.oldest + sort.Search(h.next-h.oldest, func(i int) bool { return h.at(h.oldest+i).itemVersion() > v }), true
}
