package cache

import "iter"

// Snapshot is what an [Indexer] held at one time, for whoever needs several reads to agree. It never changes. What
// [Index.In] returns is the index at the same time.
//
// All methods may be called by several goroutines at once.
type Snapshot[K comparable, T any] struct {
	x *Indexer[K, T] // to which nobody writes
}

// Snapshot returns what x holds now. It copies no objects, only a pointer for every 32 objects and for every 32 values of
// an index, while a change waits; readers do not wait. What the writer changes after that it copies first: 32 objects with
// the first change of one of them, and the list of the objects that have a value, when one joins or leaves it first.
// A Snapshot that is kept keeps alive all that was there.
func (x *Indexer[K, T]) Snapshot() *Snapshot[K, T] {
	s := &Indexer[K, T]{key: x.key, seed: x.seed}
	x.change.Lock()
	defer x.change.Unlock()
	s.objects.Store(x.objects.Load().snapshot())
	for _, ix := range x.indexes {
		s.indexes = append(s.indexes, ix.snapshotLocked(s))
	}
	return &Snapshot[K, T]{s}
}

// Get returns the object with the given key.
func (s *Snapshot[K, T]) Get(key K) (obj T, ok bool) { return s.x.Get(key) }

// Len returns the number of objects.
func (s *Snapshot[K, T]) Len() int { return s.x.Len() }

// All iterates over the objects in the order in which their keys came. Nothing is allocated.
func (s *Snapshot[K, T]) All() iter.Seq2[K, T] { return s.x.All() }

// In returns the index as it was when s was taken. It panics when s is a snapshot of another Indexer, or from before the
// index was added.
func (ix *Index[I, K, T]) In(s *Snapshot[K, T]) *Index[I, K, T] {
	if ix.place < len(s.x.indexes) {
		if in, ok := s.x.indexes[ix.place].(*Index[I, K, T]); ok && in.original == ix {
			return in
		}
	}
	panic("cache: Index.In: the snapshot is of another indexer, or older than the index")
}

func (ix *Index[I, K, T]) snapshotLocked(of *Indexer[K, T]) index[K, T] {
	s := &Index[I, K, T]{x: of, place: ix.place, original: ix}
	s.buckets.Store(ix.buckets.Load().snapshot())
	return s
}
