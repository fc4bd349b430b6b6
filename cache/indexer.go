package cache

import (
	"hash/maphash"
	"iter"
	"sync"
	"sync/atomic"
)

// Indexer holds objects by key, and by any number of indexes ([AddIndex]). It shares objects with the caller and never copies them, so an
// object in it must not be changed. To replace an object, [Indexer.Upsert] a new one with the same key.
//
// Get, Len, and All take no lock: they never wait, and no writer waits for them. A reader of an index waits for a write that adds or removes
// an object, or changes an index, only while that write changes a few lists. Such a write waits for a reader only while the reader reads 64
// objects. Neither ever waits for user code.
//
// The key function and the index functions run in the goroutine of the writer, before anything has changed. If one panics, the Indexer
// stays as it was. They may read the Indexer, but writing to it from them would deadlock.
//
// Objects should be pointers. An object of any other type is stored in separately allocated memory, and each read copies it.
//
// Several goroutines may call its methods concurrently.
type Indexer[K comparable, T any] struct {
	key     KeyFunc[K, T]
	seed    maphash.Seed
	none    any                         // a held[T] without an object
	objects atomic.Pointer[table[K, T]] // all of them share seed; stored by the holder of change

	_ [64]byte // keeps readers of objects off the cache line of the locks, which change with every write

	writer  sync.Mutex    // one writer at a time; guards objects and all of the following against another writer
	indexes []index[K, T] // also written under change
	change  sync.Mutex    // held for each visible change, so that a Snapshot is made between two changes
	mu      sync.RWMutex  // locked after change, for a change of an index; readers of indexes hold it
}

// index is an Index as its Indexer sees it, without the type of its values. Objects are identified by their number in Indexer.objects. The
// plan methods run the index function and change only the plan. The apply methods carry out the plan.
type index[K comparable, T any] interface {
	plan(n uint32, exists bool, obj T) (changes bool)
	planDelete(n uint32)
	applyLocked(n uint32)
	planReplace(objects *table[K, T], before []uint32)
	planMove(to []uint32)
	applyReplaceLocked()
	snapshotLocked(of *Indexer[K, T]) index[K, T]
}

// NewIndexer returns an empty Indexer. It panics if key is nil.
func NewIndexer[K comparable, T any](key KeyFunc[K, T]) *Indexer[K, T] {
	if key == nil {
		panic("cache: NewIndexer: the key function is nil")
	}
	x := &Indexer[K, T]{key: key, seed: maphash.MakeSeed(), none: held[T]{}}
	x.objects.Store(newTable[K, T](x.seed, 0))
	return x
}

// Get returns the object with the given key.
func (x *Indexer[K, T]) Get(key K) (obj T, ok bool) {
	objects := x.objects.Load()
	return objects.get(key, objects.hash(key))
}

// Len returns the number of objects.
func (x *Indexer[K, T]) Len() int { return int(x.objects.Load().live.Load()) }

// All iterates over the objects in the order in which their keys arrived. An update does not change the place of a key.
//
// If an object is present during the whole loop, All yields the object exactly once, in a state that the object has during the loop. All
// may or may not yield an object that arrives or leaves during the loop. All yields no key twice, and locks, copies, and allocates nothing.
// The body of the loop may read and write the Indexer.
func (x *Indexer[K, T]) All() iter.Seq2[K, T] {
	return func(yield func(K, T) bool) { walk(x.objects.Load(), &x.objects, yield) }
}

// Upsert stores obj. If there is an object with the same key, obj replaces it, and Upsert returns it. An update that changes no index value
// takes no lock that readers take, and allocates nothing if T is a pointer and no [Snapshot] shares the memory.
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
		old = objects.replace(it, n, obj)
		x.change.Unlock()
		return old, true
	}
	x.lock()
	defer x.unlock()
	old = objects.replace(it, n, obj)
	for _, ix := range x.indexes {
		ix.applyLocked(n)
	}
	return old, true
}

// insert stores an object whose key is not present.
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

// Delete removes the object with the given key, if there is one, and returns it.
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

