package cachetest

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/setpoint-go/setpoint/cache"
)

// MutationDetector finds objects that were changed after they were stored in an Indexer. It is for tests only: it keeps a textual copy of
// everything that can be reached from each object.
//
// Several goroutines may call its methods concurrently.
type MutationDetector[K comparable, T any] struct {
	tb  testing.TB
	key func(T) K

	mu    sync.Mutex // guards the following
	byKey map[K]*record[T]
	order []*record[T] // the same records, in the order in which their keys arrived
	found []string     // changes not reported yet
}

// record is an object, and its content when it was stored.
type record[T any] struct {
	name string
	obj  T
	was  []leaf
}

// DetectMutations watches the objects of x until the test ends: those that are already in it, and those that are stored later. If one is
// changed, tb fails. It adds an index to x, so each write to x walks through the object. It continues to watch objects that were deleted
// from x, but not those whose key got another object.
func DetectMutations[K comparable, T any](tb testing.TB, x *cache.Indexer[K, T], key cache.KeyFunc[K, T]) *MutationDetector[K, T] {
	d := &MutationDetector[K, T]{tb: tb, key: key, byKey: make(map[K]*record[T])}
	cache.AddIndex(x, func(obj T) []struct{} {
		d.stored(obj)
		return nil
	})
	tb.Cleanup(d.Check)
	return d
}

// Check fails the test for each object that has changed since it was stored or last reported.
func (d *MutationDetector[K, T]) Check() {
	d.tb.Helper()
	for _, text := range d.changes() {
		d.tb.Error(text)
	}
}

func (d *MutationDetector[K, T]) changes() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.order {
		d.compareLocked(r)
	}
	found := d.found
	d.found = nil
	return found
}

// stored is called for an object that is about to be stored. It leaves the report to Check, because it blocks the writer of the Indexer.
func (d *MutationDetector[K, T]) stored(obj T) {
	key, is := d.key(obj), leaves(obj)
	name := fmt.Sprint(key)
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.byKey[key]
	if r == nil {
		r = &record[T]{name: name}
		d.byKey[key] = r
		d.order = append(d.order, r)
	} else {
		d.compareLocked(r)
	}
	r.obj, r.was = obj, is
}

func (d *MutationDetector[K, T]) compareLocked(r *record[T]) {
	is := leaves(r.obj)
	if !slices.Equal(is, r.was) {
		d.found = append(d.found, fmt.Sprintf("cachetest: object %s was changed after it was cached:%s", r.name, diff(r.was, is)))
		r.was = is
	}
}
