package informer

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
	"github.com/setpoint-go/setpoint/wait"
)

// Poller is a source for something that can only be listed: it polls a list function and compares the results. It is a
// [ListWatcher], an [Equaler], and a [Bookmarker]. It polls only while it is watched.
//
// A failed poll is reported and changes nothing, and the next poll comes at its usual time. So an error never leads to a
// deletion, and [Poller.Nudge] works during an outage. A list with two objects of one key counts as a failed poll.
//
// A bad object affects no other object. If PollConfig.Valid returns an error for an object, or Valid or Equal panics, the object
// keeps its last good state. If it has none, it does not exist yet. Each poll reports its bad objects with their keys. The deletion
// of a bad object is noticed as usual.
//
// The Poller counts versions, one for each change that it finds. They mean nothing to another Poller. The changes of one poll are
// in the order of the list, followed by the deletions in the order in which the keys first appeared. After a poll without
// changes, watchers get a [Bookmark]. All watchers share the polls. A watcher that misses the changes of two polls gets
// [ErrExpired].
//
// Several goroutines may call its methods concurrently.
type Poller[K comparable, T any] struct {
	list  func(context.Context) ([]T, error)
	key   cache.KeyFunc[K, T]
	cfg   PollConfig[T]
	delay wait.Backoff

	turn  chan struct{} // capacity 1; the goroutine that has put a token here may poll, and use known and order
	nudge chan struct{} // holds a token while a poll is requested

	known map[K]T // the last good list
	order []K     // the keys of known in the order in which they appeared

	mu sync.Mutex
	// mu guards the following.
	version Version
	history []Event[T]    // the changes of the last poll that found any; the last has version
	due     time.Time     // of the next poll
	polled  chan struct{} // closed, with mu held, and replaced, after each good poll
}

// PollConfig is the configuration of a [Poller]. Its zero value can be used.
type PollConfig[T any] struct {
	// Interval is the time from the end of a poll to the next one. Defaults to 1 s. If it is negative, only Nudge polls.
	Interval time.Duration

	// Jitter extends each interval by a random fraction, up to this one, so that pollers spread out. Defaults to 0.1. If it is
	// negative, there is no jitter.
	Jitter float64

	// Equal reports whether two states of an object are the same, so that there is nothing to report. Defaults to
	// reflect.DeepEqual. If the objects carry a version, an etag, or a time of change, compare only that.
	Equal func(a, b T) bool

	// Valid returns an error for an object that must not be used, such as one that is half written. The error is reported with
	// the key of the object. Defaults to no check.
	Valid func(T) error

	// OnError is called for each poll of a watch that failed, and for the bad objects of a poll, all in one error. It runs in the
	// goroutine of a watcher, or of a List that found bad objects. (List returns other errors to its caller.) Several goroutines
	// may call OnError concurrently. Defaults to a line in the log at level Warn.
	OnError func(error)

	// Logger receives errors if OnError is nil. Defaults to slog.Default().
	Logger *slog.Logger
}

