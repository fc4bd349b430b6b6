package nats

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// idleInterval is the time between two yields of an idle watch: less than the allowed maximum.
const idleInterval = backend.BookmarkInterval / 2

// maxPoll is the longest time between two looks at whether a bookmark is due.
const maxPoll = time.Second

// Watch implements [backend.Backend].
func (b *Backend) Watch(
	ctx context.Context, kind string, q backend.Query, after informer.Version,
) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		w := watch{b: b, query: q, at: after, told: after, yielded: time.Now()}
		w.yield = func(c backend.Change) bool { return yield(c, nil) }
		if err := w.run(ctx, kind); err != nil && !errors.Is(err, errLeft) {
			yield(backend.Change{}, failed(ctx, fmt.Sprintf("watch %.200s", kind), err))
		}
	}
}

// errLeft means that the consumer has left its loop.
var errLeft = errors.New("the consumer has left")

// watch is the state of a Watch.
type watch struct {
	b       *Backend
	pattern string
	query   backend.Query
	yield   func(backend.Change) bool

	begin   position         // that the watch began at
	checked position         // the last one at which the watch was complete
	at      informer.Version // everything of the kind up to here was read
	reached time.Time        // when at was read
	told    informer.Version // the version that was yielded last
	yielded time.Time        // when that was
	missing uint64           // a message that the leader has and the consumer has not sent; 0 is none
	since   time.Time        // when it was missing for the first time
}

// run yields changes until something ends the watch.
func (w *watch) run(ctx context.Context, kind string) (err error) {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if w.pattern, err = w.b.subjects.kind(kind); err != nil {
		return err
	}
	if w.begin, err = w.b.position(ctx, time.Now()); err != nil {
		return err
	}
	w.at = w.begin.start(w.at)
	w.told = w.at
	if err := w.begin.expired(&w.begin, w.at); err != nil {
		return err
	}
	for {
		begun := time.Now()
		if err := w.follow(ctx); !errors.Is(err, errGap) {
			return err
		}
		select { // an immediate failure would repeat
		case <-time.After(max(0, retryPause-time.Since(begun))):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// follow yields changes as long as one consumer lasts.
func (w *watch) follow(ctx context.Context) error {
	r, err := w.b.read(ctx, uint64(w.at)+1, false, w.pattern)
	if err != nil {
		return err
	}
	defer r.close(ctx)
	w.missing = 0
	if err := w.check(ctx, time.Now()); err != nil {
		return err
	}
	poll := min(w.b.cfg.Poll, maxPoll)
	for {
		due := w.checked.asked.Add(poll)
		m, err := r.read(ctx, due)
		switch {
		case errors.Is(err, errNothing):
			m.pending = 0
		case err != nil:
			return err
		default:
			if err := w.tell(ctx, &m); err != nil {
				return err
			}
		}
		if m.pending > 0 && time.Since(w.checked.asked) < idleInterval || time.Now().Before(due) {
			continue
		}
		// The position is read before the leader is asked, so the answer covers everything up to it.
		if err := w.check(ctx, due); err != nil {
			return err
		}
		if err := w.bookmark(ctx); err != nil {
			return err
		}
	}
}

// tell yields the change of a message.
func (w *watch) tell(ctx context.Context, m *message) error {
	now := time.Now()
	if now.Sub(w.checked.asked) > w.b.trimmer.grace/2 {
		// Messages between at and this one may have been removed before this one was read.
		if err := w.check(ctx, now); err != nil {
			return err
		}
	}
	key, err := w.b.subjects.key(m.subject)
	if err != nil {
		return err
	}
	r, err := decode(key, m.sequence, m.data)
	if err != nil {
		return err
	}
	w.at, w.reached = r.Version, now
	if !w.query.Concern(&r) {
		return nil
	}
	return w.give(backend.Change{Record: r, Version: r.Version})
}

func (w *watch) give(c backend.Change) error {
	w.told, w.yielded = c.Version, time.Now()
	if !w.yield(c) {
		return errLeft
	}
	return nil
}

// check returns an error if changes after at may have been removed. It uses a position from the given time or later.
func (w *watch) check(ctx context.Context, since time.Time) error {
	at, reached := w.at, w.reached
	p, err := w.b.position(ctx, since)
	if err != nil {
		return err
	}
	if p.asked.Before(reached) { // the server may not have been at that version
		p.version = max(p.version, at)
	}
	if err := p.expired(&w.begin, at); err != nil {
		return err
	}
	w.checked = p
	return nil
}

// bookmark yields a bookmark if one is due and nothing of the kind is missing up to its version.
func (w *watch) bookmark(ctx context.Context) error {
	if version := w.checked.version; version > w.at {
		next, err := w.b.first(ctx, uint64(w.at)+1, w.pattern)
		switch {
		case err != nil:
			return err
		case next == nil || next.Sequence > uint64(version):
			w.at, w.missing = version, 0
		case next.Sequence != w.missing:
			w.missing, w.since = next.Sequence, time.Now()
		case time.Since(w.since) > missingFor:
			return fmt.Errorf("%w: version %d", errGap, w.missing)
		}
	}
	if w.told < w.at || time.Since(w.yielded) >= idleInterval {
		return w.give(backend.Change{Version: w.at})
	}
	return nil
}

// retryPause is the least time between two consumers of a watch.
const retryPause = 100 * time.Millisecond

// missingFor is how long a consumer may take to send a message that the leader has, before another consumer replaces it.
const missingFor = time.Second
