package poll

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"reflect"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/broadcast"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/wait"
)

// ErrUnchanged is what a list function returns instead of a list if nothing has changed since the last list that it returned: an
// API that answers an ETag with "not modified", a file whose time of change is the same. The poll succeeds, and nothing is compared. If the
// last list was refused, for a key that was in it twice, the poll fails with the same error again. Objects of it that were unread still
// are.
//
// The list function remembers what it has returned, so it belongs to one Source. It must be certain: a change that it overlooks stays
// invisible until the next list. The number of a counter that each writer locks until its commit is certain. The greatest id or updated_at is
// not: a transaction with a lower one may commit later, and a deletion leaves no trace.
var ErrUnchanged = errors.New("nothing has changed since the last list")

// Incomplete returns an error for a list function that could not read everything, such as one of several files: the function returns it
// together with the objects that it has read. missing has the reason for each record of which not even the keys could be read. The objects
// that the list lacks count as unread, not as deleted: see [informer.List]. Incomplete panics without a reason.
func Incomplete(missing ...error) error {
	if len(missing) == 0 {
		panic("poll: Incomplete called without a reason")
	}
	return &incompleteError{missing}
}

// Missing returns the reasons that were given to [Incomplete], if err is or wraps its error. Otherwise it returns nil.
func Missing(err error) []error {
	if incomplete := (*incompleteError)(nil); errors.As(err, &incomplete) {
		return incomplete.missing
	}
	return nil
}

type incompleteError struct{ missing []error }

func (e *incompleteError) Error() string {
	return "the list is incomplete: " + errors.Join(e.missing...).Error()
}
func (e *incompleteError) Unwrap() []error { return e.missing }

// Source polls a list function, and compares each result with the previous one. The package documentation lists its guarantees. It is an
// [informer.ListWatcher], an [informer.Equaler], and an [informer.Bookmarker].
//
// Several goroutines may call its methods concurrently.
type Source[K comparable, T any] struct {
	list  func(context.Context) ([]T, error)
	key   cache.KeyFunc[K, T]
	cfg   Config[T]
	delay wait.Backoff

	turn  chan struct{} // capacity 1; the goroutine that put a token here may poll, and use last and order
	nudge chan struct{} // holds a token while a poll is requested

	polled broadcast.Signal // woken after each poll

	// The objects of the last list that was not rejected; nil before the first. Used with the token, too.
	last   map[K]T                  // their last good states
	unread map[K]informer.Unread[T] // those whose current state is not good, with or without a state in last
	order  []K                      // the keys of last and unread in the order in which they appeared
	lacks  *incompleteError         // with what is missing; nil if the last list was complete

	rejected error // why the last list that the list function has returned was rejected, for ErrUnchanged; used with the token, too

	mu sync.Mutex
	// mu guards the following.
	version informer.Version
	history []informer.Event[T] // the changes of the last poll that found any
	rounds  uint64              // polls that found any
	changed informer.Version    // of the last change in history
	low     informer.Version    // changes after it, or after a later version, are in history
	vague   bool                // the version of the poll before history was also reported
	due     time.Time           // of the next poll
	slow    time.Duration       // how long a slow poll takes: the longest so far, forgotten slowly
	failure error               // of the last poll; nil if it was good
}

// Config is the configuration of a [Source]. Its zero value can be used.
type Config[T any] struct {
	// Interval is the time from the end of a poll to the next one. Defaults to 1 s. If it is negative, a watch polls only after a Nudge.
	Interval time.Duration

	// Jitter extends each interval by a random fraction, up to this one, so that sources spread out. Defaults to 0.1. A negative value
	// means no jitter.
	Jitter float64

	// Equal reports whether two states of an object are the same, so that there is nothing to report. Defaults to
	// reflect.DeepEqual. If the objects carry a version, an etag, or a time of change, compare only that.
	Equal func(a, b T) bool

	// Valid returns an error for an object that must not be used, such as one that is half written. The object is unread then: see
	// [informer.Informer.Unread]. Defaults to no check.
	Valid func(T) error

	// Version returns the version of the source, so that versions mean something to other code: a writer can tell whether a cache shows its
	// write. It is called right before each list. The list must show every change up to that version, and may show later ones. An error
	// counts as a failed poll. A version lower than an earlier one counts as the earlier one.
	//
	// Correct choices are a counter that each writer locks until its commit, the revision of an API, and the oldest open transaction of a
	// database. The greatest id or updated_at is wrong if writers overlap: see [informer.Version]. Defaults to a count of the changes that
	// this Source has found, which means nothing outside it.
	Version func(ctx context.Context) (informer.Version, error)
}

