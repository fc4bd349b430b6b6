package cache

import (
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/setpoint-go/setpoint/internal/hashtable"
)

// DeltaFIFOConfig is the configuration of a [DeltaFIFO]. Its zero value can be used.
type DeltaFIFOConfig[K comparable, T any] struct {
	// KnownObjects reads the consumer's cache, usually an [Indexer]. Only the function given to Pop may write to that
	// cache. Nil means that the consumer keeps no cache. Then the queue passes on every Delete, Replace finds deletions
	// only among the waiting keys, and Resync does nothing.
	KnownObjects Reader[K, T]

	// Transform changes an object before it is queued, usually to drop unneeded fields. It is called once for each object passed to Add,
	// Update, Delete or Replace, in the goroutine of the caller and without locks. It is not called for tombstones and Syncs: their objects
	// have already been transformed. If it returns an error, the call returns an error that wraps it, and changes nothing. Nil leaves
	// objects as they are.
	Transform func(T) (T, error)

	// Equal reports whether a listed object is the same as the known one, usually by comparing versions. It is called for the
	// objects passed to Replace, after Transform, in the goroutine of the caller and without locks. Listed objects that are
	// equal to the known ones are not queued, and do not count as part of the first list. Equal requires KnownObjects. Nil
	// means that no two objects are equal.
	Equal func(known, listed T) bool
}

// validate returns an error that names each field that is wrong.
func (cfg DeltaFIFOConfig[K, T]) validate() error {
	if cfg.Equal != nil && cfg.KnownObjects == nil {
		return errors.New("DeltaFIFOConfig.Equal is set without DeltaFIFOConfig.KnownObjects")
	}
	return nil
}

// ErrClosed is returned by a [DeltaFIFO] that was closed: by Pop and TryPop when no key is waiting, and at once by the methods that add
// deltas.
var ErrClosed = errors.New("cache: delta queue is closed")

// DeltaFIFO queues changes between a source and a consumer, which usually keeps a cache. A producer adds changes. The consumer takes one
// key at a time, with all changes to the key since the key was last taken. Keys come in the order in which they were added.
//
// The queue merges the changes of a waiting key to at most two deltas: a deletion, and the last change after it. Applying
// them has the same result as applying all changes. So the queue stays small, however slow the consumer is. A waiting key that
// changes again keeps its place.
//
// Each change has a version, a number that increases with every change of the source. [DeltaFIFO.Version] is the version up to
// which everything has been processed.
//
// There may be many producers, but only one consumer at a time. All methods except Pop and TryPop are safe for concurrent use, and the
// function that processes deltas may call them.
type DeltaFIFO[K comparable, T any] struct {
	key       KeyFunc[K, T]
	seed      maphash.Seed // of all hashes of keys
	known     Reader[K, T]
	transform func(T) (T, error)
	equal     func(known, listed T) bool

	wake    chan struct{} // capacity 1; producers and Close send, without holding mu; the consumer receives
	synced  chan struct{} // closed, under mu, when HasSynced becomes true
	popping atomic.Bool   // the consumer is in Pop or TryPop

	mu        sync.Mutex                    // guards the following
	waiting   hashtable.Ordered[K, item[T]] // the waiting items; floors never fall from first to last
	current   hashtable.Node[K, item[T]]    // the item that is being processed, if any; not in waiting
	failed    hashtable.Ordered[K, uint64]  // the floors of items whose processing failed; ordered like waiting, none above its floors
	replacing int                           // the number of Replace calls that are reading known
	popped    []hashed[K]                   // keys that have been current since the first of those calls began
	seen      uint64                        // the version of the last call
	below     uint64                        // the last version before seen that was lower
	started   bool                          // a method other than Bookmark and Resync was called
	initial   int                           // the number of items of the first list that are not processed yet
	inSync    bool                          // synced is closed
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
		known:     cfg.KnownObjects,
		transform: cfg.Transform,
		equal:     cfg.Equal,
		wake:      make(chan struct{}, 1),
		synced:    make(chan struct{}),
		waiting:   hashtable.NewOrdered[K, item[T]](seed),
		failed:    hashtable.NewOrdered[K, uint64](seed),
	}, nil
}

