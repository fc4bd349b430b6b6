package cache

import (
	"iter"
	"sync"
)

// Indexer holds objects by key, and by any number of indexes ([AddIndex]). Objects are shared with the caller, never
// copied: whoever gets one must not change it. To change an object, [Indexer.Upsert] a new one with the same key.
//
// A reader is never held up for longer than one write takes to change a few maps, and a writer never for longer than
// it takes to read a batch of 64 objects. Neither ever waits for code of the caller.
//
// The key function and the index functions run in the goroutine of the writer, before anything has changed: when one
// panics, the indexer stays as it was. They may read the indexer; they must not write to it, which would wait for
// itself.
//
// All methods may be called by several goroutines at once.
type Indexer[K comparable, T any] struct {
	key KeyFunc[K, T]

	writer  sync.Mutex // one writer at a time; taken before mu; guards indexes, and lets its holder read without mu
	indexes []index[K, T]

	mu      sync.RWMutex // guards the following; written by the holder of writer only
	byKey   table[K, *entry[K, T]]
	entries ordered[entry[K, T]]
	seq     uint64 // the last number given to an entry, to a member of a bucket, or to a bucket; none is given twice
}

// entry is an object in an Indexer.
type entry[K comparable, T any] struct {
	key      K
	seq      uint64 // its number in entries, from 1
	obj      T      // guarded by mu
	postings []any  // guarded by writer: for each index, the *posting of its first value, or nil
}

// index is what an Indexer asks of an Index, whatever the type of its values. The plan methods run the index function
// and leave no trace but the plan, which the apply method after it carries out.
type index[K comparable, T any] interface {
	plan(e *entry[K, T], obj T)
	planDelete(e *entry[K, T])
	applyLocked(e *entry[K, T])
	planReplace(seq *uint64, entries, before []*entry[K, T])
	applyReplaceLocked()
}

// NewIndexer returns an empty Indexer. It panics when there is no key function.
func NewIndexer[K comparable, T any](key KeyFunc[K, T]) *Indexer[K, T] {
	if key == nil {
		panic("cache: NewIndexer: the key function is nil")
	}
	return &Indexer[K, T]{key: key, byKey: newTable[K, *entry[K, T]](0)}
}

// Get returns the object with the given key.
func (x *Indexer[K, T]) Get(key K) (obj T, ok bool) {
	x.mu.RLock()
	defer x.mu.RUnlock() // also when key is an interface that holds something that cannot be hashed
	if e := x.byKey.m[key]; e != nil {
		return e.obj, true
	}
	return obj, false
}

// Len returns the number of objects.
func (x *Indexer[K, T]) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.entries.live
}

// All iterates over the objects in the order in which their keys came; an update does not change the place of a key.
//
// An object that is there from the first step to the last is yielded exactly once, as it is at some time in between.
// One that comes or goes meanwhile may be yielded or not. No key is yielded twice. The objects are read in batches of
// 64, no lock is held while the loop's body runs, and nothing is allocated. The body may read and write the indexer.
func (x *Indexer[K, T]) All() iter.Seq2[K, T] {
	return func(yield func(K, T) bool) {
		x.walk(func() *ordered[entry[K, T]] { return &x.entries }, yield)
	}
}

// walk yields the objects of a list, which may be nil. It asks for the list anew for each batch, under mu.
func (x *Indexer[K, T]) walk(listLocked func() *ordered[entry[K, T]], yield func(K, T) bool) {
	var batch [batchSize]struct {
		e   *entry[K, T]
		obj T
	}
	x.mu.RLock()
	end := x.seq + 1 // what comes from now on is not ours: so the loop ends, and sees no key that went and came again
	x.mu.RUnlock()
	for from := uint64(0); from < end; {
		n := 0
		x.mu.RLock()
		var slots []slot[entry[K, T]]
		slots, from = listLocked().window(from, end)
		for _, s := range slots {
			if s.v != nil {
				batch[n].e, batch[n].obj = s.v, s.v.obj
				n++
			}
		}
		x.mu.RUnlock()
		for i := range batch[:n] {
			if !yield(batch[i].e.key, batch[i].obj) {
				return
			}
		}
	}
}

// Upsert stores obj, in the place of the object with the same key if there is one, which it returns. Values of an
// index that have not changed cost no write to it.
func (x *Indexer[K, T]) Upsert(obj T) (old T, existed bool) {
	key := x.keyOf(obj)
	x.writer.Lock()
	defer x.writer.Unlock()

	e, existed := x.byKey.m[key]
	for _, ix := range x.indexes {
		ix.plan(e, obj)
	}
	if !existed {
		e = &entry[K, T]{key: key, postings: make([]any, len(x.indexes))}
		x.entries.tidy(&x.mu)
	}

	x.mu.Lock()
	defer x.mu.Unlock()
	if !existed {
		e.seq = x.nextLocked()
		x.byKey.put(key, e)
		x.entries.push(e.seq, e)
	}
	old, e.obj = e.obj, obj
	for _, ix := range x.indexes {
		ix.applyLocked(e)
	}
	return old, existed
}

// Delete removes the object with the given key, and returns it. There need not be one.
func (x *Indexer[K, T]) Delete(key K) (old T, existed bool) {
	x.writer.Lock()
	defer x.writer.Unlock()

	e, existed := x.byKey.m[key]
	if !existed {
		return old, false
	}
	for _, ix := range x.indexes {
		ix.planDelete(e)
	}
	x.byKey.tidy(&x.mu)
	x.entries.tidy(&x.mu)

	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.byKey.m, key)
	x.entries.remove(e.seq)
	for _, ix := range x.indexes {
		ix.applyLocked(e)
	}
	return e.obj, true
}

// keyOf returns the key of an object. It panics when the key is not equal to itself (a NaN): it could never be found
// again.
func (x *Indexer[K, T]) keyOf(obj T) K {
	key := x.key(obj)
	if key != key { // which also panics for an interface whose value has no hash
		panic("cache: a key is not equal to itself")
	}
	return key
}

// nextLocked returns a number that was never used.
func (x *Indexer[K, T]) nextLocked() uint64 {
	x.seq++
	return x.seq
}