// New returns a source of the objects that list returns. list returns all objects that exist, and must not change them afterward, or it
// returns [ErrUnchanged], or an error made by [Incomplete] with the objects that it could read. Calls of list do not overlap. A panic of
// list, key, or Config.Version counts as an error of the poll. The error of New names each field of cfg that is out of its bounds. New
// panics if list or key is nil.
func New[K comparable, T any](
	list func(context.Context) ([]T, error), key cache.KeyFunc[K, T], cfg Config[T],
) (*Source[K, T], error) {
	if list == nil || key == nil {
		panic("poll: New needs a list function and a key function")
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("poll: new source: %w", err)
	}
	cfg.Interval = cmp.Or(cfg.Interval, time.Second)
	cfg.Jitter = cmp.Or(cfg.Jitter, 0.1)
	if cfg.Equal == nil {
		cfg.Equal = func(a, b T) bool { return reflect.DeepEqual(a, b) }
	}
	return &Source[K, T]{
		list: list, key: key, cfg: cfg,
		delay: wait.Backoff{Duration: cfg.Interval, Jitter: cfg.Jitter},
		turn:  make(chan struct{}, 1),
		nudge: make(chan struct{}, 1),
	}, nil
}

// validate returns an error that names each field that is out of its bounds.
func (cfg Config[T]) validate() error {
	if math.IsNaN(cfg.Jitter) || math.IsInf(cfg.Jitter, 1) {
		return fmt.Errorf("Config.Jitter is %v, must be a number", cfg.Jitter)
	}
	return nil
}

// Nudge makes a watcher poll now, without waiting for the interval. Several nudges before a poll lead to one poll. A nudge during a
// poll leads to another one, because the poll in flight may have missed the change. A nudge while there is no watcher is kept for
// the next watcher, unless a List comes first.
func (s *Source[K, T]) Nudge() {
	select {
	case s.nudge <- struct{}{}:
	default: // a nudge is already pending
	}
}

