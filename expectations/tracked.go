package expectations

import "time"

// Tracked records, by identity, the children whose creations and deletions a key still expects. So an event that is repeated counts once,
// and an event of another child does not count.
//
// If the identities are known before the write, expect first, then act, as with [Counted]. That is so for deletions, and for creations
// under a name that the controller chooses. If the source assigns the identities, the event of a creation may arrive before the controller
// knows what to expect. Then write between [Tracked.Begin] and [Tracked.End]: events that are observed in between are remembered, and an
// expectation that has already been observed is met at once. Only a key between the two calls takes memory for unexpected events, for at
// most one TTL.
//
// Call the Observed methods for writes that failed.
//
// Several goroutines may call its methods concurrently.
type Tracked[K, ID comparable] struct {
	book book[K, sets[ID]]
}

// sets is the events that a key still expects. Between Begin and End, early is the events observed since Begin.
type sets[ID comparable] struct {
	expected, early map[sight[ID]]struct{}
	acts            bool
}

// sight is one event of one child.
type sight[ID comparable] struct {
	id      ID
	deleted bool
}

// NewTracked returns a Tracked in which every key is satisfied.
func NewTracked[K, ID comparable](cfg Config[K]) *Tracked[K, ID] {
	return &Tracked[K, ID]{book: newBook[K, sets[ID]](cfg)}
}

// SatisfiedExpectations reports whether key is not waiting: its expectations were observed or have expired, or it has none. A key between
// Begin and End is not satisfied.
func (t *Tracked[K, ID]) SatisfiedExpectations(key K) bool {
	_, waiting := t.book.ask(key)
	return !waiting
}

// Begin reports that writes for key begin, and renews its TTL. Call it before the first write, from one goroutine per key at a
// time. A second Begin without an End keeps the expectations and forgets the events observed since the first.
func (t *Tracked[K, ID]) Begin(key K) {
	defer t.book.unlock(t.book.lock())
	p := t.book.pageLocked(key)
	t.book.renewLocked(p)
	p.expected.acts, p.expected.early = true, nil
}

// End reports that all writes since Begin have their expectations. It is usually deferred right after Begin.
func (t *Tracked[K, ID]) End(key K) {
	defer t.book.unlock(t.book.lock())
	if p := t.book.pages[key]; p != nil {
		p.expected.acts, p.expected.early = false, nil
		t.settleLocked(p)
	}
}

// ExpectCreations adds the creations of these children to the expectations of key, and renews its TTL. Without children it does
// nothing.
func (t *Tracked[K, ID]) ExpectCreations(key K, ids ...ID) { t.expect(key, false, ids) }

// ExpectDeletions adds the deletions of these children to the expectations of key, and renews its TTL. Without children it does
// nothing.
func (t *Tracked[K, ID]) ExpectDeletions(key K, ids ...ID) { t.expect(key, true, ids) }

// CreationObserved reports that a child of key was created, or will not be created.
func (t *Tracked[K, ID]) CreationObserved(key K, id ID) { t.observe(key, sight[ID]{id, false}) }

// DeletionObserved reports that a child of key was deleted, or will not be deleted.
func (t *Tracked[K, ID]) DeletionObserved(key K, id ID) { t.observe(key, sight[ID]{id, true}) }

// DeleteExpectations forgets key. Call it when the object of key is deleted.
func (t *Tracked[K, ID]) DeleteExpectations(key K) { t.book.forget(key) }

// Name returns Config.Name.
func (t *Tracked[K, ID]) Name() string { return t.book.cfg.Name }

// Expires reports whether key waits, and when its expectations expire. It is the opposite of SatisfiedExpectations. If the TTL
// is negative, the time is zero.
func (t *Tracked[K, ID]) Expires(key K) (at time.Time, waiting bool) { return t.book.ask(key) }

// Notify adds a function that is called when a key that waits becomes satisfied. See the package documentation. It panics if f is nil.
func (t *Tracked[K, ID]) Notify(f func(key K)) (stop func()) { return t.book.notify(f) }

func (t *Tracked[K, ID]) expect(key K, deleted bool, ids []ID) {
	if len(ids) == 0 {
		return
	}
	defer t.book.unlock(t.book.lock())
	p := t.book.pageLocked(key)
	t.book.renewLocked(p)
	if p.expected.expected == nil {
		p.expected.expected = make(map[sight[ID]]struct{}, len(ids))
	}
	for _, id := range ids {
		s := sight[ID]{id, deleted}
		if _, seen := p.expected.early[s]; !seen {
			p.expected.expected[s] = struct{}{}
		}
	}
}

func (t *Tracked[K, ID]) observe(key K, s sight[ID]) {
	defer t.book.unlock(t.book.lock())
	p := t.book.pages[key]
	if p == nil {
		return
	}
	if p.expected.acts {
		if p.expected.early == nil {
			p.expected.early = make(map[sight[ID]]struct{})
		}
		p.expected.early[s] = struct{}{}
	}
	delete(p.expected.expected, s)
	t.settleLocked(p)
}

// settleLocked removes p if it expects nothing and is not between Begin and End.
func (t *Tracked[K, ID]) settleLocked(p *page[K, sets[ID]]) {
	if len(p.expected.expected) == 0 && !p.expected.acts {
		t.book.meetLocked(p)
	}
}
