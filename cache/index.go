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
	return func(yield func(K, T) bool) { ix.walk(value, yield) } // small enough to be inlined: nothing escapes
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

// cursor is where an iterator over the objects of one value is.
type cursor[K comparable, T any] struct {
	objects *arrivals[K, T] // what members means
	members []uint32        // those of the bucket at first that are still to come
	layout  uint64          // of the bucket that has them
	next    int             // the place of the first of them
}

// batch is what an iterator over the objects of one value has read.
type batch[K comparable, T any] [batchSize]struct {
	it  *arrival[K, T]
	obj T
}

func (ix *Index[I, K, T]) walk(value I, yield func(K, T) bool) {
	var c cursor[K, T]
	var b batch[K, T]
	hash := ix.buckets.Load().hash(value)
	for first := true; first || len(c.members) > 0; first = false {
		n := ix.read(&c, &b, value, hash, first)
		for i := range b[:n] {
			if !yield(b[i].it.key, b[i].obj) {
				return
			}
		}
	}
}

// read fills the batch, and returns how many objects are in it.
func (ix *Index[I, K, T]) read(c *cursor[K, T], to *batch[K, T], value I, hash uint32, first bool) int {
	ix.x.mu.RLock()
	defer ix.x.mu.RUnlock()
	b, ok := ix.buckets.Load().get(value, hash)
	if !ok {
		c.members = nil // whoever was in it has left it
		return 0
	}
	objects := ix.x.objects.Load()
	if first {
		c.members, c.layout = b.members, b.layout
	}
	same := b.layout == c.layout
	if same { // then members have the same places, and numbers mean the same
		c.objects, c.members = objects, b.members[c.next:c.next+len(c.members)]
	}
	members := c.members[:min(batchSize, len(c.members))]
	c.members = c.members[len(members):]
	c.next += len(members)
	if same {
		return to.fill(objects, members)
	}
	n := 0
	for _, m := range members {
		if m == 0 {
			continue
		}
		was := c.objects.at(m - 1)
		if it, number := objects.find(was.key, was.hash); it != nil && ix.postings.in(number, b.id+1) != nil {
			to[n].it, to[n].obj = it, it.box.Load().(held[T]).v
			n++
		}
	}
	return n
}

// fill fills the batch with members, which are no more than fit.
func (b *batch[K, T]) fill(objects *arrivals[K, T], members []uint32) int {
	n := uint(0)
	for _, m := range members {
		if m != 0 {
			it := objects.at(m - 1)
			to := &b[n%batchSize]
			to.it, to.obj = it, it.box.Load().(held[T]).v
			n++
		}
	}
	return int(n)
}
