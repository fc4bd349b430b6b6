package informer

import (
	"fmt"
	"hash/maphash"
	"maps"
	"runtime/debug"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/wait"
)

// maxBatch is the highest number of inputs that are applied to the cache before their changes go to the handlers.
const maxBatch = 256

// applier changes the cache. Only the goroutine of Run uses it, except for seed, which never changes.
//
// Invariants:
//
//  1. The cache holds every change up to at, except those of the keys in failed.
//  2. A key in failed has changes that the cache does not hold; all of them came after the version in failed.
//  3. A key is in old while the cache may hold its state from before a Reset, because the new one was unread or has failed.
//  4. A key that has failed is in unread too.
//  5. The cache holds the objects of a slot in floors as they were at the version there, or later, and that is later than at.
type applier[K comparable, T any] struct {
	name    string
	indexer *cache.Indexer[K, T]
	unread  *unread[K]
	equal   func(a, b T) bool // if nil, no two states are the same
	onError func(error)
	seed    maphash.Seed

	records   bool           // there are handlers; without them, changes need not be recorded
	changes   []change[K, T] // applied, but not yet passed to the handlers
	at        Version
	failed    map[K]Version
	old       map[K]struct{}  // keys whose cached states, if there are any, are of an earlier history
	failedNow bool            // something has failed since the last request for a list, or records are missing and an event may be about one
	spoiled   map[K]struct{}  // of the list that is being applied: the keys of objects of which it may have the last good state
	served    requests        // by the lists so far
	joins     func(T) bool    // of the list that is being applied; else nil
	slots     *slots[K, T]    // nil unless the source is divided
	floors    map[int]Version // by slot; see invariant 5
	retries   int             // requests for a list since failed was last empty
}

// apply applies inputs. A list is applied as a whole.
func (a *applier[K, T]) apply(inputs []input[K, T]) {
	for i := range inputs {
		switch it := &inputs[i]; {
		case it.list != nil && it.list.partial:
			a.join(it.list)
		case it.list != nil:
			a.replace(it.list)
		case it.drop != nil:
			a.drop(it.drop)
		case !a.admit(it):
		default:
			if a.mayRepair(it) {
				a.failedNow = true
			}
			a.try(it)
		}
		a.at = inputs[i].version
		if len(a.floors) > 0 {
			maps.DeleteFunc(a.floors, func(_ int, floor Version) bool { return floor <= a.at })
		}
	}
}

// admit returns false if an event is of a slot that was listed alone, at a later version: the cache is newer. If the object was in another slot
// before, it has left that one at least. So admit makes the event a deletion, and the list, or a later event, has the object if it is in a slot
// that is held.
func (a *applier[K, T]) admit(it *input[K, T]) bool {
	if len(a.floors) == 0 || it.kind == Bookmark {
		return true
	}
	cached, ok := a.indexer.Get(it.key)
	if ok && it.version < a.floors[a.slots.slot(cached)] {
		return false
	}
	if (it.kind == Added || it.kind == Modified) && it.version < a.floors[a.slots.slot(it.object)] {
		it.kind = Deleted
	}
	return true
}

// mayRepair reports whether an event may be about a record that the last list could not read: the cache has no readable state of its key.
func (a *applier[K, T]) mayRepair(it *input[K, T]) bool {
	if it.kind == Bookmark || it.kind == Unreadable || a.unread.isMissing() == nil {
		return false
	}
	_, cached := a.indexer.Get(it.key)
	err, _ := a.unread.get(it.key)
	return !cached || err != nil
}

// try applies an input that is not a list. It runs the user's index functions. If one panics, the cache stays as it was.
func (a *applier[K, T]) try(it *input[K, T]) {
	defer func() {
		if v := recover(); v != nil {
			a.fail(it.key, v)
		}
	}()
	switch it.kind {
	case Bookmark:
	case Unreadable:
		if a.unread.add(it.key, it.err) {
			a.onError(fmt.Errorf("informer: read %v of %s: %w", it.key, a.name, it.err))
		}
	case Deleted:
		if !it.missed {
			a.unread.deletes(it.key)
		}
		a.delete(it)
	default:
		a.upsert(it)
	}
}

