package nats

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/wait"
)

// Watch implements [informer.ListWatcher].
func (b *Bucket[T]) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[T], error] {
	return func(yield func(informer.Event[T], error) bool) {
		err := b.watchAfter(ctx, after, func(e informer.Event[T]) bool { return yield(e, nil) })
		if err != nil && !errors.Is(err, errLeft) {
			yield(informer.Event[T]{}, b.failed(ctx, "watch", err))
		}
	}
}

// watchAfter calls yield with event after event until something ends the watch.
func (b *Bucket[T]) watchAfter(ctx context.Context, after informer.Version, yield func(informer.Event[T]) bool) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p, err := b.position(ctx, time.Now())
	if err != nil {
		return err
	}
	s := &events[T]{of: b, yield: yield, has: b.memory.take(after, p.created), seen: after, verified: time.Now()}
	if errors.Is(s.has.doubt, informer.ErrNewHistory) && s.has.partial {
		return s.has.doubt
	}
	w := newWatch(watch{handle: &b.handle, subjects: []string{everything}, poll: b.cfg.Poll, replaces: true, sink: s, at: after})
	w.first = func(ctx context.Context, sequence uint64) (*jetstream.RawStreamMsg, error) {
		return b.firstAfter(ctx, sequence-1)
	}
	err = w.run(ctx)
	// A consumer that has left its loop, or whose context has ended, may not have taken the last event.
	if !errors.Is(err, errLeft) && !errors.Is(err, informer.ErrExpired) && ctx.Err() == nil && !s.has.partial {
		s.has.fresh = false
		b.memory.keep(s.seen, s.has)
	}
	return err
}

// events is the sink of a watch of a bucket.
type events[T any] struct {
	of    *Bucket[T]
	yield func(informer.Event[T]) bool
	has   *contents        // what the consumer knows
	seen  informer.Version // of the last event that it got

	counted  bucketPosition // to compare when has is of its last sequence; zero if there is none
	due      bool           // something differs: verify
	verified time.Time      // the last time
	earliest time.Time      // of the next time
}

func (s *events[T]) report(e informer.Event[T]) error {
	s.seen = e.Version
	if !s.yield(e) {
		return errLeft
	}
	return nil
}

// bookmark implements sink.
func (s *events[T]) bookmark(at informer.Version) error {
	s.count(uint64(at))
	return s.report(informer.Event[T]{Type: informer.Bookmark, Version: at})
}

// message implements sink.
func (s *events[T]) message(_ context.Context, m *message) (reported bool, err error) {
	s.count(m.sequence - 1)
	return s.tell(m, informer.Version(m.sequence))
}

// tell reports the event of a message, with a version. It returns false if there is none.
func (s *events[T]) tell(m *message, at informer.Version) (reported bool, err error) {
	had := s.has.last[m.subject]
	now := lastOf(m.sequence, m.stored, isValue(m.header))
	s.has.last[m.subject] = now
	key, ok := s.of.keyOf(m.subject)
	if !ok || !now.live() && !had.live() && !s.has.partial { // it deletes what does not exist
		return false, nil
	}
	if !now.live() {
		return true, s.deleted(key, at)
	}
	e := informer.Event[T]{Type: informer.Modified, Version: at}
	if !had.live() && !s.has.partial {
		e.Type = informer.Added
	}
	if e.Object, e.Err = s.of.object(key, m); e.Err != nil {
		var known bool
		e.Type = informer.Unreadable
		if e.Object, known = s.of.keyOnly(key); !known {
			return false, unknown(key, at, e.Err)
		}
	}
	return true, s.report(e)
}

// deleted reports the deletion of a key.
func (s *events[T]) deleted(key string, at informer.Version) error {
	obj, known := s.of.keyOnly(key)
	if !known {
		return unknown(key, at, errNoKey)
	}
	return s.report(informer.Event[T]{Type: informer.Deleted, Object: obj, KeyOnly: true, Version: at})
}

// errNoKey means that decode has returned nothing for an entry that has only a key.
var errNoKey = errors.New("it returns the zero value for a key without a value")

func unknown(key string, at informer.Version, err error) error {
	return fmt.Errorf("%w: decode does not tell the key of %q, which version %d has changed: %w", informer.ErrExpired, key, at, err)
}

// check implements sink. It also reports what has changed without a message.
func (s *events[T]) check(ctx context.Context, w *watch, since time.Time) (now informer.Version, asked time.Time, err error) {
	p, err := s.reached(ctx, w.at, w.reached, since)
	if err != nil {
		return 0, asked, err
	}
	s.counted = bucketPosition{}
	if p.last >= uint64(w.at) { // otherwise the consumer knows more
		s.counted = p
		s.count(uint64(w.at))
	}
	if time.Since(s.verified) >= s.of.cfg.Verify {
		if s.has.doubt != nil {
			return 0, asked, s.has.doubt
		}
		s.due = s.due || p.silent
	}
	if s.due && !time.Now().Before(s.earliest) {
		if err := s.verify(ctx, w.at); err != nil {
			return 0, asked, err
		}
	}
	return max(informer.Version(p.last), w.at), p.asked, nil
}

