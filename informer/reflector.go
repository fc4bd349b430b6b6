package informer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/wait"
)

// shortWatch is how long a watch that brings nothing must last to be no error.
const shortWatch = time.Second

// reflector writes what happens in a source into the feed. It is used by one goroutine, that of run, or the one that calls
// [Steps.Read].
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
//  1. seen never goes down, but in reset.
//  2. Everything up to seen has been given to feed: seen moves after an input was accepted.
type reflector[K comparable, T any] struct {
	src   ListWatcher[T]
	pages func(context.Context) iter.Seq2[List[T], error] // the list of src
	key   cache.KeyFunc[K, T]
	feed  *feed[K, T]
	told  *progress // of the watches
	cfg   Config

	// orders are given by other goroutines: an order is set, then interrupt is called.
	relist    atomic.Bool // list again
	anew      atomic.Bool // forget what was seen, and list again
	interrupt atomic.Pointer[context.CancelFunc]

	current  bool      // the last list stands; false when one is needed
	starts   bool      // the next list begins a new history
	listed   time.Time // when the last list came
	seen     Version   // watch from here
	failures int       // errors since the source was last heard
	expiries int       // watches that expired since an event last moved seen, and one if any did before
	reading  bool      // in a turn; when a goroutine begins, the one before was ended in its turn

	reader *reader // who takes its steps; nil in Run
}

// run lists and watches until ctx ends. If the source ends the goroutine, by runtime.Goexit, it calls again, which is to run
// another one.
func (r *reflector[K, T]) run(ctx context.Context, again func()) {
	ended := false
	defer func() {
		if !ended {
			again()
		}
	}()
	if r.reading {
		r.reading = false
		r.sitOutExit(ctx)
	}
	for ctx.Err() == nil {
		r.reading = true
		r.turn(ctx)
		r.reading = false
	}
	ended = true
}

// sitOutExit waits as after an error, and reports it then: if that ends the goroutine, too, this is no loop without a pause.
func (r *reflector[K, T]) sitOutExit(ctx context.Context) {
	_ = wait.Sleep(ctx, r.cfg.Backoff.Delay(r.failures)) // the end of ctx is seen by after
	_ = r.after(ctx, "read", errExit)
}

// turn takes a step and sits out its delay, or less of both when there is an order.
func (r *reflector[K, T]) turn(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx) // an order, or the end of a Read, ends a turn
	defer cancel()
	r.interrupt.Store(&cancel) // before the orders are read: so each is seen here, or interrupts what follows
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
		if ctx.Err() == nil || r.reader.ctx.Err() != nil { // without an order, for which the same Read goes on
			r.reader.pause(lists && r.current) // when the next turn begins is up to the one who reads
		}
		return
	}
	_ = wait.Sleep(ctx, r.step(ctx)) // the end of ctx is seen by run
}

// order sets an order and makes run look at it.
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

// watching watches, and says so.
func (r *reflector[K, T]) watching(ctx context.Context) error {
	r.told.watching(true)
	defer r.told.watching(false) // also if the source ends the goroutine
	return wait.Call(ctx, r.watch)
}

// list gives the content of the source to feed, when all of it has come.
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
		return context.Cause(ctx) // the list may have ended because of that
	case len(c.pages) == 0:
		return errNoPage
	}
	if err := r.feed.put(ctx, input[K, T]{version: version, list: c}); err != nil {
		return err
	}
	r.current, r.starts, r.listed, r.seen, r.failures = true, false, time.Now(), version, 0
	return nil
}

// watch gives the events after seen to feed until the source has no more.
func (r *reflector[K, T]) watch(ctx context.Context) error {
	for ev, err := range r.src.Watch(ctx, r.seen) {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
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
		r.reader.pause(true)
	}
	return nil
}

// keyOf returns the key of an object. It panics when the key is not equal to itself (a NaN): it could never be found
// again.
func (r *reflector[K, T]) keyOf(obj T) K {
	key := r.key(obj)
	if key != key { // which also panics for an interface whose value has no hash
		panic("informer: a key is not equal to itself")
	}
	return key
}

// after reports the error of a step and returns the time to wait for it.
func (r *reflector[K, T]) after(ctx context.Context, verb string, err error) time.Duration {
	if ctx.Err() != nil {
		return 0 // whatever it is, it is because of that
	}
	if err == nil {
		r.failures = 0
		return 0
	}
	r.failures++
	r.cfg.OnError(fmt.Errorf("informer: %s %s: %w", verb, r.cfg.Name, err))
	return r.cfg.Backoff.Delay(r.failures - 1)
}

// expired asks for a list, and returns the time to wait for it: none the first time. After that lists keep the distance
// that attempts after an error have, and when nothing new came since the last one, after so many errors.
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