// Add reports a new object. v is the version of the source right after the change. If v is lower than the version of the previous call,
// that version is used instead.
func (f *DeltaFIFO[K, T]) Add(obj T, v uint64) error { return f.change(Added, obj, v) }

// Update reports a changed object. Otherwise it is like Add.
func (f *DeltaFIFO[K, T]) Update(obj T, v uint64) error { return f.change(Updated, obj, v) }

// Delete reports that an object was deleted; obj is its last state. Otherwise it is like Add. If the key is not among the KnownObjects when its
// turn comes, the deletion is dropped.
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

// Resync queues a Sync for each known key that is not waiting. The queue reads the object when the consumer takes the key, so
// an old state never follows a newer one.
func (f *DeltaFIFO[K, T]) Resync() {
	if f.known == nil {
		return
	}
	defer f.signal()
	for key := range f.known.All() {
		hash := f.hash(key)
		f.mu.Lock()
		if f.waiting.Find(key, hash) == nil && !f.closed {
			// A Sync is not a change, so it should hold back the version as little as possible.
			f.enqueueLocked(key, hash, Delta[T]{Type: Sync}, f.seen)
		}
		f.mu.Unlock()
	}
}

// Len returns the number of waiting keys. The key that is being processed does not count.
func (f *DeltaFIFO[K, T]) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.waiting.Len()
}

// HasSynced reports whether the whole first list has been processed: each object, and each deletion that the list revealed. Processing that
// ended with an error counts as well. HasSynced is true at once if the first call is Add, Update or Delete, or if the first list leaves
// nothing to process: because the list and the cache are both empty, or because all objects are Equal.
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

// Version returns the version up to which every change has been processed. It is zero, or the version of a call. Changes that are waiting,
// being processed, or failed hold it back. A failed key does so until a later change to it, or a Replace, has been processed.
//
// Version falls in two cases. A Replace with a lower version than before means that the source has started a new history: Version is zero
// until all items waiting at that time have been processed. It also falls if a second change arrives with the version of the previous one.
func (f *DeltaFIFO[K, T]) Version() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.seen
	if oldest := f.waiting.First(); oldest != nil {
		v = min(v, oldest.Value.floor)
	}
	if oldest := f.failed.First(); oldest != nil {
		v = min(v, oldest.Value)
	}
	if f.current.Present {
		v = min(v, f.current.Value.floor)
	}
	return v
}

// Close closes the queue: waiting keys can still be popped, but nothing can be added. It may be called more than once.
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

// prepare runs the user functions on obj.
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

// advanceLocked records the version of a call.
func (f *DeltaFIFO[K, T]) advanceLocked(v uint64) {
	if v > f.seen {
		f.below, f.seen = f.seen, v
	}
}

// enqueueLocked adds d, the change right after version floor, to the waiting item of key.
func (f *DeltaFIFO[K, T]) enqueueLocked(key K, hash uint32, d Delta[T], floor uint64) *item[T] {
	f.lowerLocked(floor) // the floor of a waiting Sync may be the version of this change
	e, fresh := f.waiting.Push(key, hash)
	if fresh {
		e.Value.floor = floor
	}
	e.Value.add(d)
	return &e.Value
}

// lowerLocked lowers the floors of waiting items to floor.
func (f *DeltaFIFO[K, T]) lowerLocked(floor uint64) {
	if last := f.waiting.Last(); last == nil || last.Value.floor <= floor {
		return
	}
	for e := range f.waiting.Backward() {
		if e.Value.floor <= floor {
			return
		}
		e.Value.floor = floor
	}
}

func (f *DeltaFIFO[K, T]) hash(key K) uint32 { return uint32(maphash.Comparable(f.seed, key)) }

// startLocked records the first call, and closes synced if no item of the first list is left.
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
	default: // a token is already there; the consumer reads the queue after it takes that one
	}
}
