package informer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer/internal/relist"
	"github.com/setpoint-go/setpoint/wait"
)

// shortWatch is the time that a watch without events must last. A shorter watch counts as an error.
const shortWatch = time.Second

// reflector reads a source into the feed. One goroutine uses it: that of run, or the caller of [Steps.Read].
//
//	+------+ ok                              +-------+
//	| list | ------------------------------> | watch | --+ ended: go on from seen
//	|      | <------------------------------ |       | <-+ error, or no use: report, back off, go on from seen
//	+------+  ErrExpired: at once, but not   +-------+
//	 |    ^   right after another list
//	 +----+ error, or older than seen: report, back off
//
// Invariants:
//
//  1. seen never decreases, except after an order to start over.
//  2. The feed has everything up to seen: seen changes after the feed has accepted an input.
type reflector[K comparable, T any] struct {
	src   ListWatcher[T]
	pages func(context.Context) iter.Seq2[List[T], error] // the list of src
	key   cache.KeyFunc[K, T]
	feed  *feed[K, T]
	told  *progress // of the watches
	cfg   Config

	// Other goroutines give orders: they set one, then call interrupt.
	relist    atomic.Bool // list again
	anew      atomic.Bool // forget what was seen, and list again
	interrupt atomic.Pointer[context.CancelFunc]

	current  bool      // the last list is valid; false if a new one is needed
	starts   bool      // the next list begins a new history
	listed   time.Time // when the last list arrived
	seen     Version   // watch from here
	failures int       // errors since the last success
	expiries int       // watches that expired since an event last changed seen, plus one if any expired before
	reading  bool      // in a turn; if it is set when a turn begins, the source ended the goroutine of the previous one

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

// turn takes a step and waits for its delay. An order cuts both short. If the goroutine of the last turn has exited, turn backs off as after
// an error, and then reports that: so there is a pause even if OnError ends the goroutine too.
func (r *reflector[K, T]) turn(all context.Context, exited bool) {
	ctx, cancel := context.WithCancel(all) // an order, or the end of a Read, ends a turn
	defer cancel()
	r.interrupt.Store(&cancel) // before the orders are read, so that each order is seen here or interrupts the step
	if exited {
		if !r.relist.Load() && !r.anew.Load() {
			_ = wait.Sleep(ctx, r.cfg.Backoff.Delay(r.failures))
		}
		_ = r.after(all, "read", errExit) // also after an order; after notices the end of all
		return
	}
	if r.relist.Swap(false) {
		r.current = false
	}
	if r.anew.Swap(false) {
		r.current, r.starts, r.seen, r.failures, r.expiries = false, true, 0, 0, 0
	}
	if r.reader != nil {
		r.reader.bind(cancel)
		lists := !r.current
		r.step(ctx)
		if ctx.Err() == nil || r.reader.ctx.Err() != nil { // after an order, the same Read continues
			r.reader.pause(lists && r.current) // the next Read begins the next turn
		}
		return
	}
	_ = wait.Sleep(ctx, r.step(ctx)) // run notices the end of ctx
}

// order sets an order, and interrupts the turn.
func (r *reflector[K, T]) order(what *atomic.Bool) {
	what.Store(true)
	if interrupt := r.interrupt.Load(); interrupt != nil {
		(*interrupt)()
	}
}

// step lists once, or watches until the watch ends. It returns the time to wait before the next step.
func (r *reflector[K, T]) step(ctx context.Context) time.Duration {
	if !r.current {
		return r.after(ctx, "list", wait.Call(ctx, r.list))
	}
	began, from := time.Now(), r.seen
	err := r.watching(ctx)
	switch {
	case errors.Is(err, ErrExpired):
		return r.expired()
	case err == nil && r.seen == from && time.Since(began) < shortWatch:
		err = errShortWatch
	}
	return r.after(ctx, "watch", err)
}

// watching watches, and records that a watch is open.
func (r *reflector[K, T]) watching(ctx context.Context) error {
	r.told.watching(true)
	defer r.told.watching(false) // also if the source ends the goroutine
	return wait.Call(ctx, r.watch)
}

// list puts the content of the source into the feed, after the last page has arrived.
func (r *reflector[K, T]) list(ctx context.Context) error {
	c := &content[K, T]{starts: r.starts}
	var version Version
	for list, err := range r.pages(ctx) {
		if err == nil {
			err = samePages(len(c.pages), version, list.Version)
		}
		switch {
		case err != nil:
			return err
		case list.Version < r.seen:
			return fmt.Errorf("the list is of version %d, but version %d was seen", list.Version, r.seen)
		}
		version = list.Version
		c.add(list.Items, r.keyOf)
		for _, obj := range list.Unread {
			c.unread = append(c.unread, r.keyOf(obj))
		}
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx) // so the list may be incomplete
	case len(c.pages) == 0:
		return errNoPage
	}
	if err := r.feed.put(ctx, input[K, T]{version: version, list: c}); err != nil {
		return err
	}
	r.current, r.starts, r.listed, r.seen, r.failures = true, false, time.Now(), version, 0
	r.told.listed()
	return nil
}

