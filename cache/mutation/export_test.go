package mutation

import (
	"errors"
	"fmt"
	"time"
)

// CheckInvariants returns an error if the tables are broken, out of order or too long, or if a write is not newer than the
// deletion of its key.
func (c *Cache[K, T]) CheckInvariants() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.writes.Len(); n > c.limit {
		return fmt.Errorf("%d writes, at most %d", n, c.limit)
	}
	if n := c.deleted.Len(); n > c.limit {
		return fmt.Errorf("%d deletions, at most %d", n, c.limit)
	}
	now := time.Now()
	for e := range c.writes.All() {
		if d := c.deleted.alive(e.Key, now); d != nil && d.Value.v >= e.Value.v.version {
			return fmt.Errorf("a write of %v with version %d is left, whose deletion after %d was shown", e.Key, e.Value.v.version, d.Value.v)
		}
	}
	return errors.Join(c.writes.checkAges(), c.deleted.checkAges())
}

func (a *aging[K, V]) checkAges() error {
	var before time.Time
	for e := range a.All() {
		if e.Value.deadline.Before(before) {
			return fmt.Errorf("%v is out of order", e.Key)
		}
		before = e.Value.deadline
	}
	return a.Check()
}
