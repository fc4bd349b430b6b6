package expectations

import "time"

// Tracked knows which children a key still has to see created and deleted, by their identity. So an event that is told
// twice counts once, and the event of another child does not count at all.
//
// Where the identities are known before the act (deletions; creations under a name that the controller chooses), expect
// first, then act, as with [Counted]. Where the source gives them out, so that the event of a creation may come before
// the controller knows what to expect, put the acts between [Tracked.Begin] and [Tracked.End]: what is observed of the
// key in between is remembered, and an expectation that was observed already is met at once. Only a key between the two
// takes memory for what it did not expect, for one TTL at most.
//
// Call the Observed methods for what could not be done.
//
// All methods may be called by several goroutines at once.
type Tracked[K, ID comparable] struct {
	book book[K, sets[ID]]
}

// sets is what a key still has to see. While it acts, early is what it has seen since Begin.
type sets[ID comparable] struct {
	expected, early map[sight[ID]]struct{}
	acts            bool
}

// sight is one event of one child.
type sight[ID comparable] struct {
	id   ID
	gone bool
}

// NewTracked returns a Tracked in which every key is satisfied. Its error is nil: every Config is valid.
func NewTracked[K, ID comparable](cfg Config[K]) (*Tracked[K, ID], error) {
	return &Tracked[K, ID]{book: newBook[K, sets[ID]](cfg)}, nil
}

// Satisfied says whether key waits for nothing: all that it expected has been observed or has expired, or it has never
// expected anything. A key between Begin and End is not satisfied.
func (t *Tracked[K, ID]) Satisfied(key K) bool {
	_, waiting := t.book.ask(key)
	return !waiting
}

// Begin says that key is about to act, and lets its time begin anew. To be called before the first write, by one
// goroutine per key at a time; a second Begin, after a crash of the first, starts over and keeps what is expected.
func (t *Tracked[K, ID]) Begin(key K) {
	defer t.book.unlock(t.book.lock())
	p := t.book.pageLocked(key)
	t.book.renewLocked(p)
	p.expected.acts, p.expected.early = true, nil
}

// End says that key has expected all that it has done since Begin. Most often it is deferred right after Begin.
func (t *Tracked[K, ID]) End(key K) {
	defer t.book.unlock(t.book.lock())
	if p := t.book.pages[key]; p != nil {
		p.expected.acts, p.expected.early = false, nil
		t.settleLocked(p)
	}
}

// ExpectCreations makes key expect the creation of these children too, and lets its time begin anew. Without children
// it does nothing.
func (t *Tracked[K, ID]) ExpectCreations(key K, ids ...ID) { t.expect(key, false, ids) }

// ExpectDeletions makes key expect the deletion of these children too, and lets its time begin anew. Without children
// it does nothing.
func (t *Tracked[K, ID]) ExpectDeletions(key K, ids ...ID) { t.expect(key, true, ids) }

// CreationObserved tells that a child of key has been created, or that it will not be.
func (t *Tracked[K, ID]) CreationObserved(key K, id ID) { t.observe(key, sight[ID]{id, false}) }

// DeletionObserved tells that a child of key has been deleted, or that it will not be.
func (t *Tracked[K, ID]) DeletionObserved(key K, id ID) { t.observe(key, sight[ID]{id, true}) }

// Delete forgets key. To be called when the object of key is gone.
func (t *Tracked[K, ID]) Delete(key K) { t.book.forget(key) }

// Expires says whether key waits, and until when at the latest: it is Satisfied the other way round, for those who hold a
// key back. With a negative TTL the time is zero.
func (t *Tracked[K, ID]) Expires(key K) (at time.Time, waiting bool) { return t.book.ask(key) }

// Notify has f called for each key of which Expires or Satisfied has said that it waits, as soon as it waits no more
// because the last event was observed, or was taken back, or because the key was deleted or has come to its End. See
// the package documentation.
func (t *Tracked[K, ID]) Notify(f func(key K)) (stop func()) { return t.book.notify(f) }

func (t *Tracked[K, ID]) expect(key K, gone bool, ids []ID) {
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
		s := sight[ID]{id, gone}
		if _, seen := p.expected.early[s]; !seen {
			p.expected.expected[s] = struct{}{}
		}
	}
	t.settleLocked(p)
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

// settleLocked removes p when it expects nothing and does not act.
func (t *Tracked[K, ID]) settleLocked(p *page[K, sets[ID]]) {
	if len(p.expected.expected) == 0 && !p.expected.acts {
		t.book.meetLocked(p)
	}
}
