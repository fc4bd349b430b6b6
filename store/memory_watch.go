package store

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

// expiredError reports that a watch of a Memory cannot resume from a version.
type expiredError struct {
	first informer.Version // the first version from which a watch can start
	asked informer.Version // the version from which the watch had to resume
	why   string
}

func (e *expiredError) Error() string {
	return fmt.Sprintf("%v: version %d %s", backend.ErrExpired, e.asked, e.why)
}
func (e *expiredError) Unwrap() error { return backend.ErrExpired }

// Watch implements [backend.Backend]. Each loop over the result is a separate watch.
//
// A watch is a position in the history of its kind. It holds no records, and no lock while the body of the loop runs, so the body may be
// slow and may write to the Memory. A watch that falls behind by more changes than the history keeps ends with an error that wraps
// [backend.ErrExpired]. If ctx ends, the watch ends with the cause of ctx.
//
// If something has changed that the watch does not yield, it yields a bookmark: at once, but at most every 100 milliseconds. So
// writes to other kinds, however many, wake a watch ten times a second. If nothing has changed, it yields a bookmark well within
// every [backend.BookmarkInterval].
func (db *Memory) Watch(
	ctx context.Context, kind string, q backend.Query, after informer.Version,
) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		c := cursor{db: db, kind: db.kind(kind), query: &q, reached: after}
		defer c.stop()
		for {
			if ctx.Err() != nil {
				yield(backend.Change{}, context.Cause(ctx))
				return
			}
			change, ok, err := c.next()
			switch {
			case err != nil:
				yield(backend.Change{}, err)
				return
			case !ok:
				c.wait(ctx)
			case !yield(change, nil):
				return
			}
		}
	}
}

// cursor is the state of one watch.
type cursor struct {
	db    *Memory
	kind  *memoryKind
	query *backend.Query

	reached informer.Version // every change up to here was yielded or does not concern the query

	started  bool
	position int // of the next change in the history; valid once started

	pause  *time.Timer // runs since the last bookmark; nil if a bookmark may be yielded at once
	idle   *time.Timer // runs while the watch waits; nil before the first wait
	silent bool        // idle has fired: a bookmark is due in any case

	// The channels that wait selects on. The channel anyKind is nil while pause runs.
	ownKind, anyKind <-chan struct{}
}

// next returns the next change, or a bookmark. If there is none yet, it returns false, and c is ready to wait.
func (c *cursor) next() (change backend.Change, ok bool, err error) {
	c.db.mu.RLock()
	defer c.db.mu.RUnlock()
	r, err := c.nextLocked()
	if err != nil {
		return backend.Change{}, false, err
	}
	if r == nil {
		change, ok = c.idleLocked()
		return change, ok, nil
	}
	c.reached = r.Version
	return backend.Change{Record: *r, Version: r.Version}, true, nil
}

// nextLocked advances past the next change that concerns the query and returns it, or nil if there is none yet. It returns an
// error if that change was dropped.
func (c *cursor) nextLocked() (*backend.Record, error) {
	if err := c.checkLocked(); err != nil {
		return nil, err
	}
	h := &c.kind.history
	for c.position < h.next {
		r := h.at(c.position)
		c.position++
		if c.query.Concern(r) {
			return r, nil
		}
	}
	return nil, nil
}

// idleLocked returns a bookmark. If none is due, it returns false, and c is ready to wait.
func (c *cursor) idleLocked() (change backend.Change, ok bool) {
	if c.silent || c.reached < c.db.version && c.pause == nil {
		c.reached, c.silent = c.db.version, false
		if c.pause == nil {
			c.pause = time.NewTimer(bookmarkPause)
		}
		return backend.Change{Version: c.reached}, true
	}
	c.ownKind, c.anyKind = c.kind.changed.Next(), nil
	if c.pause == nil {
		c.anyKind = c.db.changed.Next()
	}
	return change, false
}

// checkLocked returns an error if the next change was dropped. The first call finds the position.
func (c *cursor) checkLocked() error {
	h := &c.kind.history
	tooOld := func() error {
		return &expiredError{h.dropped, c.reached, fmt.Sprintf("is too old, the first to start from is %d", h.dropped)}
	}
	if !c.started {
		if c.reached > c.db.version {
			return &expiredError{h.dropped, c.reached, fmt.Sprintf("is not reached, the store is at %d", c.db.version)}
		}
		position, ok := h.after(c.reached)
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
