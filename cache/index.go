package cache

import (
	"iter"
	"slices"
	"sync/atomic"
)

// batchSize is the number of members that an iterator over an index reads each time it holds the read lock.
const batchSize = 64

// Index finds the objects of an [Indexer] by a value computed from them, such as their owner, node, or label. It changes
// together with the Indexer: a reader that sees an object in one sees it in the other. [AddIndex] makes an Index.
//
// Several goroutines may call its methods concurrently.
type Index[I, K comparable, T any] struct {
	x      *Indexer[K, T]
	values func(T) []I
	place  int // in x.indexes

	original *Index[I, K, T] // if this is a snapshot: the index that it was made of

	// Unless noted, readers of the following hold x.mu, and the writer holds x.writer and has called x.lock. Invariants:
	//
	//  1. No bucket is empty. No two buckets have the same id; unused ids are in free.
	//  2. The members of a bucket are the objects with a posting in it, each at its place.
	buckets  atomic.Pointer[table[I, *bucket]] // by value
	postings postings
	byID     []uint32 // the numbers of buckets, by id; this and the following are for the holder of x.writer
	free     []uint32
	layouts  uint64 // the last layout number that was given
	planned  plan[I]
}

// AddIndex adds an index to x, at any time. values returns the values of an object, by which the index finds it. It may return no values,
// and a repeated value counts once. It should return few: the cost of a write grows with the square of their number. values may read x but
// must not write to it. Objects that are already in x are indexed before AddIndex returns.
//
// If values panics, x stays as it was. AddIndex and writes panic if a value is not equal to itself (a NaN). AddIndex panics if values is nil.
func AddIndex[I, K comparable, T any](x *Indexer[K, T], values func(T) []I) *Index[I, K, T] {
	if values == nil {
		panic("cache: AddIndex: the index function is nil")
	}
	x.writer.Lock()
	defer x.writer.Unlock()

	ix := &Index[I, K, T]{x: x, values: values, place: len(x.indexes)}
	ix.buckets.Store(newTable[I, *bucket](x.seed, 0))
	ix.planReplace(x.objects.Load(), nil)
	x.lock()
	defer x.unlock()
	ix.applyReplaceLocked()
	x.indexes = append(x.indexes, ix)
	return ix
}

// All iterates over the objects that have the given value, in the order in which they got it. It makes the guarantees of [Indexer.All] for
// the objects that have the value from the first step to the last. It reads batches of 64 objects under a lock, and does not hold the lock
// while the loop's body runs.
func (ix *Index[I, K, T]) All(value I) iter.Seq2[K, T] {
	return func(yield func(K, T) bool) { // small enough to be inlined, together with yield, so that nothing escapes
		var r reading[K, T]
		for ix.read(&r, value) {
			for i := range r.batch[:r.n] {
				if !yield(r.batch[i].it.key, r.batch[i].obj) {
					return
				}
			}
		}
	}
}

// Has reports whether the function given to [AddIndex] returns value for obj. obj need not be in the cache.
func (ix *Index[I, K, T]) Has(obj T, value I) bool { return slices.Contains(ix.values(obj), value) }

// Len returns the number of objects that have the given value.
func (ix *Index[I, K, T]) Len(value I) int {
	hash := ix.buckets.Load().hash(value)
	ix.x.mu.RLock()
	defer ix.x.mu.RUnlock()
	if b, ok := ix.buckets.Load().get(value, hash); ok {
		return int(b.live)
	}
	return 0
}

// Values iterates over the values that at least one object has, in the order in which they first appeared. It makes the guarantees of
// [Indexer.All] for the values that are present from the first step to the last.
func (ix *Index[I, K, T]) Values() iter.Seq[I] {
	return func(yield func(I) bool) { ix.walkValues(yield) } // as in All
}

func (ix *Index[I, K, T]) walkValues(yield func(I) bool) {
	ix.x.mu.RLock() // waits for a change in progress: if the caller has seen part of it, the rest is visible here
	first := ix.buckets.Load()
	ix.x.mu.RUnlock()
	walk(first, &ix.buckets, func(value I, _ *bucket) bool { return yield(value) })
}

// reading is the state of an iterator over the objects of one value.
type reading[K comparable, T any] struct {
	hash    uint32       // of the value
	objects *table[K, T] // that the numbers in members refer to; nil before the first batch
	members []uint32     // the members at the beginning that are not read yet
	layout  uint64       // of the bucket with these members
	next    int          // the place of the first of them
	n       int          // the length of batch
	batch   [batchSize]struct {
		it  *entry[K, T]
		obj T
	}
}

// read fills the batch, and reports whether more may follow.
func (ix *Index[I, K, T]) read(r *reading[K, T], value I) (more bool) {
	r.n = 0
	first := r.objects == nil
	switch {
	case first:
		r.hash = ix.buckets.Load().hash(value)
	case len(r.members) == 0:
		return false
	}
	ix.x.mu.RLock()
	defer ix.x.mu.RUnlock()
	b, ok := ix.buckets.Load().get(value, r.hash)
	if !ok {
		return false // the value has no objects anymore
	}
	objects := ix.x.objects.Load()
	if first {
		r.members, r.layout = b.members, b.layout
	}
	same := b.layout == r.layout
	if same { // then the members have the same places and numbers
		r.objects, r.members = objects, b.members[r.next:r.next+len(r.members)]
	}
	members := r.members[:min(batchSize, len(r.members))]
	r.members = r.members[len(members):]
	r.next += len(members)
	if same {
		r.fill(objects, members)
		return true
	}
	for _, m := range members {
		if m == 0 {
			continue
		}
		was := r.objects.at(m - 1)
		if it, number := objects.find(was.key, was.hash); it != nil && ix.postings.in(number, b.id+1) != nil {
			r.batch[r.n].it, r.batch[r.n].obj = it, it.box.Load().(held[T]).v
			r.n++
		}
	}
	return true
}

// fill fills the batch with members, at most batchSize of them.
func (r *reading[K, T]) fill(objects *table[K, T], members []uint32) {
	n := uint(0)
	for _, m := range members {
		if m != 0 {
			it := objects.at(m - 1)
			to := &r.batch[n%batchSize]
			to.it, to.obj = it, it.box.Load().(held[T]).v
			n++
		}
	}
	r.n = int(n)
}
