package informer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/wait"
)

// shortWatch is the time that a watch without events must last. A shorter watch counts as an error.
const shortWatch = time.Second

// reflector reads a source into the event buffer. One goroutine uses it: that of run, or the caller of [Steps.Read].
//
//	+------+ ok                              +-------+
//	| list | ------------------------------> | watch | --+ ended: go on from seen
//	|      | <------------------------------ |       | <-+ error, or no use: report, back off, go on from seen
//	+------+  ErrExpired: at once, but not   +-------+
//	 |    ^   right after another list
//	 +----+ error, or older than seen: report, back off
//
// After ErrNewHistory, the list may be of any version. When slots join those that are held, the reflector lists only these, and the watch
// goes on from seen with all of them.
//
// Invariants:
//
//  1. seen never decreases, except after a request to start over, or ErrNewHistory.
//  2. The buffer has everything up to seen: seen changes after the buffer has accepted an input.
type reflector[K comparable, T any] struct {
	src      ListWatcher[T]
	pages    func(context.Context) iter.Seq2[List[T], error] // the list of src
	key      cache.KeyFunc[K, T]
	buffer   *buffer[K, T]
	progress *progress
	catchUps *catchUps
	cfg      Config
	slots    *slots[K, T] // nil unless the source is divided

	// Other goroutines make requests: they set one, then call interrupt.
	relist    atomic.Bool   // list again
	hold      atomic.Bool   // list the slots that are held, and were not listed
	anew      atomic.Bool   // forget what was seen, and list again
	resets    atomic.Uint64 // the number of new histories that were requested, or that a watch has noticed
	interrupt atomic.Pointer[context.CancelFunc]

	// Other goroutines hurry the next attempt: they set hurried, then call awake.
	hurried atomic.Bool // leave out the delay after this step
	awake   atomic.Pointer[context.CancelFunc]

	// Set before the slots that were dropped are read, so that a drop is seen or can interrupt the turn.
	watches atomic.Bool // the turn is a watch, or will be
	joining atomic.Bool // it lists slots that join

	current  bool      // the last list is valid; false if a new one is needed
	joins    bool      // slots may have joined since the last list
	starts   bool      // the next list begins a new history
	counted  requests  // so far, when the turn began
	listed   time.Time // when the last list arrived
	seen     Version   // watch from here
	joined   Version   // of the last list of slots that joined
	failures int       // errors since the last success
	expiries int       // watches that expired since an event last changed seen, plus one if any expired before
	reading  bool      // in a turn; if it is set when a turn begins, the source ended the goroutine of the previous one
	wants    []int     // the slots that were held when the turn began; in ascending order
	has      []int     // the slots that were listed, except those that were dropped since; in ascending order

	reader *reader // of Steps; nil in Run
}

// run lists and watches until ctx ends. If the source ends the goroutine by runtime.Goexit, run calls again, which starts another
// one.
func (r *reflector[K, T]) run(ctx context.Context, again func()) {
	ended := false
	defer func() {
		if !ended {
			again()
		}
	}()
	for ctx.Err() == nil {
		exited := r.reading
		r.reading = !exited
		r.turn(ctx, exited)
		r.reading = false
	}
	ended = true
}

// turn takes a step and waits for its delay. A request cuts both short. If the goroutine of the last turn has exited, turn backs off as after
// an error, and then reports that: so there is a pause even if OnError ends the goroutine too.
func (r *reflector[K, T]) turn(all context.Context, exited bool) {
	ctx, cancel := context.WithCancel(all) // a request, or the end of a Read, ends a turn
	defer cancel()
	r.interrupt.Store(&cancel) // before the requests are read, so that each is seen here or interrupts the step
	if exited {
		if !r.relist.Load() && !r.hold.Load() && !r.anew.Load() {
			_ = wait.Sleep(ctx, r.cfg.Backoff.Delay(r.failures))
		}
		_ = r.after(all, "read", errExit) // also after a request; after notices the end of all
		return
	}
	if r.relist.Swap(false) {
		r.current = false
	}
	if r.hold.Swap(false) {
		r.joins = true
	}
	// The calls are counted after their requests were taken, or else this turn would take a request of a call that it does not serve. It is the
	// other way round for a new history: this turn must not claim one that it does not begin.
	r.counted = requests{resets: r.resets.Load(), lists: r.catchUps.lists.calls.Load(), holds: r.catchUps.holds.calls.Load()}
	if r.anew.Swap(false) {
		r.forget()
		r.failures, r.expiries = 0, 0
	}
	dropped := false
	if r.slots.shared() {
		r.watches.Store(r.current && !r.joins)
		r.joining.Store(r.current && r.joins)
		var err error
		if dropped, err = r.drop(all); err != nil {
			return
		}
	}
	if r.reader != nil {
		r.reader.bind(cancel)
		if dropped {
			r.reader.pause(true)
		}
		lists := !r.current || r.joins
		r.step(ctx)
		if ctx.Err() == nil || r.reader.ctx.Err() != nil { // after a request, the same Read continues
			r.reader.pause(lists && r.current && !r.joins) // the next Read begins the next turn
		}
		return
	}
	r.hurried.Store(false) // this step is the attempt
	delay := r.step(ctx)
	rest, end := context.WithCancel(ctx)
	defer end()
	r.awake.Store(&end) // before hurried is read, so that each call is seen here or ends the sleep
	if !r.hurried.Load() {
		_ = wait.Sleep(rest, delay) // run notices the end of ctx
	}
}