func (x *Indexer[K, T]) remove(objects *table[K, T], n uint32) {
	x.lock()
	defer x.unlock()
	objects.remove(n, x.none)
	for _, ix := range x.indexes {
		ix.applyLocked(n)
	}
}

// renumber drops the entries that are deleted.
func (x *Indexer[K, T]) renumber() {
	objects, to := x.objects.Load().renumbered(1)
	for _, ix := range x.indexes {
		ix.planMove(to)
	}
	x.put(objects)
}

// put installs objects as the content, with the planned indexes.
func (x *Indexer[K, T]) put(objects *table[K, T]) {
	x.lock()
	defer x.unlock()
	x.objects.Store(objects)
	for _, ix := range x.indexes {
		ix.applyReplaceLocked()
	}
}

// lock locks objects and indexes for a change. The caller holds writer.
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

// checkKey panics if key is not equal to itself (a NaN), because no lookup could find it.
func checkKey[K comparable](key K) {
	if key != key {
		panic("cache: a key is not equal to itself")
	}
}

// Replace makes list the content of the Indexer, and removes all other objects. If a key is in list twice, the last object
// counts.
//
// For every reader the change is one step: no reader sees some of the new objects without the others. An iterator in progress yields old
// objects before that step and new objects after it. It still yields each key that is present before and after exactly once. Keys that stay
// keep their place. New keys follow in the order of list.
//
// Replace builds the new content beside the old one, so a reader waits only while a few pointers change, however long list is. Replace does
// not keep list.
func (x *Indexer[K, T]) Replace(list []T) {
	keys, hashes := make([]K, len(list)), make([]uint32, len(list))
	for i, obj := range list {
		keys[i] = x.keyOf(obj)
		hashes[i] = x.objects.Load().hash(keys[i])
	}
	x.writer.Lock()
	defer x.writer.Unlock()

	old := x.objects.Load()
	stays := make([]int, old.used.Load()) // the place in list, plus one
	var news []int                        // places in list
	for i, key := range keys {
		if it, n := old.find(key, hashes[i]); it != nil {
			stays[n] = i + 1
		} else {
			news = append(news, i)
		}
	}
	objects := newTable[K, T](x.seed, len(list))
	objects.generation = old.generation + 1
	before := make([]uint32, 0, len(list)) // the old number plus one
	for n, i := range stays {
		if i > 0 {
			objects.push(keys[i-1], hashes[i-1], held[T]{list[i-1]})
			before = append(before, uint32(n+1))
		}
	}
	for _, i := range news {
		if twice, _ := objects.find(keys[i], hashes[i]); twice != nil {
			twice.box.Store(held[T]{list[i]})
		} else {
			objects.push(keys[i], hashes[i], held[T]{list[i]})
		}
	}
	before = append(before, make([]uint32, int(objects.used.Load())-len(before))...)
	for _, ix := range x.indexes {
		ix.planReplace(objects, before)
	}
	x.put(objects)
}

// Snapshot is the content of an [Indexer] at one moment, for several reads that must agree. It never changes. [Index.In] returns an index
// as of the same moment.
//
// Several goroutines may call its methods concurrently.
type Snapshot[K comparable, T any] struct {
	x *Indexer[K, T] // never written to
}

// Snapshot returns the current content of x. It copies no objects, only one pointer for every 32 objects and for every 32 values of an
// index. While it does, writers wait and readers do not. Later, writers copy on write. The first change to an object copies 32 objects.
// The first object that joins or leaves the list of an index value copies that list. A Snapshot keeps all its objects alive.
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

// All iterates over the objects in the order in which their keys arrived. It allocates nothing.
func (s *Snapshot[K, T]) All() iter.Seq2[K, T] { return s.x.All() }

// In returns the index as it was when s was made. It panics if s is a snapshot of another Indexer, or was made before the
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
	s := &Index[I, K, T]{x: of, values: ix.values, place: ix.place, original: ix}
	s.buckets.Store(ix.buckets.Load().snapshot())
	return s
}
