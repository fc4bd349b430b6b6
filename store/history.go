package store

import (
	"sort"

	"github.com/setpoint-go/setpoint/informer"
)

// change is one write. The version of the change is that of the object.
type change[T any] struct {
	kind   informer.EventType
	object *Object[T]
}

// history is the last changes of one kind, in order of version: a ring of at most limit. A position counts the changes
// since the beginning, so that it keeps its meaning when old changes are dropped.
//
// Invariants:
//  1. oldest <= next, next-oldest <= limit, and changes are at the positions [oldest, next).
//  2. Versions grow with positions.
//  3. dropped is the version of the change at oldest-1, or zero when nothing was dropped.
type history[T any] struct {
	limit        int
	ring         []change[T] // position p is at p % limit; grows up to limit
	oldest, next int
	dropped      informer.Version
}

// add appends c, and drops the oldest change when the ring is full.
func (h *history[T]) add(c change[T]) {
	if h.limit == 0 {
		h.oldest++
		h.next++
		h.dropped = c.object.Version
		return
	}
	if len(h.ring) < h.limit {
		h.ring = append(h.ring, c)
	} else {
		slot := &h.ring[h.next%h.limit]
		h.dropped = slot.object.Version
		h.oldest++
		*slot = c
	}
	h.next++
}

// at returns the change at position p.
func (h *history[T]) at(p int) change[T] { return h.ring[p%h.limit] }

// after returns the position of the first change after version v. False means that not all of them are known.
func (h *history[T]) after(v informer.Version) (position int, ok bool) {
	if v < h.dropped {
		return 0, false
	}
	return h.oldest + sort.Search(h.next-h.oldest, func(i int) bool { return h.at(h.oldest+i).object.Version > v }), true
}
