package poll

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/problems"
	"github.com/setpoint-go/setpoint/wait"
)

// Source polls a list function, and compares each result with the previous one. The package documentation lists its guarantees. It is an
// [informer.ListWatcher], an [informer.Equaler], and an [informer.Bookmarker].
//
// Several goroutines may call its methods concurrently.
type Source[K comparable, T any] struct {
	list  func(context.Context) ([]T, error)
	key   cache.KeyFunc[K, T]
	cfg   Config[T]
	delay wait.Backoff

	turn  chan struct{} // capacity 1; the goroutine that put a token here may poll, and use known and order
	nudge chan struct{} // holds a token while a poll is requested

	known map[K]T // the last good list
	order []K     // the keys of known in the order in which they appeared

	mu sync.Mutex
	// mu guards the following.
	version informer.Version
	history []informer.Event[T] // the changes of the last poll that found any
	rounds  uint64              // polls that found any
	told    informer.Version    // of the last change in history
	low     informer.Version    // changes after it, or after a later version, are in history
	vague   bool                // the version of the poll before history was also reported
	due     time.Time           // of the next poll
	failure error               // of the last poll; nil if it was good
	polled  chan struct{}       // closed, with mu held, and replaced, after each poll
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

	// Valid returns an error for an object that must not be used, such as one that is half written. The error is reported with
	// the key of the object. Defaults to no check.
	Valid func(T) error

	// Version returns the version of the source, so that versions mean something to other code: a writer can tell whether a cache shows its
	// write. It is called right before each list. The list must show every change up to that version, and may show later ones. An error
	// counts as a failed poll. A version lower than an earlier one counts as the earlier one.
	//
	// Correct choices are a counter that each writer locks until its commit, the revision of an API, and the oldest open transaction of a
	// database. The greatest id or updated_at is wrong if writers overlap: see [informer.Version]. Defaults to a count of the changes that
	// this Source has found, which means nothing outside it.
	Version func(ctx context.Context) (informer.Version, error)

	// OnError is called for the bad objects of a poll, all in one error. It runs in the goroutine of a watcher or of a List. Several
	// goroutines may call OnError concurrently. Defaults to a line in the log at level Warn. If a poll fails, List and each Watch yield
	// the error, and informers pass it to informer.Config.OnError.
	OnError func(error)

	// Logger receives errors if OnError is nil. Defaults to slog.Default().
	Logger *slog.Logger
}

// New returns a source of the objects that list returns. list returns all objects that exist, and must not change them afterward. Calls of
// list do not overlap. A panic of list, key, or Config.Version counts as an error of the poll. The error of New names each field of cfg that
// is out of its bounds. New panics if list or key is nil.
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
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.OnError == nil {
		cfg.OnError = warn(cfg.Logger)
	}
	return &Source[K, T]{
		list: list, key: key, cfg: cfg,
		delay:  wait.Backoff{Duration: cfg.Interval, Jitter: cfg.Jitter},
		turn:   make(chan struct{}, 1),
		nudge:  make(chan struct{}, 1),
		polled: make(chan struct{}),
	}, nil
}

// validate returns an error that names each field that is out of its bounds.
func (cfg Config[T]) validate() error {
	if math.IsNaN(cfg.Jitter) || math.IsInf(cfg.Jitter, 1) {
		return fmt.Errorf("Config.Jitter is %v, must be a number", cfg.Jitter)
	}
	return nil
}