// watch puts the events after seen into the feed until the watch ends.
func (r *reflector[K, T]) watch(ctx context.Context) error {
	for ev, err := range r.src.Watch(ctx, r.seen) {
		if err != nil && !continues(err) {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			r.told.failed(err, true)
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
			in.key, in.object = r.keyOf(ev.Object), ev.Object
		case Bookmark:
		default:
			return fmt.Errorf("the event of version %d has no type that is known: %d", ev.Version, ev.Type)
		}
		if err := r.feed.put(ctx, in); err != nil {
			return err
		}
		if ev.Version > r.seen {
			r.seen, r.expiries = ev.Version, min(r.expiries, 1)
		}
		r.failures = 0
		r.told.answered()
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
	r.told.failed(err, false)
	r.cfg.OnError(fmt.Errorf("informer: %s %s: %w", verb, r.cfg.Name, err))
	return r.cfg.Backoff.Delay(r.failures - 1)
}

// expired requests a list, and returns the delay before it: none the first time. After that, the time between two lists is at least
// a delay of the backoff, which grows while no new event arrives.
func (r *reflector[K, T]) expired() time.Duration {
	r.current = false
	r.expiries++
	r.cfg.Logger.Debug("informer lists again, because its version expired", "version", r.seen)
	if r.expiries == 1 {
		return 0
	}
	delay := r.cfg.Backoff.Delay(r.expiries-2) - time.Since(r.listed)
	if delay > 0 {
		r.cfg.OnError(fmt.Errorf("informer: watch %s: soon after a list: %w", r.cfg.Name, ErrExpired))
	}
	return max(delay, 0)
}

// input is what the reflector passes to Run: an event, or a list.
type input[K comparable, T any] struct {
	kind    EventType
	missed  bool // kind is Deleted, and a list revealed the deletion
	key     K    // unless kind is Bookmark
	object  T
	version Version

	list *content[K, T] // if set, the input is a list, and only list and version are set
}

// content is a list with the keys of its objects, page by page.
type content[K comparable, T any] struct {
	pages  []relist.Page[K, T]
	unread []K  // the keys of objects that exist but could not be read
	starts bool // the list begins a new history of the source
}

// add adds a page.
func (c *content[K, T]) add(items []T, keyOf func(T) K) {
	keys := make([]K, len(items))
	for i, obj := range items {
		keys[i] = keyOf(obj)
	}
	c.pages = append(c.pages, relist.Page[K, T]{Keys: keys, Items: items})
}

// feed passes inputs from the reflector to Run, in order and unmerged: so the cache takes every state that the source has reported. It
// holds at most maxBatch inputs. When it is full, the reflector waits for the cache. The cache never waits for handlers.
type feed[K comparable, T any] struct {
	wake func()        // called, without locks, after the first input was added
	room chan struct{} // holds a token after inputs were taken; sent by take, received by put

	mu sync.Mutex
	// mu guards the following.
	inputs []input[K, T]
}

// put adds an input, when there is room for it. If ctx ends first, it returns the cause of ctx.
func (f *feed[K, T]) put(ctx context.Context, it input[K, T]) error {
	for {
		n, ok := f.tryPut(&it)
		if ok {
			if n == 1 {
				f.wake()
			}
			return nil
		}
		select {
		case <-f.room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tryPut adds an input if there is room for it, and returns the number of inputs.
func (f *feed[K, T]) tryPut(it *input[K, T]) (n int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.inputs) == maxBatch {
		return maxBatch, false
	}
	f.inputs = append(f.inputs, *it)
	return len(f.inputs), true
}

// takeOne removes the first input, and returns it in spare, which is empty.
func (f *feed[K, T]) takeOne(spare []input[K, T]) []input[K, T] {
	f.mu.Lock()
	n := len(f.inputs)
	if n > 0 {
		spare = append(spare, f.inputs[0])
		f.inputs = slices.Delete(f.inputs, 0, 1)
	}
	f.mu.Unlock()
	if n > 1 {
		f.wake()
	}
	return spare
}

// take removes and returns all inputs. spare, which is empty, holds the next ones.
func (f *feed[K, T]) take(spare []input[K, T]) []input[K, T] {
	f.mu.Lock()
	inputs := f.inputs
	f.inputs = spare
	f.mu.Unlock()
	select {
	case f.room <- struct{}{}:
	default: // a token is already there
	}
	return inputs
}
