package informer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/wait"
)

// shortWatch is how long a watch that brings nothing must last to be no error.
const shortWatch = time.Second

// reflector writes what happens in a source into a queue of deltas. It is used by one goroutine.
//
//	+------+ ok                              +-------+
//	| list | ------------------------------> | watch | --+ ended: go on from seen
//	|      | <------------------------------ |       | <-+ error, or no use: report, back off, go on from seen
//	+------+  ErrExpired: at once, but not   +-------+
//	 |    ^   again and again
//	 +----+ error, or older than seen: report, back off
//
// Invariants:
//
//  1. seen never goes down.
//  2. Everything up to seen has been given to deltas: seen moves after a delta was accepted.
type reflector[K comparable, T any] struct {
	src    ListWatcher[T]
	deltas *cache.DeltaFIFO[K, T]
	cfg    Config
	heard  func() // called after every list, event and bookmark that was accepted

	listing atomic.Uint64 // the version of the newest list that deltas has or is about to get

	current  bool      // the last list stands; false when one is needed
	listed   time.Time // when the last list came
	seen     Version   // watch from here
	failures int       // errors since the source was last heard
	expiries int       // watches that expired since an event last moved seen
}

// run lists and watches until ctx ends.
func (r *reflector[K, T]) run(ctx context.Context) {
	for ctx.Err() == nil {
		_ = wait.Sleep(ctx, r.step(ctx)) // the end of ctx ends the loop
	}
}

// step lists once, or watches until the watch ends. It returns the time to wait before the next step.
func (r *reflector[K, T]) step(ctx context.Context) time.Duration {
	if !r.current {
		return r.after(ctx, "list", wait.Call(ctx, r.list))
	}
	began, from := time.Now(), r.seen
	err := wait.Call(ctx, r.watch)
	switch {
	case errors.Is(err, ErrExpired):
		return r.expired()
	case err == nil && r.seen == from && time.Since(began) < shortWatch:
		err = errShortWatch
	}
	return r.after(ctx, "watch", err)
}

// list makes the content of the source that of deltas.
func (r *reflector[K, T]) list(ctx context.Context) error {
	list, err := r.src.List(ctx)
	if err != nil {
		return err
	}
	if list.Version < r.seen {
		return fmt.Errorf("the list is of version %d, but version %d was seen", list.Version, r.seen)
	}
	r.listing.Store(uint64(list.Version))
	if err := r.deltas.Replace(list.Items, uint64(list.Version)); err != nil {
		return err
	}
	r.current, r.listed, r.seen = true, time.Now(), list.Version
	r.accepted()
	return nil
}

// watch writes the events after seen into deltas until the source has no more.
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
		if err := r.write(ev); err != nil {
			return err
		}
		if ev.Version > r.seen {
			r.seen, r.expiries = ev.Version, 0
		}
		r.accepted()
	}
	return nil
}

// write writes an event into deltas.
func (r *reflector[K, T]) write(ev Event[T]) error {
	v := uint64(ev.Version)
	switch ev.Type {
	case Added:
		return r.deltas.Add(ev.Object, v)
	case Modified:
		return r.deltas.Update(ev.Object, v)
	case Deleted:
		return r.deltas.Delete(ev.Object, v)
	case Bookmark:
		r.deltas.Bookmark(v)
		return nil
	default:
		return fmt.Errorf("the event of version %d has no type that is known: %d", ev.Version, ev.Type)
	}
}

// accepted notes that the source works.
func (r *reflector[K, T]) accepted() {
	r.failures = 0
	r.heard()
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

// expired asks for a list, and returns the time to wait for it. When nothing new came since the last one, lists keep the
// distance that attempts after errors have.
func (r *reflector[K, T]) expired() time.Duration {
	r.current = false
	r.expiries++
	r.cfg.Logger.Debug("informer lists again, because its version expired", "version", r.seen)
	if r.expiries == 1 {
		return 0
	}
	delay := r.cfg.Backoff.Delay(r.expiries-2) - time.Since(r.listed)
	if delay > 0 {
		r.cfg.OnError(fmt.Errorf("informer: watch %s: once more, and nothing came between: %w", r.cfg.Name, ErrExpired))
	}
	return max(delay, 0)
}
