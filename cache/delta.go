package cache

import (
	"fmt"
	"iter"
)

// DeltaType says what a [Delta] reports.
type DeltaType uint8

const (
	Added    DeltaType = iota + 1 // the source says that the object is new
	Updated                       // the source says that the object has changed
	Deleted                       // the object was deleted; Delta.Object is its last known state
	Replaced                      // the object is in a list; it may be new, changed, unchanged, or a new object with an old key
	Sync                          // nothing has happened: a known object is reported again
)

// String returns the name of t.
func (t DeltaType) String() string {
	switch t {
	case Added:
		return "Added"
	case Updated:
		return "Updated"
	case Deleted:
		return "Deleted"
	case Replaced:
		return "Replaced"
	case Sync:
		return "Sync"
	default:
		return fmt.Sprintf("DeltaType(%d)", int(t))
	}
}

// Delta is one change of an object on its way to a cache.
type Delta[T any] struct {
	Type              DeltaType
	FinalStateUnknown bool // the deletion was found by a Replace that lacks the object; see [Tombstone]
	Object            T    // the new state; the last known one if the type is Deleted
}

// Deltas is the changes of a key since it was last taken, merged: one delta, or a Deleted and then another delta. The consumer may keep it.
type Deltas[T any] struct {
	deleted, last Delta[T] // the type of an absent delta is 0
}

// All iterates over the deltas, in order.
func (d Deltas[T]) All() iter.Seq[Delta[T]] {
	return func(yield func(Delta[T]) bool) {
		if d.deleted.Type != 0 && !yield(d.deleted) {
			return
		}
		if d.last.Type != 0 {
			yield(d.last)
		}
	}
}

// Newest returns the last delta, which has the newest state.
func (d Deltas[T]) Newest() Delta[T] {
	if d.last.Type != 0 {
		return d.last
	}
	return d.deleted
}

// item is the merged changes of one waiting key: {X}, {Deleted} or {Deleted, X}, where X is a delta of another type.
type item[T any] struct {
	deletedObj, obj T         // the objects of Deleted and X
	what            DeltaType // the type of X, 0 if there is none
	deleted         bool      // there is a Deleted
	unknown         bool      // it is a tombstone
	bare            bool      // the tombstone or the Sync has no object yet: the consumer takes it from the known objects along with the item
	initial         bool      // the item belongs to the first list
	floor           uint64    // every change up to this version came before the oldest one of this item
}

// add merges d into the item. A consumer that applies the result reaches the same state:
//
//	item         and then              becomes
//	X            Y                     the later object, under the stronger type: Sync < Updated < Added < Replaced
//	X            Deleted               Deleted
//	X            tombstone             a tombstone with the object of X
//	Deleted      X                     Deleted, X: the object was created again
//	Deleted      Deleted               Deleted, the later one
//	Deleted      tombstone             Deleted
//	Deleted, X   Deleted or tombstone  Deleted, the first one: the consumer never sees X
//
// A tombstone has no object, and neither does a Sync, which is added only if no item is waiting.
func (it *item[T]) add(d Delta[T]) {
	var none T
	had, bare := it.what != 0, d.Type == Sync || d.FinalStateUnknown
	switch {
	case d.Type != Deleted:
		it.obj, it.what = d.Object, stronger(it.what, d.Type)
		it.bare = it.bare && it.deleted || bare
		return
	case it.deleted && (had || bare):
	case had && bare:
		it.deletedObj, it.unknown = it.obj, true
	default:
		it.deletedObj, it.unknown, it.bare = d.Object, bare, bare
	}
	it.deleted, it.obj, it.what = true, none, 0
}

func (it *item[T]) deltas() Deltas[T] {
	d := Deltas[T]{last: Delta[T]{Type: it.what, Object: it.obj}}
	if it.deleted {
		d.deleted = Delta[T]{Type: Deleted, FinalStateUnknown: it.unknown, Object: it.deletedObj}
	}
	return d
}

// stronger returns the type that says less about the earlier state of the object, so that the consumer is prepared for more.
func stronger(a, b DeltaType) DeltaType {
	rank := [...]int{Sync: 1, Updated: 2, Added: 3, Replaced: 4} // 0 for nothing
	if rank[b] > rank[a] {
		return b
	}
	return a
}
