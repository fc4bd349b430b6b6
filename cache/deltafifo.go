package cache

import (
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// DeltaFIFO stands between a source and a cache. A producer tells it what has changed, a consumer takes it out key by
// key, in the order in which the keys came, with all that has happened to the key since it was taken out last.
//
// What waits for a key is merged so that the result for the cache is the same: a deletion and what came after it, at
// most. So the queue holds at most two deltas for each key, however slow the consumer is. A key that changes again
// while it waits keeps its place in line.
//
// Each change has a version, a number that grows with every change of the source. [DeltaFIFO.Version] is the version
// up to which everything has been processed.
//
// Producers may be many; there is one consumer at a time. All other methods may be called by several goroutines at
// once, also by the function that processes deltas.
type DeltaFIFO[K comparable, T any] struct {
	key       KeyFunc[K, T]
	seed      maphash.Seed // of all hashes of keys
	known     Known[K, T]
	transform func(T) (T, error)
	equal     func(known, listed T) bool

	wake    chan struct{} // holds one; producers and Close fill it, after they have let go of mu; the consumer empties it
	synced  chan struct{} // closed, under mu, when HasSynced becomes true
	popping atomic.Bool   // the consumer is at work

	mu        sync.Mutex       // guards the following
	waiting   line[K, item[T]] // what waits; floors never fall from first to last
	current   node[K, item[T]] // what the consumer works on, if it does; not in waiting
	failed    line[K, uint64]  // the floors of what process has failed on; as in waiting, and none is higher than there
	replacing int              // Replace calls that look at known right now
	popped    []hashed[K]      // keys that were current since the first of them began
	seen      uint64           // the version of the last call
	below     uint64           // the one before that is lower
	started   bool             // a call other than Bookmark and Resync has come
	initial   int              // items of the first list that have not been processed yet
	inSync    bool             // synced is closed
	closed    bool
}

// NewDeltaFIFO returns an empty queue. The error names each field of cfg that is wrong. NewDeltaFIFO panics if key is nil.
func NewDeltaFIFO[K comparable, T any](key KeyFunc[K, T], cfg DeltaFIFOConfig[K, T]) (*DeltaFIFO[K, T], error) {
	if key == nil {
		panic("cache: NewDeltaFIFO: the key function is nil")
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("cache: new delta FIFO: %w", err)
	}
	seed := maphash.MakeSeed()
	return &DeltaFIFO[K, T]{
		key:       key,
		seed:      seed,
		known:     cfg.Known,
		transform: cfg.Transform,
		equal:     cfg.Equal,
		wake:      make(chan struct{}, 1),
		synced:    make(chan struct{}),
		waiting:   newLine[K, item[T]](seed),
		failed:    newLine[K, uint64](seed),
	}, nil
}

// Add reports an object that is new. v is the version of the source right after the change; it must not be lower than
// that of the call before, or else it counts as the same.
func (f *DeltaFIFO[K, T]) Add(obj T, v uint64) error { return f.change(Added, obj, v) }

// Update reports an object that has changed. It is like Add otherwise.
func (f *DeltaFIFO[K, T]) Update(obj T, v uint64) error { return f.change(Updated, obj, v) }

// Delete reports an object that is gone; obj is its last state. It is like Add otherwise. The consumer does not hear of
// the deletion of a key that it does not know.
func (f *DeltaFIFO[K, T]) Delete(obj T, v uint64) error { return f.change(Deleted, obj, v) }

func (f *DeltaFIFO[K, T]) change(t DeltaType, obj T, v uint64) error {
	obj, key, err := f.prepare(obj)
	if err != nil {
		return err
	}
	hash := f.hash(key)
	defer f.signal()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ErrClosed
	}
	f.advanceLocked(v)
	f.enqueueLocked(key, hash, Delta[T]{Type: t, Object: obj}, f.below)
	f.startLocked()
	return nil
}

// Bookmark reports that nothing has happened up to version v.
func (f *DeltaFIFO[K, T]) Bookmark(v uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.advanceLocked(v)
}

