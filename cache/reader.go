package cache

import "iter"

// KeyFunc returns the key of an object. It is called often, and concurrently. It must always return the same key for the same object.
type KeyFunc[K comparable, T any] func(T) K

// Tombstone reports that an object was deleted. If FinalStateUnknown is true, the deletion was missed and found later by comparison. Then
// Object is the last state that was seen, which may not be the last state that existed.
//
// The last state can differ in more than its version from all that were reported: one write can change an object and delete it, or move it out
// of a source that filters. Code that computes something from a deleted object, such as its owner, needs both Previous and Object.
type Tombstone[K comparable, T any] struct {
	Key               K
	Object            T
	Previous          T // the last state that an informer's handler got before; not set by other code that reports tombstones
	FinalStateUnknown bool
}

// Reader reads a cache. Code that only reads, such as a reconciler, should accept a Reader: then a test can pass a stale cache, or one that
// it filled by hand. *[Indexer], *[Snapshot], *mutation.Cache, and *informer.Informer are Readers.
//
// Several goroutines may call its methods concurrently, and while the cache changes.
type Reader[K comparable, T any] interface {
	// Get returns the object with the given key.
	Get(key K) (T, bool)

	// All iterates over the objects. It yields each object that is present from the first step to the last.
	All() iter.Seq2[K, T]
}

// IndexReader reads a cache by a value computed from its objects, as [Reader] reads it by key. *[Index] is one, and
// mutation.ByIndex returns one.
//
// Several goroutines may call All concurrently, and while the cache changes.
type IndexReader[I, K comparable, T any] interface {
	// All iterates over the objects that have the given value. It yields each object that has the value from the first
	// step to the last.
	All(value I) iter.Seq2[K, T]
}
