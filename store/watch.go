package store

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/setpoint-go/setpoint/informer"
)

// bookmarkInterval is how often, at most, a watch is told that other kinds have changed.
const bookmarkInterval = 100 * time.Millisecond

// Watch implements [Reader]. Each loop over the result is a watch of its own, which starts at the given version.
//
// A watch is a position in the history of its kind: it holds no events, and no lock while the consumer has one, so a
// consumer may take its time, or write to the store from inside the loop. One that falls back by more than
// MemoryConfig.History changes of the kind ends with [ErrExpired].
//
// When other kinds have changed and this one has not, a Bookmark says so: at once, but at most every 100 milliseconds.
// So a busy kind wakes the watches of a quiet one ten times a second and no more, and yet who waits for a cache to reach
// the version of any write does not wait in vain.
func (s *MemoryStore[T]) Watch(
	ctx context.Context, after informer.Version,
) iter.Seq2[informer.Event[Object[T]], error] {
	return func(yield func(informer.Event[Object[T]], error) bool) {
		c := cursor[T]{store: s, version: after}
		for {
			if ctx.Err() != nil {
				yield(informer.Event[Object[T]]{}, context.Cause(ctx))
				return
			}
			e, ok, err := c.step()
			switch {
			case err != nil:
				yield(informer.Event[Object[T]]{}, err)
				return
			case !ok:
				c.wait(ctx)
			case !yield(e, nil):
				return
			}
		}
	}
}

// cursor is where a watch stands.
type cursor[T any] struct {
	store   *MemoryStore[T]
	version informer.Version // everything up to here was yielded

	started  bool
	position int // of the next change in the history; valid once started

	pause *time.Timer // runs since the last bookmark; nil when a bookmark may be given at once

	// What step found to wait for. The channel anyKind is nil while there is a pause to wait for.
	ownKind, anyKind <-chan struct{}
}

// step returns the next event. False means that there is none now and that c is ready to wait.
func (c *cursor[T]) step() (e informer.Event[Object[T]], ok bool, err error) {
	s, db := c.store, c.store.db
	db.mu.RLock()
	next, err := c.nextLocked()
	db.mu.RUnlock()
	if err == nil && next.object == nil { // only who is about to wait has to keep others out
		db.mu.Lock()
		if next, err = c.nextLocked(); err == nil && next.object == nil {
			e, ok = c.idleLocked()
			db.mu.Unlock()
			return e, ok, nil
		}
		db.mu.Unlock()
	}
	if err != nil {
		return e, false, err
	}
	c.position++
	c.version = next.object.Version
	return informer.Event[Object[T]]{Type: next.kind, Object: s.copyOf(next.object), Version: c.version}, true, nil
}

// nextLocked returns the next change, or none, or an error when it is not known any more.
func (c *cursor[T]) nextLocked() (change[T], error) {
	if err := c.checkLocked(); err != nil || c.position == c.store.history.next {
		return change[T]{}, err
	}
	return c.store.history.at(c.position), nil
}

// idleLocked returns a bookmark, or false when c is ready to wait.
func (c *cursor[T]) idleLocked() (e informer.Event[Object[T]], ok bool) {
	s, db := c.store, c.store.db
	if c.version < db.version && c.pause == nil {
		c.version = db.version
		c.pause = time.NewTimer(bookmarkInterval)
		return informer.Event[Object[T]]{Type: informer.Bookmark, Version: c.version}, true
	}
	c.ownKind, c.anyKind = s.changed.waitLocked(), nil
	if c.pause == nil {
		c.anyKind = db.changed.waitLocked()
	}
	return e, false
}

// checkLocked returns an error when the next change is not known any more. The first call finds the position.
func (c *cursor[T]) checkLocked() error {
	s := c.store
	expired := func(why string) error {
		return &Error{Op: OpWatch, Kind: s.kind, Have: s.history.dropped, Want: c.version,
			Err: fmt.Errorf("%w: version %d %s", ErrExpired, c.version, why)}
	}
	if !c.started {
		if c.version > s.db.version {
			return expired(fmt.Sprintf("is not reached, the store is at %d", s.db.version))
		}
		position, ok := s.history.after(c.version)
		if !ok {
			return expired(fmt.Sprintf("is too old, the first to start from is %d", s.history.dropped))
		}
		c.started, c.position = true, position
	}
	if c.position < s.history.oldest {
		return expired(fmt.Sprintf("is too old, the first to start from is %d", s.history.dropped))
	}
	return nil
}

// wait returns when there may be another event, or when ctx ends.
func (c *cursor[T]) wait(ctx context.Context) {
	var pauseOver <-chan time.Time
	if c.pause != nil {
		pauseOver = c.pause.C
	}
	select {
	case <-ctx.Done():
	case <-c.ownKind:
	case <-c.anyKind:
	case <-pauseOver:
		c.pause = nil
	}
}