// Resync queues a Sync for each known key that does not wait. The object is looked up when its turn comes, so that an
// old state never follows a newer one.
func (f *DeltaFIFO[K, T]) Resync() {
	if f.known == nil {
		return
	}
	defer f.signal()
	for key := range f.known.All() {
		hash := f.hash(key)
		f.mu.Lock()
		if f.waiting.find(key, hash) == nil && !f.closed {
			// It is no change, so it holds the version down as little as it can.
			f.enqueueLocked(key, hash, Delta[T]{Type: Sync}, f.seen)
		}
		f.mu.Unlock()
	}
}

// Len returns the number of keys that wait. The one that is being processed is not among them.
func (f *DeltaFIFO[K, T]) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.waiting.n
}

// HasSynced says whether everything in the first list has been processed: each object, and each deletion that the list
// has brought to light. An error of the processing counts too. It is true at once when the first call is Add, Update
// or Delete, and when the first list changes nothing because both it and the cache are empty.
func (f *DeltaFIFO[K, T]) HasSynced() bool {
	select {
	case <-f.synced:
		return true
	default:
		return false
	}
}

// Synced returns a channel that is closed when [DeltaFIFO.HasSynced] becomes true.
func (f *DeltaFIFO[K, T]) Synced() <-chan struct{} { return f.synced }

// Version returns the version up to which every change has been processed. It is one that a call has brought, or zero.
// What waits, what is being processed right now and what has failed hold it down. A key that has failed does so until
// a later change of it, or a Replace, has been processed.
//
// It never falls, except after a Replace with a version lower than the one before, which says that the source has
// started a new history: then it is zero until all that waited by then has been processed; and except when a second
// change comes with the version of the one before.
func (f *DeltaFIFO[K, T]) Version() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.seen
	if oldest := f.waiting.first(); oldest != nil {
		v = min(v, oldest.v.floor)
	}
	if oldest := f.failed.first(); oldest != nil {
		v = min(v, oldest.v)
	}
	if f.current.in {
		v = min(v, f.current.v.floor)
	}
	return v
}

// Close ends the queue: what waits can still be popped, nothing more can be queued. It may be called more than once.
func (f *DeltaFIFO[K, T]) Close() {
	defer f.signal()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
}

// hashed is a key with its hash.
type hashed[K comparable] struct {
	key  K
	hash uint32
}

// prepare runs the code of the user on obj.
func (f *DeltaFIFO[K, T]) prepare(obj T) (T, K, error) {
	if f.transform != nil {
		before := obj
		var err error
		if obj, err = f.transform(before); err != nil {
			return obj, f.key(before), fmt.Errorf("cache: transform %v: %w", f.key(before), err)
		}
	}
	key := f.key(obj)
	checkKey(key)
	return obj, key, nil
}

// advanceLocked takes note of the version of a call.
func (f *DeltaFIFO[K, T]) advanceLocked(v uint64) {
	if v > f.seen {
		f.below, f.seen = f.seen, v
	}
}

// enqueueLocked adds d, which came right after version floor, to what waits for key.
func (f *DeltaFIFO[K, T]) enqueueLocked(key K, hash uint32, d Delta[T], floor uint64) *item[T] {
	f.lowerLocked(floor) // a Sync may wait, and now another change comes with the version that was the last one then
	e, fresh := f.waiting.push(key, hash)
	if fresh {
		e.v.floor = floor
	}
	e.v.add(d)
	return &e.v
}

// lowerLocked sees to it that no floor of what waits is higher than this one.
func (f *DeltaFIFO[K, T]) lowerLocked(floor uint64) {
	if last := f.waiting.last(); last == nil || last.v.floor <= floor {
		return
	}
	for e := range f.waiting.backward() {
		if e.v.floor <= floor {
			return
		}
		e.v.floor = floor
	}
}

func (f *DeltaFIFO[K, T]) hash(key K) uint32 { return uint32(maphash.Comparable(f.seed, key)) }

// startLocked takes note of the first call, and reports sync when nothing is left to wait for.
func (f *DeltaFIFO[K, T]) startLocked() {
	f.started = true
	if f.initial == 0 && !f.inSync {
		f.inSync = true
		close(f.synced)
	}
}

// signal wakes the consumer.
func (f *DeltaFIFO[K, T]) signal() {
	select {
	case f.wake <- struct{}{}:
	default: // it has not taken the last token yet, and will look at the queue when it does
	}
}
