package cache

import (
	"errors"
	"iter"
)

// DeltaFIFOConfig is the configuration of a [DeltaFIFO]. Its zero value can be used.
type DeltaFIFOConfig[K comparable, T any] struct {
	// Known is what the consumer's cache holds: most often an [Indexer]. Only the function that is given to Pop may
	// write to it. Nil means that the consumer keeps nothing: every Delete is then passed on, Replace finds deletions
	// only among the keys that wait, and Resync does nothing.
	Known Known[K, T]

	// Transform changes an object before it is queued, most often to drop what nobody needs. It is called once for
	// each object that is given to Add, Update, Delete or Replace, in the goroutine of the caller and without locks. It
	// is not called for tombstones and Syncs, whose objects have been through it. When it returns an error, the caller
	// gets it and the call has changed nothing. Nil leaves objects as they are.
	Transform func(T) (T, error)

	// Equal reports whether a known object is the one that a list has, so that there is nothing to tell: most often,
	// whether their versions are the same. It is called for the objects given to Replace, after Transform, in the
	// goroutine of the caller and without locks. Objects of a list that are equal to what is known are not queued, and
	// do not count as part of the first list. It requires Known. Nil means that no object is equal to another.
	Equal func(known, listed T) bool
}

// validate returns an error that names each field that is wrong.
func (cfg DeltaFIFOConfig[K, T]) validate() error {
	if cfg.Equal != nil && cfg.Known == nil {
		return errors.New("DeltaFIFOConfig.Equal is set without DeltaFIFOConfig.Known")
	}
	return nil
}

// Known is a read-only view of the cache that a [DeltaFIFO] feeds. Its methods may be called by several goroutines at
// once, and while the cache changes. *[Indexer] is one.
type Known[K comparable, T any] interface {
	// Get returns the object with the given key.
	Get(key K) (T, bool)

	// All iterates over the objects. Each that is there from the first step to the last is yielded.
	All() iter.Seq2[K, T]
}
