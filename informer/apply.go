package informer

import (
	"fmt"
	"hash/maphash"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer/internal/delivery"
	"github.com/setpoint-go/setpoint/informer/internal/relist"
	"github.com/setpoint-go/setpoint/wait"
)

// maxBatch is the highest number of inputs that are applied to the cache before their changes go to the handlers.
const maxBatch = delivery.Batch

// applier changes the cache. Only the goroutine of Run uses it.
//
// Invariants:
//
//  1. The cache holds every change up to at, except those of the keys in failed.
//  2. A key in failed has changes that the cache does not hold; all of them came after the version in failed.
//  3. A key is in old while the cache may hold its state from before a Reset, because the new one was unread or has failed.
type applier[K comparable, T any] struct {
	name    string
	indexer *cache.Indexer[K, T]
	equal   func(a, b T) bool // if nil, no two states are the same
	onError func(error)
	seed    maphash.Seed

	heard   bool                    // there are handlers; without them, changes need not be recorded
	changes []delivery.Change[K, T] // applied, but not yet passed to the handlers
	at      Version
	failed  map[K]Version
	old     map[K]struct{} // keys whose cached states, if there are any, are of an earlier history
	broke   bool           // something has failed since the last request for a list
	retries int            // requests for a list since failed was last empty
}

// apply applies inputs. A list is applied as a whole.
func (a *applier[K, T]) apply(inputs []input[K, T]) {
	for i := range inputs {
		it := &inputs[i]
		if it.list != nil {
			a.replace(it.list)
		} else {
			a.try(it)
		}
		a.at = it.version
	}
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
	case Deleted:
		a.delete(it)
	default:
		a.upsert(it)
	}
}

func (a *applier[K, T]) upsert(it *input[K, T]) {
	old, existed := a.indexer.Upsert(it.object)
	if a.heard {
		a.changes = append(a.changes, delivery.Change[K, T]{
			Key: it.key, Hash: maphash.Comparable(a.seed, it.key),
			Old: delivery.State[T]{Object: old, Present: existed}, New: delivery.State[T]{Object: it.object, Present: true},
		})
	}
	a.healed(it.key)
}

// delete deletes a key. If the cache lacks it, there is no change.
func (a *applier[K, T]) delete(it *input[K, T]) {
	old, existed := a.indexer.Delete(it.key)
	a.healed(it.key)
	if existed && a.heard {
		a.changes = append(a.changes, delivery.Change[K, T]{
			Key: it.key, Hash: maphash.Comparable(a.seed, it.key),
			Old: delivery.State[T]{Object: old, Present: true}, Last: it.object, Missed: it.missed,
		})
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
	a.broke = true
	err := &wait.PanicError{Value: panicked, Stack: debug.Stack()}
	a.onError(fmt.Errorf("informer: apply %v to the cache of %s: %w", key, a.name, err))
}

// healed records that the cache holds the newest state of a key.
func (a *applier[K, T]) healed(key K) {
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

// retry returns a timer for the next request for a list, because something has failed, or nil. It is called after every batch. running is
// the timer that it last returned, until that timer has fired.
func (a *applier[K, T]) retry(running *time.Timer, backoff wait.Backoff) *time.Timer {
	switch {
	case len(a.failed) == 0:
		if running != nil {
			running.Stop()
		}
		a.broke, a.retries = false, 0
		return nil
	case running == nil && a.broke:
		a.broke = false
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

// replace makes a list the content of the cache. It keeps objects that have not changed.
func (a *applier[K, T]) replace(l *content[K, T]) {
	before, equal := a.failed, a.equal
	if l.starts {
		a.at, before = 0, nil
		a.equal = nil // in another history, a version may mean another state
	}
	a.failed = nil // the list has the current state of every key
	a.merge(l.pages, l.unread)
	a.equal = equal
	if l.starts {
		a.old = make(map[K]struct{})
		for _, key := range slices.AppendSeq(l.unread, maps.Keys(a.failed)) {
			a.old[key] = struct{}{}
		}
	}
	for key := range a.failed {
		if floor, failed := before[key]; failed {
			a.failed[key] = floor // later changes are still missing
		}
	}
}

// merge applies the differences between the cache and a list. Cached objects with unread keys stay.
//
// A list usually has the order of the cache, which is that of the first list. So merge walks through both in parallel, without look-ups and
// hashes. At the end, it looks up the keys of both sides that it has not found this way. Whatever the order, each key of the cache is found
// in the list or deleted.
func (a *applier[K, T]) merge(pages []relist.Page[K, T], unread []K) {
	if a.indexer.Len() == 0 {
		listed := 0
		for _, p := range pages {
			listed += len(p.Items)
			for i, obj := range p.Items {
				a.try(&input[K, T]{kind: Modified, key: p.Keys[i], object: obj})
			}
		}
		if a.indexer.Len() < listed { // or some could not be applied
			a.keepLast(pages)
		}
		return
	}
	m := relist.NewMerger(pages)
	var left []input[K, T] // in the cache, but not found in the list
	for key, obj := range a.indexer.All() {
		if found, ok := m.Find(key); ok {
			if !a.same(key, obj, found) {
				a.try(&input[K, T]{kind: Modified, key: key, object: found})
			}
		} else {
			left = append(left, input[K, T]{kind: Deleted, missed: true, key: key, object: obj})
		}
	}

	missing := make(map[K]struct{}, len(left)) // the keys of left that are not found among the objects that are astray
	for i := range left {
		missing[left[i].key] = struct{}{}
	}
	again := false
	for key, obj := range m.Astray() {
		old, ok := a.indexer.Get(key)
		if _, found := missing[key]; found {
			delete(missing, key)
		} else if ok {
			again = true // another object of the list has this key
			continue
		}
		if !ok || !a.same(key, old, obj) {
			a.try(&input[K, T]{kind: Modified, key: key, object: obj})
		}
	}
	for _, key := range unread {
		delete(missing, key)
	}
	for i := range left {
		if _, ok := missing[left[i].key]; ok {
			a.try(&left[i])
		}
	}
	if again {
		a.keepLast(pages)
	}
}

// keepLast looks for keys that several objects of a list have. It makes the last of these objects that of the cache, and reports the keys.
func (a *applier[K, T]) keepLast(pages []relist.Page[K, T]) {
	last, count := make(map[K]T), make(map[K]int)
	var keys []K // of several objects
	for _, p := range pages {
		for i, key := range p.Keys {
			last[key] = p.Items[i]
			if count[key]++; count[key] == 2 {
				keys = append(keys, key)
			}
		}
	}
	if len(keys) == 0 {
		return
	}
	for _, key := range keys {
		if old, ok := a.indexer.Get(key); !ok || !a.same(key, old, last[key]) {
			a.try(&input[K, T]{kind: Modified, key: key, object: last[key]})
		}
	}
	const text = "informer: list %s: %d of its keys have several objects, such as %v; the last object of each counts"
	a.onError(fmt.Errorf(text, a.name, len(keys), keys[0]))
}

// same reports whether two states of a key are the same.
func (a *applier[K, T]) same(key K, old, obj T) (same bool) {
	if _, isOld := a.old[key]; isOld || a.equal == nil {
		return false
	}
	defer func() {
		if v := recover(); v != nil {
			err := &wait.PanicError{Value: v, Stack: debug.Stack()}
			a.onError(fmt.Errorf("informer: compare states of %v for %s: %w", key, a.name, err))
			same = false
		}
	}()
	return a.equal(old, obj)
}
