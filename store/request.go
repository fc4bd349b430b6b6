package store

// request is an accepted write that carried an id.
type request struct {
	id, op, kind, key string
	result            any // a *Object[T], which never changes; T is that of the kind
}

// requests are the last accepted writes that carried an id: a ring of at most limit.
//
// Invariants:
//  1. byID holds the position in ring of each request, and nothing else.
//  2. next is the position of the oldest, once the ring is full.
type requests struct {
	limit int
	ring  []request
	next  int
	byID  map[string]int
}

// find returns the request with this id.
func (r *requests) find(id string) (request, bool) {
	i, ok := r.byID[id]
	if !ok {
		return request{}, false
	}
	return r.ring[i], true
}

// add remembers q, whose id is new, and forgets the oldest when the ring is full.
func (r *requests) add(q request) {
	if r.limit == 0 {
		return
	}
	if r.byID == nil {
		r.byID = make(map[string]int)
	}
	if len(r.ring) < r.limit {
		r.byID[q.id] = len(r.ring)
		r.ring = append(r.ring, q)
		return
	}
	delete(r.byID, r.ring[r.next].id)
	r.byID[q.id] = r.next
	r.ring[r.next] = q
	r.next = (r.next + 1) % r.limit
}
