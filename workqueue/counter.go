package workqueue

import (
	"math"
	"sync"
	"time"
)

// counter counts the failures of each key. A key that nobody forgets does not stay for ever: the counts are those of two
// periods, the present one and the one before, and when a period is over what was not touched since the one before is dropped.
// So a key is known for at least one period after its last failure, and for less than two. Memory is given up by the first
// call after that.
type counter[K comparable] struct {
	period time.Duration

	mu sync.Mutex
	// mu guards the following.
	counts map[K]int // of keys that failed in this period
	older  map[K]int // of keys that failed in the one before, and not since
	began  time.Time // this period
}

// counterFor returns a counter for delays up to longest: no key is dropped while it waits.
func counterFor[K comparable](longest time.Duration) counter[K] {
	period := time.Duration(math.MaxInt64)
	if longest < period/2 {
		period = max(time.Hour, 2*longest)
	}
	return counter[K]{period: period, began: time.Now()}
}

// add counts a failure and returns how many there were before.
func (c *counter[K]) add(key K) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turnLocked()
	n, ok := c.counts[key]
	if !ok {
		n = c.older[key]
		delete(c.older, key)
	}
	if c.counts == nil {
		c.counts = make(map[K]int)
	}
	c.counts[key] = n + 1
	return n
}

func (c *counter[K]) get(key K) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turnLocked()
	return c.counts[key] + c.older[key] // it is in one of them at most
}

func (c *counter[K]) forget(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turnLocked()
	delete(c.counts, key)
	delete(c.older, key)
}

// turnLocked begins a new period when the present one is over.
func (c *counter[K]) turnLocked() {
	over := int64(0)
	if c.period > 0 { // not so in the zero value, whose delays are 0
		over = int64(time.Since(c.began) / c.period)
	}
	switch over {
	case 0:
		return
	case 1:
		c.older, c.counts = c.counts, nil
	default:
		c.older, c.counts = nil, nil
	}
	c.began = c.began.Add(time.Duration(over) * c.period)
}
