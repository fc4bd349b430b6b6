package cache

import (
	"errors"
	"fmt"
	"reflect"
	"time"
)

// Held returns the number of objects in memory, expired or not.
func (x *Expiring[K, T]) Held() int { return x.objs.n }

// CheckInvariants looks at the line and at the order in it.
func (x *Expiring[K, T]) CheckInvariants() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.objs.checkAges()
}

// CheckInvariants looks at the lines, at the order in them, at the limit, and that a write is newer than the deletion of its
// key.
func (o *Overlay[K, T]) CheckInvariants() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := o.writes.n; n > o.limit {
		return fmt.Errorf("%d writes, at most %d", n, o.limit)
	}
	if n := o.deleted.n; n > o.limit {
		return fmt.Errorf("%d deletions, at most %d", n, o.limit)
	}
	now := time.Now()
	for e := range o.writes.all() {
		if d := o.deleted.alive(e.key, now); d != nil && d.v.v >= e.v.v.version {
			return fmt.Errorf("a write of %v with version %d is left, whose deletion after %d was shown", e.key, e.v.v.version, d.v.v)
		}
	}
	return errors.Join(o.writes.checkAges(), o.deleted.checkAges())
}

func (a *aging[K, V]) checkAges() error {
	var before time.Time
	for e := range a.all() {
		if e.v.deadline.Before(before) {
			return fmt.Errorf("%v is out of order", e.key)
		}
		before = e.v.deadline
	}
	return a.check()
}

// check looks for every node in the way that get does.
func (l *line[K, V]) check() error {
	n, slots := 0, 0
	for e := range l.all() {
		n++
		if l.find(e.key, e.hash) != e || e.hash != l.hash(e.key) {
			return fmt.Errorf("%v is not where it belongs", e.key)
		}
	}
	there := 0
	for i := range l.nodes {
		switch e := &l.nodes[i]; {
		case e.in:
			there++
		case !reflect.ValueOf(e).Elem().IsZero():
			return fmt.Errorf("a hole keeps %v alive", e.key)
		}
	}
	for i, s := range l.slots {
		if s != 0 {
			slots++
			if e := l.nodes[uint32(s)-1]; !e.in || e.hash != uint32(s>>32) {
				return fmt.Errorf("slot %d is of %v", i, e.key)
			}
		}
	}
	if n != l.n || there != n || slots != n || len(l.nodes) != capacityOf(len(l.slots)) || len(l.slots) > max(minSlotsKept, 16*n) {
		return fmt.Errorf("%d in the ring, %d of them used, in %d slots of %d, counted as %d", there, n, slots, len(l.slots), l.n)
	}
	if n > 0 && !(l.first().in && l.last().in) {
		return fmt.Errorf("the ring begins or ends with a hole")
	}
	return nil
}