// hurry leaves out the delay before the next attempt. It does not interrupt an attempt in progress: if many callers did that, no attempt might ever
// succeed.
func (r *reflector[K, T]) hurry() {
	r.hurried.Store(true)
	if awake := r.awake.Load(); awake != nil {
		(*awake)()
	}
}

// request sets a request, and interrupts the turn.
func (r *reflector[K, T]) request(what *atomic.Bool) {
	what.Store(true)
	r.retry()
}

// retry interrupts the turn: the next attempt begins at once.
func (r *reflector[K, T]) retry() {
	if interrupt := r.interrupt.Load(); interrupt != nil {
		(*interrupt)()
	}
}

// step lists once, or watches until the watch ends. It returns the time to wait before the next step.
func (r *reflector[K, T]) step(ctx context.Context) time.Duration {
	if !r.current || r.joins {
		err := wait.Call(ctx, r.list)
		delay, reported := r.after(ctx, "list", err), time.Now()
		if older := (*olderError)(nil); errors.As(err, &older) && r.hasNewHistory(ctx, delay) {
			r.beginHistory()
			return 0
		}
		return max(delay-time.Since(reported), 0)
	}
	began, from := time.Now(), r.seen
	err := r.watching(ctx)
	switch {
	case errors.Is(err, ErrExpired):
		if errors.Is(err, ErrNewHistory) {
			r.beginHistory()
		}
		return r.expired()
	case err != nil && ctx.Err() == nil && r.seen < r.joined:
		r.current = false // if the history is another one when the watch goes on, its versions up to joined do not tell
	case err == nil && r.seen == from && time.Since(began) < shortWatch:
		err = errShortWatch
	}
	return r.after(ctx, "watch", err)
}

// beginHistory makes the next list begin a new history, which the source has begun.
func (r *reflector[K, T]) beginHistory() {
	r.forget()
	r.resets.Add(1)
}

// forget makes the next list begin a new history.
func (r *reflector[K, T]) forget() {
	r.current, r.starts, r.seen, r.joined = false, true, 0, 0
}

// newest returns the version of the newest thing that was read.
func (r *reflector[K, T]) newest() Version { return max(r.seen, r.joined) }

// hasNewHistory asks the source, whose list is older than what was seen, whether it has begun a new history. A replica that lags has not. The
// first thing that a watch yields says so. It may take as long as the delay before the next list.
func (r *reflector[K, T]) hasNewHistory(ctx context.Context, limit time.Duration) (has bool) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_ = wait.Call(ctx, func(ctx context.Context) error { // a panic is no answer
		for _, err := range r.src.Watch(ctx, r.newest()) {
			has = errors.Is(err, ErrNewHistory)
			break
		}
		return nil
	})
	return has
}

// watching watches, and records that a watch is open.
func (r *reflector[K, T]) watching(ctx context.Context) error {
	r.progress.watching(true)
	defer r.progress.watching(false) // also if the source ends the goroutine
	return wait.Call(ctx, r.watch)
}

// list puts the content of the source into the buffer, after the last page has arrived: only that of the slots that have joined, if the last list
// is valid.
func (r *reflector[K, T]) list(ctx context.Context) error {
	c := &content[K, T]{starts: r.starts, requests: r.counted}
	pages := r.pages
	if r.slots.shared() {
		slots, joining := r.wants, slotsWithout(r.wants, r.has)
		if r.current {
			c.partial, c.slots, slots = true, joining, joining
		}
		c.joins = r.slots.isIn(joining)
		pages = r.pagesIn(slots)
	}
	if c.partial && len(c.slots) == 0 { // all were listed, or are not held anymore
		if err := r.buffer.put(ctx, input[K, T]{version: r.seen, list: c}); err != nil {
			return err
		}
		r.joins = false
		return nil
	}
	var version Version
	for list, err := range pages(ctx) {
		if err == nil {
			err = samePages(len(c.pages), version, list.Version)
		}
		switch {
		case err != nil:
			return err
		case list.Version < r.newest():
			return &olderError{list.Version, r.newest()}
		}
		version = list.Version
		c.add(list.Items, r.keyOf)
		for _, u := range list.Unread {
			c.unread = append(c.unread, unreadKey[K]{r.keyOf(u.Object), cmp.Or(u.Err, errNoReason)})
		}
		c.missing = append(c.missing, list.Missing...)
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx) // so the list may be incomplete
	case len(c.pages) == 0:
		return errNoPage
	}
	if c.partial && len(c.unread)+len(c.missing) > 0 {
		r.current = false // they may be in any slot, and have changed since seen
		return r.list(ctx)
	}
	c.version = version
	at := version
	if c.partial {
		at = r.seen
	}
	if err := r.buffer.put(ctx, input[K, T]{version: at, list: c}); err != nil {
		return err
	}
	if !c.partial {
		r.listed = time.Now()
	}
	r.current, r.joins, r.starts, r.seen, r.joined, r.failures, r.has = true, false, false, at, version, 0, r.wants
	r.progress.listed()
	return nil
}