// warn returns an OnError that writes to log.
func warn(log *slog.Logger) func(error) {
	return func(err error) {
		attrs := []slog.Attr{slog.Any("err", err)}
		if crash := (*wait.PanicError)(nil); errors.As(err, &crash) {
			attrs = append(attrs, slog.String("stack", string(crash.Stack)))
		}
		log.LogAttrs(context.Background(), slog.LevelWarn, "poll continues after an error", attrs...)
	}
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

// List polls now, and returns the last good states of all objects that exist.
func (s *Source[K, T]) List(ctx context.Context) (informer.List[T], error) {
	list, bad, err := s.pollInTurn(ctx)
	if bad != nil {
		s.cfg.OnError(bad)
	}
	return list, err
}

// pollInTurn takes a turn and polls.
func (s *Source[K, T]) pollInTurn(ctx context.Context) (list informer.List[T], bad, err error) {
	if err := s.take(ctx); err != nil {
		return informer.List[T]{}, nil, err
	}
	defer s.give()
	items, bad, err := s.poll(ctx, false)
	if err != nil {
		return informer.List[T]{}, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return informer.List[T]{Items: items, Version: s.version}, bad, nil
}

// Equal returns the result of Config.Equal: a Source is an [informer.Equaler].
func (s *Source[K, T]) Equal(a, b T) bool { return s.cfg.Equal(a, b) }

// BookmarkPeriod returns the longest time from the end of one poll to the beginning of the next, or 0 if Config.Interval is negative: a
// Source is an [informer.Bookmarker].
func (s *Source[K, T]) BookmarkPeriod() time.Duration {
	if s.cfg.Interval <= 0 {
		return 0
	}
	longest := s.delay
	longest.Rand = func() float64 { return 1 }
	return longest.Delay(0)
}

// Watch yields the changes after a version that came from List or Watch of this Source. After a failed poll, it yields an error and goes on:
// the error has a method Continues, as [informer.ListWatcher] describes.
func (s *Source[K, T]) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[T], error] {
	return func(yield func(informer.Event[T], error) bool) {
		news, known := s.since(after)
		for known {
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
			if news, known = s.next(news.round); known && len(news.events) == 0 && news.failure == nil {
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
func (s *Source[K, T]) since(after informer.Version) (n news[T], known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = news[T]{version: s.version, round: s.rounds, polled: s.polled}
	switch {
	case after > s.told || after == s.told && !s.vague:
	case after < s.low:
		return n, false
	case s.cfg.Version == nil: // each change has its own version
		n.events = s.history[informer.Version(len(s.history))-(s.told-after):]
	default:
		n.events = s.history
	}
	return n, after <= s.version
}

// next returns the changes after those of the first round polls. It reports whether they are in the history.
func (s *Source[K, T]) next(round uint64) (n news[T], known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = news[T]{version: s.version, round: s.rounds, failure: s.failure, polled: s.polled}
	if s.rounds != round {
		n.events = s.history
	}
	return n, s.rounds <= round+1
}

// await returns nil when polled is closed. Until then, it polls whenever a poll is due or Nudge is called. Its error is the cause of ctx.
func (s *Source[K, T]) await(ctx context.Context, polled <-chan struct{}) error {
	for ctx.Err() == nil && !isClosed(polled) {
		nudged := s.idle(ctx, polled)
		if err := s.visit(ctx, polled, nudged); err != nil && ctx.Err() == nil {
			s.cfg.OnError(err)
		}
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

// visit takes a turn and polls, unless another watcher has done so in the meantime. It returns an error to report to Config.OnError.
func (s *Source[K, T]) visit(ctx context.Context, polled <-chan struct{}, nudged bool) error {
	err := s.take(ctx)
	if err == nil {
		defer s.give()
	}
	switch {
	case err != nil || ctx.Err() != nil || isClosed(polled):
		if nudged {
			s.Nudge() // for another watcher, or for this one after it has yielded what the other poll found
		}
	case nudged || s.cfg.Interval > 0 && s.untilDue() <= 0:
		_, err, _ = s.poll(ctx, nudged) // Watch yields the error of a poll that failed
	}
	return err
}

// poll lists, compares, and notes the changes. It returns the objects, and which were bad. If it fails because ctx has ended, there has
// been no poll for the others: it returns the nudge, and the next poll stays due. The caller must have the turn.
func (s *Source[K, T]) poll(ctx context.Context, nudged bool) (items []T, bad, err error) {
	select {
	case <-s.nudge: // this poll serves it
		nudged = true
	default:
	}
	var changes []informer.Event[T]
	var refused []error
	var version informer.Version
	err = wait.Call(ctx, func(ctx context.Context) (err error) {
		if s.cfg.Version != nil {
			if version, err = s.cfg.Version(ctx); err != nil {
				return fmt.Errorf("version: %w", err)
			}
		}
		listed, err := s.list(ctx)
		if err != nil {
			return err
		}
		items, changes, refused, err = s.compare(listed)
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
		s.due, s.failure = time.Now().Add(s.delay.Delay(0)), err
		defer func() {
			close(s.polled)
			s.polled = make(chan struct{})
		}()
	}
	if err != nil {
		return nil, nil, err
	}
	if len(refused) > 0 {
		bad = fmt.Errorf("poll: %w", problems.Join(refused...))
	}
	s.noteLocked(changes, version)
	return items, bad, nil
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
	s.low = s.told
	switch {
	case s.cfg.Version == nil:
		s.low = before
	case s.vague:
		s.low++ // a watcher at told may lack the changes before these
	}
	s.history, s.told, s.vague = changes, s.version, s.version == before
	s.rounds++
}

// compare returns the good states of the listed objects, their differences from the known ones, and the errors of the bad ones. If the list
// is valid, compare makes the good states known.
func (s *Source[K, T]) compare(listed []T) (items []T, changes []informer.Event[T], refused []error, err error) {
	var added []K
	items = make([]T, 0, len(listed))
	now := make(map[K]T, len(listed))
	unknown := make(map[K]struct{}) // bad, and without an earlier good state
	for _, obj := range listed {
		key := s.key(obj)
		_, good := now[key]
		if _, bad := unknown[key]; good || bad {
			return nil, nil, nil, fmt.Errorf("key %v is in the list twice", key)
		}
		old, existed := s.known[key]
		changed, err := s.judge(old, obj, existed)
		if err != nil {
			refused = append(refused, fmt.Errorf("object %v: %w", key, err))
			if !existed {
				unknown[key] = struct{}{}
				continue
			}
			obj = old
		}
		switch {
		case !existed:
			changes = append(changes, informer.Event[T]{Type: informer.Added, Object: obj})
			added = append(added, key)
		case changed:
			changes = append(changes, informer.Event[T]{Type: informer.Modified, Object: obj})
		}
		now[key] = obj
		items = append(items, obj)
	}
	s.order = slices.DeleteFunc(s.order, func(key K) bool {
		_, exists := now[key]
		if !exists {
			changes = append(changes, informer.Event[T]{Type: informer.Deleted, Object: s.known[key]})
		}
		return !exists
	})
	s.order = append(s.order, added...)
	s.known = now
	return items, changes, refused, nil
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

// isClosed reports whether ch, which never carries a value, is closed.
func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