// Poll returns a source of the objects that list returns. list returns all objects that exist, and must not change them
// afterwards. Calls of list do not overlap. A panic of list or key is an error of the poll. The error of Poll names each field of
// cfg that is out of its bounds. Poll panics if list or key is nil.
func Poll[K comparable, T any](
	list func(context.Context) ([]T, error), key cache.KeyFunc[K, T], cfg PollConfig[T],
) (*Poller[K, T], error) {
	if list == nil || key == nil {
		panic("informer: Poll needs a list function and a key function")
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("informer: new poller: %w", err)
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
	return &Poller[K, T]{
		list: list, key: key, cfg: cfg,
		delay:  wait.Backoff{Duration: cfg.Interval, Jitter: cfg.Jitter},
		turn:   make(chan struct{}, 1),
		nudge:  make(chan struct{}, 1),
		polled: make(chan struct{}),
	}, nil
}

// validate returns an error that names each field that is out of its bounds.
func (cfg PollConfig[T]) validate() error {
	if math.IsNaN(cfg.Jitter) || math.IsInf(cfg.Jitter, 1) {
		return fmt.Errorf("PollConfig.Jitter is %v, must be a number", cfg.Jitter)
	}
	return nil
}

// Nudge makes a watcher poll now, without waiting for the interval. Several nudges before a poll lead to one poll. A nudge during a
// poll leads to another one, because the poll in flight may have missed the change. A nudge while there is no watcher is kept for
// the next watcher, unless a List comes first.
func (p *Poller[K, T]) Nudge() {
	select {
	case p.nudge <- struct{}{}:
	default: // one is waiting
	}
}

// List polls now, and returns the last good states of all objects that exist.
func (p *Poller[K, T]) List(ctx context.Context) (List[T], error) {
	list, bad, err := p.pollInTurn(ctx)
	if bad != nil {
		p.cfg.OnError(bad)
	}
	return list, err
}

// pollInTurn takes a turn and polls.
func (p *Poller[K, T]) pollInTurn(ctx context.Context) (list List[T], bad, err error) {
	if err := p.take(ctx); err != nil {
		return List[T]{}, nil, err
	}
	defer p.give()
	items, bad, err := p.poll(ctx)
	if err != nil {
		return List[T]{}, nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return List[T]{Items: items, Version: p.version}, bad, nil
}

// Equal returns the result of PollConfig.Equal: a Poller is an [Equaler].
func (p *Poller[K, T]) Equal(a, b T) bool { return p.cfg.Equal(a, b) }

// BookmarkPeriod returns the longest time from the end of one poll to the beginning of the next, or 0 if only Nudge polls: a
// Poller is a [Bookmarker].
func (p *Poller[K, T]) BookmarkPeriod() time.Duration {
	if p.cfg.Interval <= 0 {
		return 0
	}
	return time.Duration(float64(p.cfg.Interval) * (1 + max(p.cfg.Jitter, 0)))
}

// Watch yields the changes after a version that came from List or Watch of this Poller.
func (p *Poller[K, T]) Watch(ctx context.Context, after Version) iter.Seq2[Event[T], error] {
	return func(yield func(Event[T], error) bool) {
		for first := true; ; first = false {
			events, polled, known := p.since(after)
			if !known {
				yield(Event[T]{}, ErrExpired)
				return
			}
			if !first && len(events) == 0 {
				events = []Event[T]{{Type: Bookmark, Version: after}}
			}
			for _, ev := range events {
				if !yield(ev, nil) {
					return
				}
				after = ev.Version
			}
			if err := p.await(ctx, polled); err != nil {
				yield(Event[T]{}, err)
				return
			}
		}
	}
}

// since returns the changes after a version, and a channel that is closed after the next good poll. It reports whether
// the version is in the history.
func (p *Poller[K, T]) since(after Version) (events []Event[T], polled <-chan struct{}, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := Version(len(p.history))
	if after > p.version || after < p.version-n {
		return nil, nil, false
	}
	return p.history[n-(p.version-after):], p.polled, true
}

// await returns nil when polled is closed, for which it polls itself whenever it is time or someone nudges. Its error is
// the cause of the end of ctx.
func (p *Poller[K, T]) await(ctx context.Context, polled <-chan struct{}) error {
	for ctx.Err() == nil && !isClosed(polled) {
		nudged := p.idle(ctx, polled)
		if err := p.visit(ctx, polled, nudged); err != nil && ctx.Err() == nil {
			p.cfg.OnError(err)
		}
	}
	return context.Cause(ctx)
}

// idle waits until it is time to poll, someone nudges, polled is closed, or ctx ends.
func (p *Poller[K, T]) idle(ctx context.Context, polled <-chan struct{}) (nudged bool) {
	var due <-chan time.Time
	if p.cfg.Interval > 0 {
		timer := time.NewTimer(p.untilDue())
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-due:
	case <-p.nudge:
		nudged = true
	case <-polled:
	case <-ctx.Done():
	}
	return nudged
}

// visit takes a turn and polls, unless another watcher has done so in the meantime. It returns what is to be reported.
func (p *Poller[K, T]) visit(ctx context.Context, polled <-chan struct{}, nudged bool) error {
	err := p.take(ctx)
	if err == nil {
		defer p.give()
	}
	switch {
	case err != nil || ctx.Err() != nil || isClosed(polled):
		if nudged {
			p.Nudge() // for another watcher, or for us when we have told what the other poll found
		}
	case nudged || p.cfg.Interval > 0 && p.untilDue() <= 0:
		var bad error
		_, bad, err = p.poll(ctx)
		err = cmp.Or(err, bad)
	}
	return err
}

// poll lists, compares, and notes the changes. It returns the objects, and which were bad. Only who has the turn may call
// it.
func (p *Poller[K, T]) poll(ctx context.Context) (items []T, bad, err error) {
	select {
	case <-p.nudge: // it is served by this poll
	default:
	}
	var changes []Event[T]
	var refused []error
	err = wait.Call(ctx, func(ctx context.Context) error {
		listed, err := p.list(ctx)
		if err != nil {
			return err
		}
		items, changes, refused, err = p.compare(listed)
		return err
	})

	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = time.Now().Add(p.delay.Delay(0))
	if err != nil {
		return nil, nil, fmt.Errorf("informer: poll: %w", err)
	}
	if len(refused) > 0 {
		bad = fmt.Errorf("informer: poll: %w", errors.Join(refused...))
	}
	for i := range changes {
		p.version++
		changes[i].Version = p.version
	}
	if len(changes) > 0 {
		p.history = changes
	}
	close(p.polled)
	p.polled = make(chan struct{})
	return items, bad, nil
}

// compare returns the good states of what is listed, how they differ from what is known, and what is wrong with the
// others. It makes them known, if the list is right.
func (p *Poller[K, T]) compare(listed []T) (items []T, changes []Event[T], refused []error, err error) {
	var added []K
	items = make([]T, 0, len(listed))
	now := make(map[K]T, len(listed))
	unknown := make(map[K]struct{}) // refused, and without a good state
	for _, obj := range listed {
		key := p.key(obj)
		_, good := now[key]
		if _, bad := unknown[key]; good || bad {
			return nil, nil, nil, fmt.Errorf("key %v is in the list twice", key)
		}
		old, existed := p.known[key]
		changed, err := p.judge(old, obj, existed)
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
			changes = append(changes, Event[T]{Type: Added, Object: obj})
			added = append(added, key)
		case changed:
			changes = append(changes, Event[T]{Type: Modified, Object: obj})
		}
		now[key] = obj
		items = append(items, obj)
	}
	p.order = slices.DeleteFunc(p.order, func(key K) bool {
		_, exists := now[key]
		if !exists {
			changes = append(changes, Event[T]{Type: Deleted, Object: p.known[key]})
		}
		return !exists
	})
	p.order = append(p.order, added...)
	p.known = now
	return items, changes, refused, nil
}

// judge reports whether obj is another state than old, if there was one. It returns an error if obj is bad.
func (p *Poller[K, T]) judge(old, obj T, existed bool) (changed bool, err error) {
	err = wait.Call(context.Background(), func(context.Context) error {
		if p.cfg.Valid != nil {
			if err := p.cfg.Valid(obj); err != nil {
				return err
			}
		}
		changed = existed && !p.cfg.Equal(old, obj)
		return nil
	})
	return changed, err
}

// take waits for the turn to poll, unless ctx ends first.
func (p *Poller[K, T]) take(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// give ends the turn.
func (p *Poller[K, T]) give() { <-p.turn }

// untilDue returns the time until the next poll.
func (p *Poller[K, T]) untilDue() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Until(p.due)
}