// pagesIn returns the list of the objects in slots.
func (r *reflector[K, T]) pagesIn(slots []int) func(context.Context) iter.Seq2[List[T], error] {
	return func(ctx context.Context) iter.Seq2[List[T], error] {
		if len(slots) > 0 || r.catchUps.source == nil {
			has := r.slots.set(slots)
			if r.slots.ranges != nil {
				if pages := r.slots.source.inRanges(ctx, r.slots.rangesOf(slots), has); pages != nil {
					return pages
				}
			}
			return pagesOf(r.slots.source.in(has))(ctx)
		}
		return func(yield func(List[T], error) bool) {
			version, err := r.catchUps.source.LatestVersion(ctx)
			yield(List[T]{Version: version}, err)
		}
	}
}

// drop puts the slots that were dropped since it was last called into the buffer, and sets wants. So no event of theirs follows. It reports
// whether there were any.
func (r *reflector[K, T]) drop(ctx context.Context) (dropped bool, err error) {
	var slots, gone []int
	r.wants, gone = r.slots.take()
	for _, slot := range gone {
		if i, had := slices.BinarySearch(r.has, slot); had {
			r.has = slices.Delete(slices.Clone(r.has), i, i+1)
			slots = append(slots, slot)
		}
	}
	if len(slots) == 0 {
		return false, nil
	}
	return true, r.buffer.put(ctx, input[K, T]{version: r.seen, drop: slots})
}

// watch puts the events after seen into the buffer until the watch ends.
func (r *reflector[K, T]) watch(ctx context.Context) error {
	var events iter.Seq2[Event[T], error]
	if r.slots.shared() {
		events = r.slots.watch(ctx, r.seen, r.has)
	} else {
		events = r.src.Watch(ctx, r.seen)
	}
	for ev, err := range events {
		if err != nil && !continues(err) {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			r.progress.failed(err, true)
			r.cfg.OnError(fmt.Errorf("informer: watch %s: %w", r.cfg.Name, err))
			r.reader.pause(false)
			continue
		}
		if ev.Version < r.seen {
			return fmt.Errorf("the event is of version %d, but version %d was seen", ev.Version, r.seen)
		}
		in := input[K, T]{kind: ev.Type, version: ev.Version}
		switch ev.Type {
		case Added, Modified, Deleted:
			in.key, in.object, in.keyOnly = r.keyOf(ev.Object), ev.Object, ev.KeyOnly
		case Unreadable:
			in.key, in.err = r.keyOf(ev.Object), cmp.Or(ev.Err, errNoReason)
		case Bookmark:
		default:
			return fmt.Errorf("the event of version %d has an unknown type: %d", ev.Version, ev.Type)
		}
		if err := r.buffer.put(ctx, in); err != nil {
			return err
		}
		if ev.Version > r.seen {
			r.seen, r.expiries = ev.Version, min(r.expiries, 1)
		}
		r.failures = 0
		r.progress.answered()
		r.reader.pause(true)
	}
	return nil
}

// continues reports whether the watch that has yielded err goes on: see [ListWatcher].
func continues(err error) bool {
	var c interface{ Continues() bool }
	return errors.As(err, &c) && c.Continues()
}

// keyOf returns the key of an object. It panics if the key is not equal to itself (a NaN), because no lookup could find it.
func (r *reflector[K, T]) keyOf(obj T) K {
	key := r.key(obj)
	if key != key { // this also panics for an interface whose value cannot be compared
		panic("informer: a key is not equal to itself")
	}
	return key
}

// after reports the error of a step, and returns the delay after it.
func (r *reflector[K, T]) after(ctx context.Context, verb string, err error) time.Duration {
	if ctx.Err() != nil {
		return 0 // the error is due to the end of ctx
	}
	if err == nil {
		r.failures = 0
		return 0
	}
	r.failures++
	r.progress.failed(err, false)
	r.cfg.OnError(fmt.Errorf("informer: %s %s: %w", verb, r.cfg.Name, err))
	return r.cfg.Backoff.Delay(r.failures - 1)
}

// expired requests a list, and returns the delay before it: none the first time. After that, the time between two lists is at least
// a delay of the backoff, which grows while no new event arrives.
func (r *reflector[K, T]) expired() time.Duration {
	r.current = false
	r.expiries++
	r.cfg.Logger.Debug("listing again, because the version expired", "version", r.seen)
	if r.expiries == 1 {
		return 0
	}
	delay := r.cfg.Backoff.Delay(r.expiries-2) - time.Since(r.listed)
	if delay > 0 {
		r.cfg.OnError(fmt.Errorf("informer: watch %s: soon after a list: %w", r.cfg.Name, ErrExpired))
	}
	return max(delay, 0)
}