func (a *applier[K, T]) upsert(it *input[K, T]) {
	old, existed := a.indexer.Upsert(it.object)
	if a.records {
		a.changes = append(a.changes, change[K, T]{
			key: it.key, hash: maphash.Comparable(a.seed, it.key), old: state[T]{old, existed}, new: state[T]{it.object, true},
			initial: a.joins != nil && !existed && a.joins(it.object),
		})
	}
	a.succeeded(it.key)
}

// delete deletes a key. If the cache lacks it, there is no change.
func (a *applier[K, T]) delete(it *input[K, T]) {
	moved := !it.keyOnly && a.moves(it)
	old, existed := a.indexer.Delete(it.key)
	a.succeeded(it.key)
	if it.keyOnly || moved {
		it.object, it.missed = old, true
	}
	if existed && a.records {
		a.changes = append(a.changes, change[K, T]{
			key: it.key, hash: maphash.Comparable(a.seed, it.key), old: state[T]{old, true}, final: it.object, missed: it.missed,
		})
	}
}

// moves reports whether the last state in a deletion is in another slot than the cached one: the object has moved. Then a handler gets the
// cached state. It tells for which key of its slot the object mattered, and the other state does not.
func (a *applier[K, T]) moves(it *input[K, T]) bool {
	if !a.slots.shared() {
		return false
	}
	cached, ok := a.indexer.Get(it.key)
	return ok && a.slots.slot(it.object) != a.slots.slot(cached)
}

// drop removes the objects of slots. They are not deleted.
func (a *applier[K, T]) drop(slots []int) {
	for _, slot := range slots {
		for _, key := range a.slots.keysIn(slot) {
			old, existed := a.indexer.Delete(key)
			a.succeeded(key)
			if existed && a.records {
				a.changes = append(a.changes, change[K, T]{
					key: key, hash: maphash.Comparable(a.seed, key), old: state[T]{old, true}, dropped: true,
				})
			}
		}
	}
}

// fail records and reports that the changes of a key could not be applied.
func (a *applier[K, T]) fail(key K, panicked any) {
	if a.failed == nil {
		a.failed = make(map[K]Version)
	}
	if _, before := a.failed[key]; !before {
		a.failed[key] = a.at
	}
	a.failedNow = true
	err := &wait.PanicError{Value: panicked, Stack: debug.Stack()}
	a.unread.add(key, err)
	a.onError(fmt.Errorf("informer: apply %v to the cache of %s: %w", key, a.name, err))
}

// succeeded records that the cache holds the newest state of a key.
func (a *applier[K, T]) succeeded(key K) {
	if _, bad := a.spoiled[key]; !bad {
		a.unread.remove(key)
	}
	if len(a.failed)+len(a.old) > 0 {
		delete(a.failed, key)
		delete(a.old, key)
	}
}

// version returns the version up to which everything has been applied.
func (a *applier[K, T]) version() Version {
	v := a.at
	for _, floor := range a.failed {
		v = min(v, floor)
	}
	return v
}

// retry returns a timer for the next request for a list, because something has failed or may have been repaired, or nil. It is called after
// every batch. running is the timer that it last returned, until that timer has fired.
func (a *applier[K, T]) retry(running *time.Timer, backoff wait.Backoff) *time.Timer {
	switch {
	case len(a.failed) == 0 && a.unread.isMissing() == nil:
		if running != nil {
			running.Stop()
		}
		a.failedNow, a.retries = false, 0
		return nil
	case running == nil && a.failedNow:
		a.failedNow = false
		running = time.NewTimer(backoff.Delay(a.retries))
		a.retries++
	}
	return running
}

// forget drops the changes, which the handlers have received.
func (a *applier[K, T]) forget() {
	clear(a.changes)
	a.changes = a.changes[:0]
	if cap(a.changes) > 2*maxBatch {
		a.changes = nil // the room for a whole list is rarely needed
	}
}
