package cache

import (
	"iter"
	"sync/atomic"
)

// batchSize is the number of members that an iterator over an index looks at in one hold of the read lock.
const batchSize = 64

// Index finds the objects of an [Indexer] by a value computed from them, such as their owner, node or label. It is
// kept up to date with the Indexer: whoever sees an object in the one sees it in the other.
//
// All methods may be called by several goroutines at once.
type Index[I, K comparable, T any] struct {
	x      *Indexer[K, T]
	values func(T) []I
	place  int // in x.indexes

	original *Index[I, K, T] // of which this is a snapshot, or nil

	// The following is read under x.mu, and written by the holder of x.writer and x.lock, if it does not say otherwise.
	// Invariants:
	//
	//  1. No bucket is empty. Its id is its own; the ids that are not used are in free.
	//  2. The members of a bucket are the objects with a posting in it, each at its place.
	buckets  atomic.Pointer[arrivals[I, *bucket]] // by value
	postings postings
	byID     []uint32 // the numbers in buckets; for the holder of x.writer, as are the following
	free     []uint32
	layouts  uint64      // the last number given to a layout
	planned  plan[I]     // what the write at hand changes for one object
	replaced *content[I] // what it changes for all objects
}

// AddIndex adds an index to x: values returns the values under which an object can be found. It may return none, and
// the same one twice, which counts once. A handful is meant: the time of a write grows with the square of their number.
// The function may read x, but must not write to it. The objects that are in x already are indexed before AddIndex
// returns.
//
// When values panics, x is as it was before. It also panics when a value is not equal to itself (a NaN).
func AddIndex[K, I comparable, T any](x *Indexer[K, T], values func(T) []I) *Index[I, K, T] {
	if values == nil {
		panic("cache: AddIndex: the index function is nil")
	}
	x.writer.Lock()
	defer x.writer.Unlock()

	ix := &Index[I, K, T]{x: x, values: values, place: len(x.indexes)}
	ix.buckets.Store(newArrivals[I, *bucket](x.seed, 0))
	ix.planReplace(x.objects.Load(), nil)
	x.lock()
	defer x.unlock()
	ix.applyReplaceLocked()
	x.indexes = append(x.indexes, ix)
	return ix
}

// All iterates over the objects that have the given value, in the order in which they got it. Its guarantees are those
// of [Indexer.All], for the objects that have the value from the first step to the last. The objects are read in batches
// of 64 under a lock, which is not held while the body of the loop runs.
func (ix *Index[I, K, T]) All(value I) iter.Seq2[K, T] {
	return func(yield func(K, T) bool) { // small enough to be inlined, with yield: nothing escapes
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

// Values iterates over the values that at least one object has, in the order in which they came. Its guarantees are
// those of [Indexer.All], for the values that are there from the first step to the last.
func (ix *Index[I, K, T]) Values() iter.Seq[I] {
	return func(yield func(I) bool) { ix.walkValues(yield) } // as in All
}

func (ix *Index[I, K, T]) walkValues(yield func(I) bool) {
	ix.x.mu.RLock() // waits for a change that has begun: what the caller has seen of it can be seen here, too
	first := ix.buckets.Load()
	ix.x.mu.RUnlock()
	walk(first, &ix.buckets, func(value I, _ *bucket) bool { return yield(value) })
}

// reading is where an iterator over the objects of one value is, and what it has read.
type reading[K comparable, T any] struct {
	hash    uint32          // of the value
	objects *arrivals[K, T] // what members means; nil before the first batch
	members []uint32        // those of the bucket at first that are still to come
	layout  uint64          // of the bucket that has them
	next    int             // the place of the first of them
	n       int             // the length of batch
	batch   [batchSize]struct {
		it  *arrival[K, T]
		obj T
	}
}

// read fills the batch, and says whether there may be more after it.
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
		return false // whoever was in it has left it
	}
	objects := ix.x.objects.Load()
	if first {
		r.members, r.layout = b.members, b.layout
	}
	same := b.layout == r.layout
	if same { // then members have the same places, and numbers mean the same
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

// fill fills the batch with members, which are no more than fit.
func (r *reading[K, T]) fill(objects *arrivals[K, T], members []uint32) {
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
