package cache

import "fmt"

// DeltaType says what a [Delta] reports.
type DeltaType int

const (
	Added    DeltaType = iota + 1 // the source says that the object is new
	Updated                       // the source says that the object has changed
	Deleted                       // the object is gone; Delta.Object is its last known state
	Replaced                      // the object is in a list; it may be new, changed, the same, or another one of the same key
	Sync                          // nothing has happened: a known object is handed out once more
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
	Object            T    // the new state; the last known one if the type is Deleted
	FinalStateUnknown bool // the deletion was found out by a Replace that lacked the object; see [Tombstone]
}

// item is what waits for one key: {X}, {Deleted} or {Deleted, X}, where X is a delta of another type.
type item[T any] struct {
	deltas  []Delta[T]  // one or two
	room    [2]Delta[T] // backs deltas
	bare    bool        // deltas[0] is a Sync or a tombstone without an object: it is looked up when the item is popped
	initial bool        // belongs to the first list
	floor   uint64      // every change up to here came before the oldest one of this item
}

// add folds d into what waits, so that a consumer who is interested in states, not in steps, ends up the same:
//
//	what waits   and then              becomes
//	X            Y                     the later object, under the stronger type: Sync < Updated < Added < Replaced
//	X            Deleted               Deleted
//	X            tombstone             a tombstone with the object of X
//	Deleted      X                     Deleted, X: the object was created again
//	Deleted      Deleted               Deleted, the later one
//	Deleted      tombstone             Deleted
//	Deleted, X   Deleted or tombstone  Deleted, the first one: nobody has seen X
//
// bare is for a Sync, which only comes when nothing waits, and for a tombstone.
func (it *item[T]) add(d Delta[T], bare bool) {
	last := len(it.deltas) - 1
	switch {
	case last < 0:
		it.deltas, it.bare = append(it.room[:0], d), bare
	case d.Type != Deleted && it.deltas[last].Type == Deleted:
		it.deltas = append(it.deltas, d)
	case d.Type != Deleted:
		d.Type = stronger(it.deltas[last].Type, d.Type)
		it.deltas[last] = d
		it.bare = it.bare && last > 0
	case last > 0:
		it.deltas[last] = Delta[T]{}
		it.deltas = it.deltas[:last]
	case !d.FinalStateUnknown:
		it.deltas[0], it.bare = d, false
	case it.deltas[0].Type != Deleted:
		it.deltas[0].Type, it.deltas[0].FinalStateUnknown = Deleted, true
	}
}

// stronger returns the type that claims less about what the object was before, and so more about what a consumer must
// be ready for.
func stronger(a, b DeltaType) DeltaType {
	rank := [...]int{Sync: 1, Updated: 2, Added: 3, Replaced: 4}
	if rank[b] > rank[a] {
		return b
	}
	return a
}
