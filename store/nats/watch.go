package nats

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

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
		err := b.watchKind(ctx, kind, q, after, func(c backend.Change) bool { return yield(c, nil) })
		if err != nil && !errors.Is(err, errLeft) {
			yield(backend.Change{}, failed(ctx, fmt.Sprintf("watch %.200s", kind), err))
		}
	}
}

// errLeft means that the consumer has left its loop.
var errLeft = errors.New("the consumer has left")

// watchKind calls yield with change after change until something ends the watch.
func (b *Backend) watchKind(
	ctx context.Context, kind string, q backend.Query, after informer.Version, yield func(backend.Change) bool,
) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	pattern, err := b.subjects.kind(kind)
	if err != nil {
		return err
	}
	s := &records{b: b, query: q, yield: yield}
	if s.begin, err = b.position(ctx, time.Now()); err != nil {
		return err
	}
	at := s.begin.start(after)
	if err := s.begin.expired(&s.begin, at); err != nil {
		return err
	}
	w := newWatch(watch{
		handle: &b.handle, subjects: []string{pattern}, poll: b.cfg.Poll, trust: b.trimmer.grace / 2, sink: s, at: at,
		first: func(ctx context.Context, sequence uint64) (*jetstream.RawStreamMsg, error) {
			return b.first(ctx, sequence, pattern)
		},
	})
	return w.run(ctx)
}

// records is the sink of a watch of a kind.
type records struct {
	b     *Backend
	query backend.Query
	yield func(backend.Change) bool
	begin position // that the watch began at
}

// began implements sink.
func (s *records) began(context.Context, informer.Version) error { return nil }

// check implements sink.
func (s *records) check(ctx context.Context, w *watch, since time.Time) (now informer.Version, asked time.Time, err error) {
	at, reached := w.at, w.reached
	p, err := s.b.position(ctx, since)
	if err != nil {
		return 0, asked, err
	}
	if p.asked.Before(reached) { // the server may not have been at that version
		p.version = max(p.version, at)
	}
	return p.version, p.asked, p.expired(&s.begin, at)
}

// message implements sink.
func (s *records) message(_ context.Context, m *message) (reported bool, err error) {
	key, err := s.b.subjects.key(m.subject)
	if err != nil {
		return false, err
	}
	r, err := decode(key, m.sequence, m.data)
	if err != nil || !s.query.Concern(&r) {
		return false, err
	}
	return true, s.report(backend.Change{Record: r, Version: r.Version})
}

// bookmark implements sink.
func (s *records) bookmark(at informer.Version) error { return s.report(backend.Change{Version: at}) }

func (s *records) report(c backend.Change) error {
	if !s.yield(c) {
		return errLeft
	}
	return nil
}

// sink is what a watch does with what it reads. If the consumer of the watch has left, its methods return errLeft.
type sink interface {
	// began is called when a consumer on the server will send what comes after a version, and before anything of that is read.
	began(ctx context.Context, at informer.Version) error

	// check returns an error if changes after the version that the watch has reached may have been removed, or are of another history. It
	// uses a position of the stream from the given time or later, and returns its version and its time.
	check(ctx context.Context, w *watch, since time.Time) (now informer.Version, asked time.Time, err error)

	// message reports a message. It returns false if there is nothing to report.
	message(ctx context.Context, m *message) (reported bool, err error)

	// bookmark reports that everything up to a version was reported.
	bookmark(at informer.Version) error
}

// watch reads what a stream has after a version, by one consumer after another.
type watch struct {
	*handle
	subjects []string
	poll     time.Duration // how often it asks for the position
	trust    time.Duration // how long after a check nothing can be missing between two messages; 0 is forever
	replaces bool          // a message may be gone as soon as another one has its subject
	sink     sink

	// first returns the first message of the subjects at or after a sequence, or nil. The leader of the stream answers.
	first func(ctx context.Context, sequence uint64) (*jetstream.RawStreamMsg, error)

	at       informer.Version // everything up to here was read
	reached  time.Time        // when at was read
	reported informer.Version // the version that was yielded last
	yielded  time.Time        // when that was
	now      informer.Version // of the stream, at the last check
	checked  time.Time        // when the last check asked
	waiting  time.Time        // since when the leader has a message that the consumer has not sent; zero if there is none
}

// newWatch returns a watch that begins after w.at.
func newWatch(w watch) *watch {
	w.poll = min(w.poll, maxPoll)
	w.reported, w.yielded = w.at, time.Now()
	return &w
}

// run reads until something ends the watch.
func (w *watch) run(ctx context.Context) error {
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

// follow reads as long as one consumer lasts.
func (w *watch) follow(ctx context.Context) error {
	r, err := w.read(ctx, uint64(w.at)+1, false, w.subjects...)
	if err != nil {
		return err
	}
	defer r.close(ctx)
	w.waiting = time.Time{}
	if err := w.check(ctx, time.Now()); err != nil {
		return err
	}
	if err := w.sink.began(ctx, w.at); err != nil {
		return err
	}
	for {
		due := w.checked.Add(w.poll)
		m, err := r.read(ctx, due)
		switch {
		case errors.Is(err, errNothing):
			m.pending = 0
		case err != nil:
			return err
		default:
			if err := w.report(ctx, &m); err != nil {
				return err
			}
		}
		if m.pending > 0 && time.Since(w.checked) < idleInterval || time.Now().Before(due) {
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

// report reports a message.
func (w *watch) report(ctx context.Context, m *message) error {
	w.waiting = time.Time{}
	if informer.Version(m.sequence) <= w.at { // it was on its way when the leader had it no longer
		return nil
	}
	now := time.Now()
	if w.trust > 0 && now.Sub(w.checked) > w.trust {
		// Messages between at and this one may have been removed before this one was read.
		if err := w.check(ctx, now); err != nil {
			return err
		}
	}
	reported, err := w.sink.message(ctx, m)
	w.at, w.reached = informer.Version(m.sequence), now
	if reported {
		w.reported, w.yielded = w.at, time.Now()
	}
	return err
}

// check returns an error if changes after at may be missing. It uses a position from the given time or later.
func (w *watch) check(ctx context.Context, since time.Time) (err error) {
	now, asked, err := w.sink.check(ctx, w, since)
	if err == nil {
		w.now, w.checked = now, asked
	}
	return err
}

// bookmark yields a bookmark if one is due and nothing is missing up to its version.
func (w *watch) bookmark(ctx context.Context) error {
	if w.now > w.at {
		next, err := w.first(ctx, uint64(w.at)+1)
		switch {
		case err != nil:
			return err
		case next == nil || next.Sequence > uint64(w.now) && !w.replaces: // otherwise next may replace what was not read
			w.at, w.waiting = w.now, time.Time{}
		case w.waiting.IsZero(): // next may change while it waits, if another message replaces it
			w.waiting = time.Now()
		case time.Since(w.waiting) > missingFor:
			return fmt.Errorf("%w: version %d", errGap, next.Sequence)
		}
	}
	if w.reported < w.at || time.Since(w.yielded) >= idleInterval {
		w.reported, w.yielded = w.at, time.Now()
		return w.sink.bookmark(w.at)
	}
	return nil
}

// retryPause is the least time between two consumers of a watch.
const retryPause = 100 * time.Millisecond

// missingFor is how long a consumer may take to send a message that the leader has, before another consumer replaces it.
const missingFor = time.Second
