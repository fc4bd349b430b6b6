package store

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// idleInterval is how long a watch of a Memory waits with nothing to tell: less than it may.
const idleInterval = backend.BookmarkInterval / 2

// bookmarkPause is how often, at most, a watch of a Memory is told that something has changed that it does not show.
const bookmarkPause = 100 * time.Millisecond

// step is what a watch of a Memory comes to: an item, or a bookmark.
type step struct {
	item    item // nil in a bookmark
	version informer.Version
}

// watch yields the changes of a kind that concern q. Each loop over the result is a watch of its own.
//
// A watch is a position in the history of its kind: it holds no items, and no lock while the consumer has one, so a
// consumer may take its time, or write to the store from inside the loop. One that falls back by more than
// MemoryConfig.History changes of the kind ends with [informer.ErrExpired].
//
// When something has changed that the watch does not show, a bookmark says so: at once, but at most every 100
// milliseconds. So a busy kind wakes the watches of a quiet one ten times a second and no more. When nothing has changed,
// there is a bookmark well within every [backend.BookmarkInterval].
func (db *Memory) watch(
	ctx context.Context, k *memoryKind, q *backend.Query, after informer.Version,
) iter.Seq2[step, error] {
	return func(yield func(step, error) bool) {
		c := cursor{db: db, kind: k, query: q, told: after}
		defer c.stop()
		for {
			if ctx.Err() != nil {
				yield(step{}, context.Cause(ctx))
				return
			}
			s, ok, err := c.step()
			switch {
			case err != nil:
				yield(step{}, err)
				return
			case !ok:
				c.wait(ctx)
			case !yield(s, nil):
				return
			}
		}
	}
}

// cursor is where a watch stands.
type cursor struct {
	db    *Memory
	kind  *memoryKind
	query *backend.Query

	told informer.Version // everything up to here was yielded, or does not concern the query

	started  bool
	position int // of the next change in the history; valid once started

	pause  *time.Timer // runs since the last bookmark; nil when a bookmark may be given at once
	idle   *time.Timer // runs while the watch waits; nil before it has
	silent bool        // idle is over: a bookmark is due, whatever has happened

	// What step found to wait for. The channel anyKind is nil while there is a pause to wait for.
	ownKind, anyKind <-chan struct{}
}

// step returns the next step. False means that there is none now and that c is ready to wait.
func (c *cursor) step() (s step, ok bool, err error) {
	db := c.db
	db.mu.RLock()
	next, err := c.nextLocked()
	db.mu.RUnlock()
	if err == nil && next == nil { // only who is about to wait has to keep others out
		db.mu.Lock()
		if next, err = c.nextLocked(); err == nil && next == nil {
			s, ok = c.idleLocked()
			db.mu.Unlock()
			return s, ok, nil
		}
		db.mu.Unlock()
	}
	if err != nil {
		return step{}, false, err
	}
	c.told = next.itemVersion()
	return step{next, c.told}, true, nil
}

// nextLocked goes past the next change that concerns the query and returns it, or nil, or an error when it is not known any
// more.
func (c *cursor) nextLocked() (item, error) {
	if err := c.checkLocked(); err != nil {
		return nil, err
	}
	h := &c.kind.history
	for c.position < h.next {
		it := h.at(c.position)
		c.position++
		if it.concerns(c.query) {
			return it, nil
		}
	}
	return nil, nil
}

// idleLocked returns a bookmark, or false when c is ready to wait.
func (c *cursor) idleLocked() (s step, ok bool) {
	if c.silent || c.told < c.db.version && c.pause == nil {
		c.told, c.silent = c.db.version, false
		if c.pause == nil {
			c.pause = time.NewTimer(bookmarkPause)
		}
		return step{version: c.told}, true
	}
	c.ownKind, c.anyKind = c.kind.changed.waitLocked(), nil
	if c.pause == nil {
		c.anyKind = c.db.changed.waitLocked()
	}
	return s, false
}

// checkLocked returns an error when the next change is not known any more. The first call finds the position.
func (c *cursor) checkLocked() error {
	h := &c.kind.history
	tooOld := func() error {
		return &expiredError{h.dropped, c.told, fmt.Sprintf("is too old, the first to start from is %d", h.dropped), nil}
	}
	if !c.started {
		if c.told > c.db.version {
			return &expiredError{h.dropped, c.told, fmt.Sprintf("is not reached, the store is at %d", c.db.version), nil}
		}
		position, ok := h.after(c.told)
		if !ok {
			return tooOld()
		}
		c.started, c.position = true, position
	}
	if c.position < h.oldest {
		return tooOld()
	}
	return nil
}

// wait returns when there may be another step, or when ctx ends.
func (c *cursor) wait(ctx context.Context) {
	var pauseOver <-chan time.Time
	if c.pause != nil {
		pauseOver = c.pause.C
	}
	if c.idle == nil {
		c.idle = time.NewTimer(idleInterval)
	} else {
		c.idle.Reset(idleInterval)
	}
	select {
	case <-ctx.Done():
	case <-c.ownKind:
	case <-c.anyKind:
	case <-pauseOver:
		c.pause = nil
	case <-c.idle.C:
		c.silent = true
	}
}

// stop stops the timers.
func (c *cursor) stop() {
	for _, t := range []*time.Timer{c.pause, c.idle} {
		if t != nil {
			t.Stop()
		}
	}
}

// expiredError is ErrExpired with the reason, or with what a backend has said.
type expiredError struct {
	first, asked informer.Version
	why          string
	err          error // in the place of why
}

func (e *expiredError) Error() string {
	if e.err != nil {
		return e.err.Error()
	}
	return fmt.Sprintf("%v: version %d %s", backend.ErrExpired, e.asked, e.why)
}

func (e *expiredError) Unwrap() error { return backend.ErrExpired }
