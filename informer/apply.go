package informer

import (
	"fmt"
	"hash/maphash"
	"runtime/debug"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/wait"
)

// maxBatch is the number of inputs that are applied to the cache before the handlers are told of them.
const maxBatch = 256

// applier changes the cache. It is used by Run's goroutine alone.
//
// Invariants:
//
//  1. The cache holds every change up to at, but those of the keys in failed.
//  2. A key in failed has changes that the cache does not hold; all of them came after the version noted there.
type applier[K comparable, T any] struct {
	name    string
	indexer *cache.Indexer[K, T]
	equal   func(a, b T) bool // nil: no two states are the same
	onError func(error)
	seed    maphash.Seed
	keys    []K // room for those of a batch

	heard   bool           // somebody is to be told; otherwise there is no need to note changes
	changes []change[K, T] // applied, and not told yet
	at      Version
	failed  map[K]Version
	broke   bool // something has failed since a list was asked for
	retries int  // lists that were asked for since nothing failed
}

// apply applies inputs. A list is applied as a whole.
func (a *applier[K, T]) apply(inputs []input[K, T]) {
	a.prefetch(inputs)
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

// prefetch makes it faster to find the objects of inputs, whose keys are in no order: if there are many objects, each is far
// from the processor.
func (a *applier[K, T]) prefetch(inputs []input[K, T]) {
	keys := a.keys[:0]
	for i := range inputs {
		if it := &inputs[i]; it.list == nil && it.kind != Bookmark {
			keys = append(keys, it.key)
		}
	}
	a.indexer.Prefetch(keys)
	clear(keys)
	a.keys = keys
}

// try applies what is no list. The code of the user in it is that of indexes. When it panics, the cache stays as it was.
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
		a.changes = append(a.changes, change[K, T]{
			key: it.key, hash: maphash.Comparable(a.seed, it.key), old: state[T]{old, existed}, new: state[T]{it.object, true},
		})
	}
	a.healed(it.key)
}

// delete deletes a key, of which the cache need not know: then there is nothing to tell.
func (a *applier[K, T]) delete(it *input[K, T]) {
	old, existed := a.indexer.Delete(it.key)
	a.healed(it.key)
	if existed && a.heard {
		a.changes = append(a.changes, change[K, T]{
			key: it.key, hash: maphash.Comparable(a.seed, it.key), old: state[T]{old, true}, last: it.object, missed: it.missed,
		})
	}
}

// fail notes and reports that the changes of a key could not be applied.
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

// healed notes that the cache holds the newest state of a key.
func (a *applier[K, T]) healed(key K) {
	if len(a.failed) > 0 {
		delete(a.failed, key)
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

// retry returns a timer after which a list is to be asked for, because something has failed, or nil. It is called after
// every batch; running is the timer that it has returned last, until that has fired.
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

// forget lets go of the changes, which have been told.
func (a *applier[K, T]) forget() {
	clear(a.changes)
	a.changes = a.changes[:0]
	if cap(a.changes) > 2*maxBatch {
		a.changes = nil // the room for a whole list is not needed often
	}
}
