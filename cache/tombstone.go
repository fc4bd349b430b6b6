package cache

// Tombstone says that an object is gone. FinalStateUnknown is true when its deletion was missed and found out later,
// by comparing: Object is then the last state that was seen, which need not be the last that there was.
type Tombstone[K comparable, T any] struct {
	Key               K
	Object            T
	FinalStateUnknown bool
}
