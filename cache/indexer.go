package cache

import (
	"hash/maphash"
	"iter"
	"sync"
	"sync/atomic"
)

// Indexer holds objects by key, and by any number of indexes ([AddIndex]). Objects are shared with the caller, never
// copied: whoever gets one must not change it. To change an object, [Indexer.Upsert] a new one with the same key.
//
// Get, Len and All take no lock: they wait for nobody, and nobody waits for them. Who reads an index waits for a write
// that changes an index no longer than that takes to change a few lists, and such a write waits for a reader no longer
// than it takes to read 64 objects. Neither ever waits for code of the caller.
//
// The key function and the index functions run in the goroutine of the writer, before anything has changed: when one
// panics, the indexer stays as it was. They may read the indexer; they must not write to it, which would wait for
// itself.
//
// Objects are best pointers: an object of another type is stored in memory of its own, so that a read copies it once.
//
// All methods may be called by several goroutines at once.
type Indexer[K comparable, T any] struct {
	key     KeyFunc[K, T]
	seed    maphash.Seed
	none    any                            // a held[T] without an object
	objects atomic.Pointer[arrivals[K, T]] // all of them share seed; stored by the holder of change

	_ [64]byte // readers of objects do not share a cache line with the locks, which change with every write

	writer  sync.Mutex    // one writer at a time; guards all of what follows, and objects, against another one
	indexes []index[K, T] // written under change, too
	change  sync.Mutex    // held for each change of what can be seen, so that Snapshot comes between two
	mu      sync.RWMutex  // taken after change, for a change of an index; readers of indexes hold it
}

// index is what an Indexer asks of an Index, whatever the type of its values. Objects go by their number in
// Indexer.objects. The plan methods run the index function and leave no trace but the plan, which the apply method after
// them carries out.
type index[K comparable, T any] interface {
	plan(n uint32, known bool, obj T) (changes bool)
	planDelete(n uint32)
	applyLocked(n uint32)
	planReplace(objects *arrivals[K, T], before []uint32)
	planMove(to []uint32)
	applyReplaceLocked()
	snapshotLocked(of *Indexer[K, T]) index[K, T]
}

// NewIndexer returns an empty Indexer. It panics when there is no key function.
func NewIndexer[K comparable, T any](key KeyFunc[K, T]) *Indexer[K, T] {
	if key == nil {
		panic("cache: NewIndexer: the key function is nil")
	}
	x := &Indexer[K, T]{key: key, seed: maphash.MakeSeed(), none: held[T]{}}
	x.objects.Store(newArrivals[K, T](x.seed, 0))
	return x
}

// Get returns the object with the given key.
func (x *Indexer[K, T]) Get(key K) (obj T, ok bool) {
	objects := x.objects.Load()
	return objects.get(key, objects.hash(key))
}

// Len returns the number of objects.
func (x *Indexer[K, T]) Len() int { return int(x.objects.Load().live.Load()) }

// All iterates over the objects in the order in which their keys came; an update does not change the place of a key.
//
// An object that is there from the first step to the last is yielded exactly once, as it is at some time in between.
// One that comes or goes meanwhile may be yielded or not. No key is yielded twice. Nothing is locked, copied or
// allocated. The body of the loop may read and write the indexer.
func (x *Indexer[K, T]) All() iter.Seq2[K, T] {
	return func(yield func(K, T) bool) { walk(x.objects.Load(), &x.objects, yield) }
}

// Upsert stores obj, in the place of the object with the same key if there is one, which it returns. An update that
// leaves the values of all indexes as they are takes no lock that a reader takes, and allocates nothing if T is a pointer.
func (x *Indexer[K, T]) Upsert(obj T) (old T, existed bool) {
	key := x.keyOf(obj)
	hash := x.objects.Load().hash(key)
	x.writer.Lock()
	defer x.writer.Unlock()

	objects := x.objects.Load()
	it, n := objects.find(key, hash)
	if it == nil {
		x.insert(key, hash, obj)
		return old, false
	}
	changes := false
	for _, ix := range x.indexes {
		if ix.plan(n, true, obj) {
			changes = true
		}
	}
	if !changes {
		x.change.Lock()
		defer x.change.Unlock()
		return objects.replace(n, obj), true
	}
	x.lock()
	defer x.unlock()
	old = objects.replace(n, obj)
	for _, ix := range x.indexes {
		ix.applyLocked(n)
	}
	return old, true
}

// insert stores an object whose key is not there.
func (x *Indexer[K, T]) insert(key K, hash uint32, obj T) {
	if objects := x.objects.Load(); objects.full(1) {
		if objects.crowded() {
			objects = objects.grown(1)
			x.change.Lock()
			objects.takePlace(&x.objects)
			x.change.Unlock()
		} else {
			x.renumber()
		}
	}
	objects := x.objects.Load()
	n := objects.used.Load()
	for _, ix := range x.indexes {
		ix.plan(n, false, obj)
	}
	x.lock()
	defer x.unlock()
	objects.push(key, hash, held[T]{obj})
	for _, ix := range x.indexes {
		ix.applyLocked(n)
	}
}

// Delete removes the object with the given key, and returns it. There need not be one.
func (x *Indexer[K, T]) Delete(key K) (old T, existed bool) {
	hash := x.objects.Load().hash(key)
	x.writer.Lock()
	defer x.writer.Unlock()

	objects := x.objects.Load()
	it, n := objects.find(key, hash)
	if it == nil {
		return old, false
	}
	old, _ = it.load()
	for _, ix := range x.indexes {
		ix.planDelete(n)
	}
	x.remove(objects, n)
	if objects.sparse() {
		x.renumber()
	}
	return old, true
}

func (x *Indexer[K, T]) remove(objects *arrivals[K, T], n uint32) {
	x.lock()
	defer x.unlock()
	objects.remove(n, x.none)
	for _, ix := range x.indexes {
		ix.applyLocked(n)
	}
}

// renumber leaves out what is gone.
func (x *Indexer[K, T]) renumber() {
	objects, to := x.objects.Load().renumbered(1)
	for _, ix := range x.indexes {
		ix.planMove(to)
	}
	x.put(objects)
}

// put makes objects the content, with the indexes that are planned.
func (x *Indexer[K, T]) put(objects *arrivals[K, T]) {
	x.lock()
	defer x.unlock()
	x.objects.Store(objects)
	for _, ix := range x.indexes {
		ix.applyReplaceLocked()
	}
}

// lock is for a change of objects and indexes. The caller holds writer.
func (x *Indexer[K, T]) lock() {
	x.change.Lock()
	x.mu.Lock()
}

func (x *Indexer[K, T]) unlock() {
	x.mu.Unlock()
	x.change.Unlock()
}

// keyOf returns the key of an object.
func (x *Indexer[K, T]) keyOf(obj T) K {
	key := x.key(obj)
	checkKey(key)
	return key
}

// checkKey panics when key is not equal to itself (a NaN), or is an interface whose value has no hash: it could never be
// found again.
func checkKey[K comparable](key K) {
	if key != key {
		panic("cache: a key is not equal to itself")
	}
}
