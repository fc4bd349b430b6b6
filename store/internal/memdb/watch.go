package memdb

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// idleInterval is how long a watch waits for a change before it yields a bookmark: well within backend.BookmarkInterval.
const idleInterval = backend.BookmarkInterval / 2

// bookmarkPause is the minimum time between two bookmarks for changes that a watch does not show.
const bookmarkPause = 100 * time.Millisecond

// Step is what a watch yields: a change, or a bookmark.
type Step struct {
	Item    Item // nil in a bookmark
	Version informer.Version
}

// ExpiredError reports that a watch cannot resume from a version. It wraps [backend.ErrExpired].
type ExpiredError struct {
	First informer.Version // the first version from which a watch can start
	Asked informer.Version // the version from which the watch had to resume
	why   string
}

func (e *ExpiredError) Error() string {
	return fmt.Sprintf("%v: version %d %s", backend.ErrExpired, e.Asked, e.why)
}

func (e *ExpiredError) Unwrap() error { return backend.ErrExpired }

// Watch yields the changes of k that concern q. Each loop over the result is a separate watch.
//
// A watch is a position in the history of its kind. It holds no items, and no lock while the body of the loop runs, so the body may be slow
// and may write to the DB. A watch that falls behind by more changes than the history keeps ends with an [*ExpiredError]. If ctx ends, the
// watch ends with the cause of ctx.
//
// If something has changed that the watch does not show, it yields a bookmark: at once, but at most every 100 milliseconds. So
// writes to other kinds, however many, wake a watch ten times a second. If nothing has changed, it yields a bookmark well within
// every [backend.BookmarkInterval].
func (k *Kind) Watch(ctx context.Context, q *backend.Query, after informer.Version) iter.Seq2[Step, error] {
	return func(yield func(Step, error) bool) {
		c := cursor{db: k.db, kind: k, query: q, told: after}
		defer c.stop()
		for {
			if ctx.Err() != nil {
				yield(Step{}, context.Cause(ctx))
				return
			}
			s, ok, err := c.step()
			switch {
			case err != nil:
				yield(Step{}, err)
				return
			case !ok:
				c.wait(ctx)
			case !yield(s, nil):
				return
			}
		}
	}
}

// cursor is the state of one watch.
type cursor struct {
	db    *DB
	kind  *Kind
	query *backend.Query

	told informer.Version // every change up to here was yielded or does not concern the query

	started  bool
	position int // of the next change in the history; valid once started

	pause  *time.Timer // runs since the last bookmark; nil if a bookmark may be yielded at once
	idle   *time.Timer // runs while the watch waits; nil before the first wait
	silent bool        // idle has fired: a bookmark is due in any case

	// The channels that wait selects on. The channel anyKind is nil while pause runs.
	ownKind, anyKind <-chan struct{}
}

// step returns the next step. If there is none yet, it returns false, and c is ready to wait.
func (c *cursor) step() (s Step, ok bool, err error) {
	db := c.db
	db.mu.RLock()
	next, err := c.nextLocked()
	db.mu.RUnlock()
	if err == nil && next == nil { // only a watch that is about to wait needs the exclusive lock
		db.mu.Lock()
		if next, err = c.nextLocked(); err == nil && next == nil {
			s, ok = c.idleLocked()
			db.mu.Unlock()
			return s, ok, nil
		}
		db.mu.Unlock()
	}
	if err != nil {
		return Step{}, false, err
	}
	c.told = next.ItemVersion()
	return Step{next, c.told}, true, nil
}

// nextLocked advances past the next change that concerns the query and returns it, or nil if there is none yet. It returns an
// error if that change was dropped.
func (c *cursor) nextLocked() (Item, error) {
	if err := c.checkLocked(); err != nil {
		return nil, err
	}
	h := &c.kind.history
	for c.position < h.next {
		it := h.at(c.position)
		c.position++
		if it.Concerns(c.query) {
			return it, nil
		}
	}
	return nil, nil
}

// idleLocked returns a bookmark. If none is due, it returns false, and c is ready to wait.
func (c *cursor) idleLocked() (s Step, ok bool) {
	if c.silent || c.told < c.db.version && c.pause == nil {
		c.told, c.silent = c.db.version, false
		if c.pause == nil {
			c.pause = time.NewTimer(bookmarkPause)
		}
		return Step{Version: c.told}, true
	}
	c.ownKind, c.anyKind = c.kind.changed.waitLocked(), nil
	if c.pause == nil {
		c.anyKind = c.db.changed.waitLocked()
	}
	return s, false
}

// checkLocked returns an error if the next change was dropped. The first call finds the position.
func (c *cursor) checkLocked() error {
	h := &c.kind.history
	tooOld := func() error {
		return &ExpiredError{h.dropped, c.told, fmt.Sprintf("is too old, the first to start from is %d", h.dropped)}
	}
	if !c.started {
		if c.told > c.db.version {
			return &ExpiredError{h.dropped, c.told, fmt.Sprintf("is not reached, the store is at %d", c.db.version)}
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