// List polls now, and returns the last good states of all objects that exist. An object whose current state is not good is among the Unread
// too.
func (s *Source[K, T]) List(ctx context.Context) (informer.List[T], error) {
	if err := s.take(ctx); err != nil {
		return informer.List[T]{}, err
	}
	defer s.give()
	if err := s.poll(ctx, false); err != nil {
		return informer.List[T]{}, err
	}
	list := informer.List[T]{Items: make([]T, 0, len(s.order))}
	if s.lacks != nil {
		list.Missing = s.lacks.missing
	}
	for _, key := range s.order {
		if obj, ok := s.last[key]; ok {
			list.Items = append(list.Items, obj)
		}
		if u, ok := s.unread[key]; ok {
			list.Unread = append(list.Unread, u)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list.Version = s.version
	return list, nil
}

// Equal returns the result of Config.Equal: a Source is an [informer.Equaler].
func (s *Source[K, T]) Equal(a, b T) bool { return s.cfg.Equal(a, b) }

// BookmarkPeriod returns the longest time from the end of one poll to the end of the next, or 0 if Config.Interval is negative: a Source is
// an [informer.Bookmarker]. That is the longest interval, and the time that a slow poll takes. The Source measures it: it is the time of the
// longest successful poll so far, of which each later poll forgets a sixteenth. So a poll that suddenly takes much longer than all before may
// look like one that hangs, until it has succeeded.
func (s *Source[K, T]) BookmarkPeriod() time.Duration {
	if s.cfg.Interval <= 0 {
		return 0
	}
	longest := s.delay
	longest.Rand = func() float64 { return 1 }
	interval := longest.Delay(0)
	s.mu.Lock()
	defer s.mu.Unlock()
	return interval + min(s.slow, math.MaxInt64-interval)
}

// Watch yields the changes after a version that came from List or Watch of this Source. After a failed poll, it yields an error and goes on:
// the error has a method Continues, as [informer.ListWatcher] describes.
func (s *Source[K, T]) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[T], error] {
	return func(yield func(informer.Event[T], error) bool) {
		news, ok := s.since(after)
		for ok {
			for _, ev := range news.events {
				if !yield(ev, nil) {
					return
				}
			}
			if news.failure != nil && !yield(informer.Event[T]{}, failure{news.failure}) {
				return
			}
			if err := s.await(ctx, news.polled); err != nil {
				yield(informer.Event[T]{}, err)
				return
			}
			if news, ok = s.next(news.round); ok && len(news.events) == 0 && news.failure == nil {
				news.events = []informer.Event[T]{{Type: informer.Bookmark, Version: news.version}}
			}
		}
		yield(informer.Event[T]{}, fmt.Errorf("poll: watch: %w", informer.ErrExpired))
	}
}

// failure is the error of a poll that failed. The watch goes on.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }
func (failure) Continues() bool { return true }

// news is the changes that a watcher has not yielded yet.
type news[T any] struct {
	events  []informer.Event[T]
	version informer.Version
	round   uint64          // the changes of this many polls are included
	failure error           // of the last poll, if the watcher has waited for it
	polled  <-chan struct{} // closed after the next poll
}

// since returns the changes after a version. It reports whether they are in the history.
func (s *Source[K, T]) since(after informer.Version) (n news[T], ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = news[T]{version: s.version, round: s.rounds, polled: s.polled.Next()}
	switch {
	case after > s.changed || after == s.changed && !s.vague:
	case after < s.low:
		return n, false
	case s.cfg.Version == nil: // each change has its own version
		n.events = s.history[informer.Version(len(s.history))-(s.changed-after):]
	default:
		n.events = s.history
	}
	return n, after <= s.version
}

// next returns the changes after those of the first round polls. It reports whether they are in the history.
func (s *Source[K, T]) next(round uint64) (n news[T], ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = news[T]{version: s.version, round: s.rounds, failure: s.failure, polled: s.polled.Next()}
	if s.rounds != round {
		n.events = s.history
	}
	return n, s.rounds <= round+1
}

// await returns nil when polled is closed. Until then, it polls whenever a poll is due or Nudge is called. Its error is the cause of ctx.
func (s *Source[K, T]) await(ctx context.Context, polled <-chan struct{}) error {
	for ctx.Err() == nil && !broadcast.IsClosed(polled) {
		nudged := s.idle(ctx, polled)
		s.visit(ctx, polled, nudged)
	}
	return context.Cause(ctx)
}

// idle waits until a poll is due, Nudge is called, polled is closed, or ctx ends.
func (s *Source[K, T]) idle(ctx context.Context, polled <-chan struct{}) (nudged bool) {
	var due <-chan time.Time
	if s.cfg.Interval > 0 {
		timer := time.NewTimer(s.untilDue())
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-due:
	case <-s.nudge:
		nudged = true
	case <-polled:
	case <-ctx.Done():
	}
	return nudged
}

// visit takes a turn and polls, unless another watcher has done so in the meantime.
func (s *Source[K, T]) visit(ctx context.Context, polled <-chan struct{}, nudged bool) {
	err := s.take(ctx)
	if err == nil {
		defer s.give()
	}
	switch {
	case err != nil || ctx.Err() != nil || broadcast.IsClosed(polled):
		if nudged {
			s.Nudge() // for another watcher, or for this one after it has yielded what the other poll found
		}
	case nudged || s.cfg.Interval > 0 && s.untilDue() <= 0:
		_ = s.poll(ctx, nudged) // Watch yields the error of a poll that failed
	}
}

// poll lists, compares, and notes the changes. If it fails because ctx has ended, there has been no poll for the others: it returns the
// nudge, and the next poll stays due. The caller must have the turn.
func (s *Source[K, T]) poll(ctx context.Context, nudged bool) (err error) {
	select {
	case <-s.nudge: // this poll serves it
		nudged = true
	default:
	}
	var changes []informer.Event[T]
	var turned bool
	var version informer.Version
	began := time.Now()
	err = wait.Call(ctx, func(ctx context.Context) (err error) {
		if s.cfg.Version != nil {
			if version, err = s.cfg.Version(ctx); err != nil {
				return fmt.Errorf("version: %w", err)
			}
		}
		listed, err := s.list(ctx)
		missing := Missing(err)
		switch {
		case errors.Is(err, ErrUnchanged):
			if err = s.rejected; err == nil && s.last == nil {
				err = errors.New("the first list cannot be unchanged")
			}
		case err == nil || missing != nil:
			was := s.lacks != nil
			changes, err = s.adopt(ctx, listed, missing)
			turned = err == nil && was != (s.lacks != nil)
		}
		return err
	})

	s.mu.Lock()
	defer s.mu.Unlock()
	cut := err != nil && ctx.Err() != nil
	if cut && nudged {
		s.Nudge()
	}
	if err != nil {
		err = fmt.Errorf("poll: list: %w", err)
	}
	if !cut {
		pause := s.delay.Delay(0)
		if requested, ok := retry.Delay(err); ok {
			pause = max(pause, requested)
		}
		s.due, s.failure = time.Now().Add(pause), err
		defer s.polled.Wake()
	}
	if err != nil {
		return err
	}
	s.slow = max(time.Since(began), s.slow-s.slow/16)
	s.noteLocked(changes, version)
	if turned {
		s.expireLocked()
	}
	return nil
}

// expireLocked ends the watches, because only a list says whether records are missing. With Config.Version, a watch that begins later at the
// same version is not ended.
func (s *Source[K, T]) expireLocked() {
	s.rounds += 2
	if s.cfg.Version == nil {
		s.version++
		s.history, s.changed, s.low, s.vague = nil, s.version, s.version, false
	}
}

// noteLocked stores the changes that a poll found, and the version of the source right before it.
func (s *Source[K, T]) noteLocked(changes []informer.Event[T], version informer.Version) {
	before := s.version
	if s.cfg.Version == nil {
		version = before + informer.Version(len(changes))
	}
	s.version = max(before, version)
	if len(changes) == 0 {
		return
	}
	for i := range changes {
		changes[i].Version = before
		if s.cfg.Version == nil {
			changes[i].Version += informer.Version(i + 1)
		}
	}
	changes[len(changes)-1].Version = s.version
	s.low = s.changed
	switch {
	case s.cfg.Version == nil:
		s.low = before
	case s.vague:
		s.low++ // a watcher at changed may lack the changes before these
	}
	s.history, s.changed, s.vague = changes, s.version, s.version == before
	s.rounds++
}

// adopt compares what was listed, and remembers whether it was rejected.
func (s *Source[K, T]) adopt(ctx context.Context, listed []T, missing []error) (changes []informer.Event[T], err error) {
	s.rejected = wait.Call(ctx, func(context.Context) (err error) { // the key function may panic
		changes, err = s.compare(listed, missing)
		return err
	})
	return changes, s.rejected
}

// compare returns the differences between a list and the last one. If the list is valid, it becomes the last one.
func (s *Source[K, T]) compare(listed []T, missing []error) (changes []informer.Event[T], err error) {
	var added []K
	last, unread := make(map[K]T, len(listed)), make(map[K]informer.Unread[T])
	spoil := func(key K, obj T, err error) {
		if before, was := s.unread[key]; !was || !sameReason(before.Err, err) {
			changes = append(changes, informer.Event[T]{Type: informer.Unreadable, Object: obj, Err: err})
		}
		unread[key] = informer.Unread[T]{Object: obj, Err: err}
		if old, existed := s.last[key]; existed {
			last[key] = old
		}
	}
	seen := make(map[K]struct{}, len(listed))
	for _, obj := range listed {
		key := s.key(obj)
		if _, twice := seen[key]; twice {
			return nil, fmt.Errorf("key %v is in the list twice", key)
		}
		seen[key] = struct{}{}
		old, existed := s.last[key]
		_, was := s.unread[key]
		if !existed && !was {
			added = append(added, key)
		}
		changed, err := s.judge(old, obj, existed)
		if err != nil {
			spoil(key, obj, err)
			continue
		}
		last[key] = obj
		switch {
		case !existed:
			changes = append(changes, informer.Event[T]{Type: informer.Added, Object: obj})
		case changed || was:
			changes = append(changes, informer.Event[T]{Type: informer.Modified, Object: obj})
		}
	}
	var lacks *incompleteError
	if len(missing) > 0 {
		lacks = &incompleteError{missing}
		if s.lacks != nil && s.lacks.Error() == lacks.Error() {
			lacks = s.lacks
		}
	}
	order := make([]K, 0, len(s.order)+len(added))
	for _, key := range s.order {
		_, exists := seen[key]
		obj, good := s.last[key]
		switch {
		case exists:
		case lacks != nil:
			if !good {
				obj = s.unread[key].Object
			}
			spoil(key, obj, lacks)
		case good:
			changes = append(changes, informer.Event[T]{Type: informer.Deleted, Object: obj})
			continue
		default:
			changes = append(changes, informer.Event[T]{Type: informer.Deleted, Object: s.unread[key].Object, KeyOnly: true})
			continue
		}
		order = append(order, key)
	}
	s.last, s.unread, s.order, s.lacks = last, unread, append(order, added...), lacks
	return changes, nil
}

// sameReason reports whether two errors have the same text. The text of an incomplete list may be long, and the keys that it lacks many.
func sameReason(a, b error) bool {
	if a, ok := a.(*incompleteError); ok {
		if b, ok := b.(*incompleteError); ok {
			return a == b // compare keeps the earlier one of two with the same text
		}
	}
	return a.Error() == b.Error()
}

// judge reports whether obj differs from old, if old existed. It returns an error if obj is bad.
func (s *Source[K, T]) judge(old, obj T, existed bool) (changed bool, err error) {
	err = wait.Call(context.Background(), func(context.Context) error {
		if s.cfg.Valid != nil {
			if err := s.cfg.Valid(obj); err != nil {
				return err
			}
		}
		changed = existed && !s.cfg.Equal(old, obj)
		return nil
	})
	return changed, err
}

// take waits for the turn to poll, unless ctx ends first.
func (s *Source[K, T]) take(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// give releases the turn.
func (s *Source[K, T]) give() { <-s.turn }

// untilDue returns the time until the next poll.
func (s *Source[K, T]) untilDue() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Until(s.due)
}
