package informertest

import (
	"sync"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
)

// Clock is a sequence of versions that several sources share, as the kinds of one database do: see [NewSourceOn]. The zero value is at
// version 0. Several goroutines may call its methods concurrently.
type Clock struct {
	mu sync.Mutex
	// mu guards the following, and all sources on the clock.
	version informer.Version // of the last change of any source
	sources []ticker
}

// ticker is a source of any type.
type ticker interface {
	// tickLocked records that the clock has advanced to a version at which this source did not change.
	tickLocked()
}

// Version returns the version of the last change of any source.
func (c *Clock) Version() informer.Version {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

// NewSourceOn returns an empty source that shares a clock with others. Each change to one of them is a [Source.Bookmark] for all others. So
// an informer of one source reaches the version of a change to another. NewSourceOn panics if clock or key is nil.
func NewSourceOn[K comparable, T any](clock *Clock, key cache.KeyFunc[K, T]) *Source[K, T] {
	if clock == nil || key == nil {
		panic("informertest: NewSourceOn needs a clock and a key function")
	}
	s := &Source[K, T]{key: key, clock: clock, mu: &clock.mu, objects: make(map[K]T), spoiled: make(map[K]informer.Unread[T])}
	clock.mu.Lock()
	defer clock.mu.Unlock()
	clock.sources = append(clock.sources, s)
	return s
}

// advanceLocked advances to the next version, for a change to one source.
func (c *Clock) advanceLocked(of ticker) {
	c.version++
	for _, s := range c.sources {
		if s != of {
			s.tickLocked()
		}
	}
}