// A server that lags may answer for a bucket that it led before, or has just begun to lead. So a watch asks for some time before it takes a
// version that the bucket has not reached for one of another history.
const (
	lagPause = 200 * time.Millisecond
	lagLimit = 2 * time.Second
)

// reached returns a position from the given time or later. It returns ErrNewHistory if version at, which was read at a time, is of another history.
func (s *events[T]) reached(ctx context.Context, at informer.Version, read, since time.Time) (bucketPosition, error) {
	for begun := time.Now(); ; {
		p, err := s.of.position(ctx, since)
		switch {
		case err != nil:
			return p, err
		case !p.created.Equal(s.has.created):
			return p, fmt.Errorf("%w: the bucket was created again at %v", informer.ErrNewHistory, p.created)
		case uint64(at) <= p.last || p.asked.Before(read):
			return p, nil
		case time.Since(begun) > lagLimit:
			return p, fmt.Errorf("%w: the bucket is at version %d, not at %d", informer.ErrNewHistory, p.last, at)
		}
		if err := wait.Sleep(ctx, lagPause); err != nil {
			return p, err
		}
		since = time.Now()
	}
}

// count is called when everything up to a sequence was read, and nothing after it. It compares the number of subjects that the bucket had with
// those that the consumer knows. After a sequence, only removals change which subjects have messages up to it. So if there were fewer, some
// have vanished without a message.
func (s *events[T]) count(at uint64) {
	if s.counted.asked.IsZero() || s.counted.last > at {
		return
	}
	if s.counted.subjects < uint64(len(s.has.last)) && !s.has.partial {
		s.due = true
	}
	s.counted = bucketPosition{}
}

// began implements sink. A consumer may begin because the server was restarted, perhaps from a backup.
func (s *events[T]) began(ctx context.Context, at informer.Version) error {
	if s.has.fresh || s.has.partial {
		s.has.fresh = false
		return nil
	}
	return s.verify(ctx, at)
}

// mostSuspects is the number of differences that a watch reports by itself. If there are more, a list costs less.
const mostSuspects = 1000

// errMany means that a list costs less than the differences that verify has found.
var errMany = fmt.Errorf("%w: more than %d keys have changed without a message", informer.ErrExpired, mostSuspects)

// verify compares the last messages up to a version with what the consumer knows, and reports what has changed without a message.
func (s *events[T]) verify(ctx context.Context, at informer.Version) error {
	begun := time.Now()
	found, err := s.suspects(ctx, at)
	if err != nil {
		return err
	}
	truth := make([]*jetstream.RawStreamMsg, len(found)) // a replica that lags may have answered before, so ask the leader
	for i, subject := range found {
		if truth[i], err = s.of.lastNow(ctx, subject); err != nil {
			return err
		}
	}
	if _, err := s.reached(ctx, at, time.Time{}, time.Now()); err != nil { // or that leader lags
		return err
	}
	for i, subject := range found {
		if err := s.settle(subject, truth[i], at); err != nil {
			return err
		}
	}
	s.due, s.verified = false, time.Now()
	s.earliest = s.verified.Add(verifyShare * s.verified.Sub(begun))
	return nil
}

// verifyShare limits the load of a bucket whose markers expire all the time: it is verified for one part of the time, and not for these.
const verifyShare = 10

// suspects returns the subjects whose last message up to a version is not the one that the consumer knows, in order.
func (s *events[T]) suspects(ctx context.Context, at informer.Version) (found []string, err error) {
	now, err := s.of.snapshot(ctx, true)
	if err != nil {
		return nil, err
	}
	if !now.has.created.Equal(s.has.created) {
		return nil, fmt.Errorf("%w: the bucket was created again at %v", informer.ErrNewHistory, now.has.created)
	}
	for subject, had := range s.has.last {
		l, there := now.has.last[subject]
		switch {
		case there && (l == had || l.sequence > uint64(at)): // it is the same, or the watch will read it
		case !there && !had.live(): // a marker is gone
			delete(s.has.last, subject)
		default:
			found = append(found, subject)
		}
	}
	for subject, l := range now.has.last {
		if _, known := s.has.last[subject]; !known && l.sequence <= uint64(at) {
			found = append(found, subject)
		}
	}
	if len(found) > mostSuspects {
		return nil, errMany
	}
	slices.Sort(found)
	return found, nil
}

// settle reports what the last message of a subject says, which is nil if there is none, if the consumer knows another one.
func (s *events[T]) settle(subject string, m *jetstream.RawStreamMsg, at informer.Version) error {
	had, known := s.has.last[subject]
	if m == nil {
		delete(s.has.last, subject)
		if key, ok := s.of.keyOf(subject); ok && had.live() {
			return s.deleted(key, at)
		}
		return nil
	}
	now := lastOf(m.Sequence, m.Time, isValue(m.Header))
	switch {
	case now == had || m.Sequence > uint64(at):
		return nil
	case known && m.Sequence < had.sequence: // the one before
		_, err := s.tell(&message{subject: subject, sequence: m.Sequence, stored: m.Time, header: m.Header, data: m.Data}, at)
		return err
	}
	return fmt.Errorf("%w: the bucket has another message of version %d", informer.ErrNewHistory, m.Sequence)
}
