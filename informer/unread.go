package informer

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// unread has the keys of objects that exist, and of which the cache lacks the current state. Only the goroutine of Run changes it. The methods that only
// read may be called concurrently.
//
// A key is added before the cache leaves it out, and removed after the cache has its state or has deleted it. So whoever finds no error
// here, and then no object in the cache, knows that there is none.
type unread[K comparable] struct {
	any atomic.Bool // there is a key, or something is missing; written with mu held

	mu sync.Mutex
	// mu guards the following.
	keys    map[K]unreadState
	ranks   uint64         // keys ever
	fresh   []freshKey[K]  // added since the last call of takeFresh; some may have been removed since
	missing error          // nil if the last list was complete
	records int            // that were missing
	deleted map[K]struct{} // the keys that an event has deleted since a list with missing records: they are in none of these
	shrunk  bool           // since the last call of takeObservers

	observers observers[struct{}] // of OnReadable
	added     observers[K]        // of OnUnread
}

// unreadState is why a key is unread.
type unreadState struct {
	err  error
	rank uint64 // in which order the keys were added
}

// get returns why key is unread, and whether something is missing.
func (u *unread[K]) get(key K) (err, missing error) {
	if !u.any.Load() { // nearly always
		return nil, nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	missing = u.missing
	if _, deleted := u.deleted[key]; deleted {
		missing = nil
	}
	return u.keys[key].err, missing
}

// all iterates over the keys with their errors, as they are when the iteration begins.
func (u *unread[K]) all() iter.Seq2[K, error] {
	return func(yield func(K, error) bool) {
		u.mu.Lock()
		keys := maps.Clone(u.keys)
		u.mu.Unlock()
		order := slices.SortedFunc(maps.Keys(keys), func(a, b K) int { return cmp.Compare(keys[a].rank, keys[b].rank) })
		for _, key := range order {
			if !yield(key, keys[key].err) {
				return
			}
		}
	}
}

func (u *unread[K]) isMissing() error {
	if !u.any.Load() { // nearly always
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.missing
}

// counts returns the number of unread keys, and of missing records.
func (u *unread[K]) counts() (keys, records int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.keys), u.records
}

// add records that key is unread. It reports whether it was not, or for another reason.
func (u *unread[K]) add(key K, err error) (news bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.keys == nil {
		u.keys = make(map[K]unreadState)
	}
	state, was := u.keys[key]
	if !was {
		u.ranks++
		state.rank = u.ranks
		u.fresh = append(u.fresh, freshKey[K]{key, state.rank})
	}
	news = !was || state.err.Error() != err.Error()
	state.err = err
	u.keys[key] = state
	u.any.Store(true)
	return news
}

// remove records that the cache has the current state of key, or none.
func (u *unread[K]) remove(key K) {
	if !u.any.Load() { // nearly always
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, was := u.keys[key]; was {
		delete(u.keys, key)
		u.shrunkLocked()
	}
}

// deletes records that an event has deleted key.
func (u *unread[K]) deletes(key K) {
	if !u.any.Load() { // nearly always
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.missing != nil {
		if u.deleted == nil {
			u.deleted = make(map[K]struct{})
		}
		u.deleted[key] = struct{}{}
		u.shrunkLocked()
	}
}

// keep removes all keys but those of a set.
func (u *unread[K]) keep(keys map[K]struct{}) {
	if !u.any.Load() {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	n := len(u.keys)
	maps.DeleteFunc(u.keys, func(key K, _ unreadState) bool {
		_, stays := keys[key]
		return !stays
	})
	if len(u.keys) < n {
		u.shrunkLocked()
	}
}

// setMissing records that a list lacks records.
func (u *unread[K]) setMissing(records []error) {
	if len(records) == 0 && !u.any.Load() {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	before := u.missing
	u.records, u.missing, u.deleted = len(records), nil, nil
	switch {
	case len(records) > 0:
		u.missing = &missingError{len(records), records[0]}
		u.any.Store(true)
	case before != nil:
		u.shrunkLocked()
	}
}

func (u *unread[K]) shrunkLocked() {
	u.shrunk = true
	u.any.Store(len(u.keys) > 0 || u.missing != nil)
}

// takeObservers returns the observers that the caller must call, or nil if nothing has become readable.
func (u *unread[K]) takeObservers() []*func(struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.shrunk {
		return nil
	}
	u.shrunk = false
	return u.observers.list()
}

// freshKey is a key that was added with a rank. If it was removed since, and added again, it has another rank now.
type freshKey[K comparable] struct {
	key  K
	rank uint64
}

// takeFresh returns the keys that have become unread, each once, with the observers that the caller must call for each.
func (u *unread[K]) takeFresh() (keys []K, observers []*func(K)) {
	if len(u.fresh) == 0 { // nearly always; only this goroutine, that of Run, changes it
		return nil, nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, f := range u.fresh {
		if state, is := u.keys[f.key]; is && state.rank == f.rank {
			keys = append(keys, f.key)
		}
	}
	u.fresh = nil
	return keys, u.added.list()
}

// missingError says that a list was not complete.
type missingError struct {
	records int
	first   error
}

func (e *missingError) Error() string {
	if e.records == 1 {
		return fmt.Sprintf("a record of the last list cannot be read: %v", e.first)
	}
	return fmt.Sprintf("%d records of the last list cannot be read; the first: %v", e.records, e.first)
}

func (e *missingError) Unwrap() error { return e.first }

// errNoReason stands in for an error that a source has left out.
var errNoReason = errors.New("the source gave no reason")
