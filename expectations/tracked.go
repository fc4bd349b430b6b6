package expectations

import "time"

// Tracked knows which children a key still has to see created and deleted, by their identity. So an event that is told
// twice counts once, and the event of another child does not count at all. It fits where the controller chooses the
// identities, or learns them before the event can come: for deletions that is always so.
//
// Expect first, then act: an event that comes before the expectation is not counted, and is then missed until the
// expectation expires. Call the Observed methods for what could not be done.
//
// All methods may be called by several goroutines at once.
type Tracked[K, ID comparable] struct {
	book book[K, sets[ID]]
}

type sets[ID comparable] struct {
	creations, deletions map[ID]struct{}
}

// NewTracked returns a Tracked in which every key is satisfied.
func NewTracked[K, ID comparable](cfg Config[K]) *Tracked[K, ID] {
	return &Tracked[K, ID]{book: newBook[K, sets[ID]](cfg)}
}

// Satisfied says whether key waits for nothing: all that it expected has been observed or has expired, or it has never
// expected anything.
func (t *Tracked[K, ID]) Satisfied(key K) bool {
	_, waits := t.book.expires(key)
	return !waits
}

// ExpectCreations makes key expect the creation of these children too, and lets its time begin anew. Without children
// it does nothing.
func (t *Tracked[K, ID]) ExpectCreations(key K, ids ...ID) {
	t.expect(key, ids, func(e *sets[ID]) *map[ID]struct{} { return &e.creations })
}

// ExpectDeletions makes key expect the deletion of these children too, and lets its time begin anew. Without children
// it does nothing.
func (t *Tracked[K, ID]) ExpectDeletions(key K, ids ...ID) {
	t.expect(key, ids, func(e *sets[ID]) *map[ID]struct{} { return &e.deletions })
}

// CreationObserved tells that a child of key has been created, or that it will not be.
func (t *Tracked[K, ID]) CreationObserved(key K, id ID) {
	t.observe(key, func(e *sets[ID]) { delete(e.creations, id) })
}

// DeletionObserved tells that a child of key has been deleted, or that it will not be.
func (t *Tracked[K, ID]) DeletionObserved(key K, id ID) {
	t.observe(key, func(e *sets[ID]) { delete(e.deletions, id) })
}

// Delete forgets key. To be called when the object of key is gone.
func (t *Tracked[K, ID]) Delete(key K) { t.book.forget(key) }

// Expires returns when what key expects expires; ok is false if it is satisfied. With a negative TTL the time is zero.
func (t *Tracked[K, ID]) Expires(key K) (at time.Time, ok bool) { return t.book.expires(key) }

func (t *Tracked[K, ID]) expect(key K, ids []ID, which func(*sets[ID]) *map[ID]struct{}) {
	if len(ids) == 0 {
		return
	}
	defer t.book.unlock(t.book.lock())
	p := t.book.pageLocked(key)
	t.book.renewLocked(p)
	set := which(&p.expected)
	if *set == nil {
		*set = make(map[ID]struct{}, len(ids))
	}
	for _, id := range ids {
		(*set)[id] = struct{}{}
	}
}

func (t *Tracked[K, ID]) observe(key K, strike func(*sets[ID])) {
	defer t.book.unlock(t.book.lock())
	p := t.book.pages[key]
	if p == nil {
		return
	}
	strike(&p.expected)
	if len(p.expected.creations)+len(p.expected.deletions) == 0 {
		t.book.removeLocked(p)
	}
}
