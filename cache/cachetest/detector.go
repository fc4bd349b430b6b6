package cachetest

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/setpoint-go/setpoint/cache"
)

// Detector finds objects that were changed after they were stored in an Indexer. For tests only: it remembers a text
// of everything that can be reached from each object.
//
// All methods may be called by several goroutines at once.
type Detector[K comparable, T any] struct {
	tb  testing.TB
	key func(T) K

	mu    sync.Mutex // guards the following
	byKey map[K]*record[T]
	order []*record[T] // the same ones, in the order in which their keys came
	found []string     // what is to be reported
}

// record is an object and what it looked like.
type record[T any] struct {
	name string
	obj  T
	was  []leaf
}

// Detect watches the objects of x until the test ends, those that are in it already and those that come. When one has
// changed, tb fails. It is an index function of x: it costs each write a walk through the object. An object that is
// deleted stays under watch.
func Detect[K comparable, T any](tb testing.TB, x *cache.Indexer[K, T], key cache.KeyFunc[K, T]) *Detector[K, T] {
	d := &Detector[K, T]{tb: tb, key: key, byKey: make(map[K]*record[T])}
	cache.AddIndex(x, func(obj T) []struct{} {
		d.stored(obj)
		return nil
	})
	tb.Cleanup(d.Check)
	return d
}

// Check fails the test for each object that has changed since it was stored or last reported.
func (d *Detector[K, T]) Check() {
	d.tb.Helper()
	for _, text := range d.changes() {
		d.tb.Error(text)
	}
}

func (d *Detector[K, T]) changes() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.order {
		d.compareLocked(r)
	}
	found := d.found
	d.found = nil
	return found
}

// stored is told of an object that is about to be stored. What is found is reported later: the writer of the Indexer
// waits.
func (d *Detector[K, T]) stored(obj T) {
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

func (d *Detector[K, T]) compareLocked(r *record[T]) {
	is := leaves(r.obj)
	if !slices.Equal(is, r.was) {
		d.found = append(d.found, fmt.Sprintf("cachetest: object %s was changed after it was cached:%s", r.name, diff(r.was, is)))
		r.was = is
	}
}
