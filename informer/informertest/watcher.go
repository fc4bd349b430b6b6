package informertest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/wait"
)

// watcher is a consumer of a watch.
type watcher[T any] struct {
	t         testing.TB
	read      func(T) (string, int)
	merges    bool             // the source may skip states that were replaced
	last      informer.Version // of the last event
	vanishing bool             // an object has vanished, and the source has no version for that
	events    chan informer.Event[T]
	leave     context.CancelFunc // leaves the loop at the next event
	cancel    context.CancelCauseFunc
	ended     chan struct{} // closed when the loop is over; then the following are set
	errs      []error
	late      bool // something followed an error
}

// watch starts a watch, which ends with the test.
func (w *world[T]) watch(after informer.Version) *watcher[T] {
	w.t.Helper()
	ctx, cancel := context.WithCancelCause(w.t.Context())
	left, leave := context.WithCancel(context.Background())
	r := &watcher[T]{
		t: w.t, read: w.Read, merges: w.Merges, last: after,
		events: make(chan informer.Event[T]),
		leave:  leave, cancel: cancel,
		ended: make(chan struct{}),
	}
	go func() { // reads the watch, which blocks; ends with the watch; end and the cleanup wait for it
		defer close(r.ended)
		err := wait.Call(ctx, func(ctx context.Context) error {
			r.consume(w.changes(ctx, after), left)
			return nil
		})
		if err != nil {
			r.errs = []error{err} // the source has panicked
		}
	}()
	w.t.Cleanup(func() {
		leave()
		cancel(nil)
		r.end()
	})
	return r
}

// changes is a watch of the source, without the errors after which it goes on.
func (w *world[T]) changes(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[T], error] {
	return func(yield func(informer.Event[T], error) bool) {
		for ev, err := range w.Source.Watch(ctx, after) {
			if goesOn(err) {
				continue
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// goesOn reports whether a watch goes on after an error.
func goesOn(err error) bool {
	c := (interface{ Continues() bool })(nil)
	return errors.As(err, &c) && c.Continues()
}

// consume reads a watch until it or left ends.
func (r *watcher[T]) consume(watch iter.Seq2[informer.Event[T], error], left context.Context) {
	for ev, err := range watch {
		switch {
		case len(r.errs) > 0:
			r.late = true
			return
		case err != nil:
			r.errs = append(r.errs, err)
			if !reflect.ValueOf(&ev).Elem().IsZero() {
				r.errs = append(r.errs, fmt.Errorf("and with it comes the event %+v", ev))
			}
			continue
		case left.Err() != nil:
			return
		}
		select {
		case r.events <- ev:
		case <-left.Done():
			return
		}
	}
}

// next returns the next event that is not a bookmark, or the error that the watch ended with.
func (r *watcher[T]) next() (change, error) {
	r.t.Helper()
	for start := time.Now(); ; {
		c, err := r.event()
		switch {
		case err != nil || c.what != informer.Bookmark:
			return c, err
		case time.Since(start) > Patience:
			r.t.Fatalf("the watch has yielded only bookmarks for %v, up to version %d", Patience, r.last)
		}
	}
}

// event returns the next event, and fails unless its version is right.
func (r *watcher[T]) event() (change, error) {
	r.t.Helper()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case ev := <-r.events:
		return r.check(ev), nil
	case <-r.ended:
		return change{}, r.end()
	case <-timer.C:
		r.t.Fatalf("the watch has yielded nothing for %v; its last event was of version %d", Patience, r.last)
		return change{}, nil
	}
}

func (r *watcher[T]) check(ev informer.Event[T]) change {
	r.t.Helper()
	c := change{what: ev.Type, version: ev.Version, keyOnly: ev.KeyOnly, merged: r.merges}
	if ev.KeyOnly && ev.Type != informer.Deleted {
		r.t.Fatalf("%v %+v is KeyOnly, which only a deletion may be", ev.Type, ev.Object)
	}
	switch ev.Type {
	case informer.Bookmark:
		if !reflect.ValueOf(&ev.Object).Elem().IsZero() {
			r.t.Fatalf("a bookmark has an object: %+v", ev.Object)
		}
		if ev.Version < r.last {
			r.t.Fatalf("a bookmark of version %d comes after version %d", ev.Version, r.last)
		}
	case informer.Added, informer.Modified, informer.Deleted, informer.Unreadable:
		if (ev.Err != nil) != (ev.Type == informer.Unreadable) {
			r.t.Fatalf("%v of version %d has the error %v, which every Unreadable event needs, and no other has", ev.Type, ev.Version, ev.Err)
		}
		c.name, c.rev = r.read(ev.Object)
		if ev.Version < r.last || ev.Version == r.last && !r.vanishing {
			r.t.Fatalf("%v comes after version %d", c, r.last)
		}
	default:
		r.t.Fatalf("the event of version %d has the invalid type %d", ev.Version, ev.Type)
	}
	r.last = ev.Version
	return c
}

// sees fails unless the next events are these. There may be bookmarks between them.
func (r *watcher[T]) sees(want ...change) {
	r.t.Helper()
	if r.merges && len(want) > 1 {
		r.seesMerged(want)
		return
	}
	for _, c := range want {
		got, err := r.next()
		if err != nil {
			r.t.Fatalf("the watch ends with the error %q before it yields: %v %s.%d", err, c.what, c.name, c.rev)
		}
		if !got.means(c) {
			r.t.Fatalf("the watch yields: %v; want: %v %s.%d", got, c.what, c.name, c.rev)
		}
	}
}

// means reports whether the event c says what is wanted. A merging source need not know whether an object is new.
func (c change) means(want change) bool {
	switch {
	case c.name != want.name || (c.what == informer.Deleted) != (want.what == informer.Deleted):
		return false
	case c.what == informer.Deleted:
		return c.keyOnly || c.rev == want.rev
	}
	return c.rev == want.rev && (c.what == want.what || c.merged)
}

// seesMerged fails unless the next events lead to the same states as these, with the states of each object in the same order. Intermediate
// events may be missing.
func (r *watcher[T]) seesMerged(want []change) {
	r.t.Helper()
	had, left := map[string]bool{}, map[string][]change{} // whether an object existed before; its changes not yet seen
	for _, c := range want {
		if _, known := left[c.name]; !known {
			had[c.name] = c.what != informer.Added
		}
		left[c.name] = append(left[c.name], c)
	}
	done := func(name string) bool {
		rest := left[name]
		return len(rest) == 0 || rest[len(rest)-1].what == informer.Deleted && !had[name]
	}
	for name := range left {
		for !done(name) {
			got, err := r.next()
			if err != nil {
				r.t.Fatalf("the watch ends with the error %q before it yields: %v", err, left[name])
			}
			if got.keyOnly && !had[got.name] {
				continue // the source does not know whether the object was reported
			}
			i := slices.IndexFunc(left[got.name], got.means)
			if i < 0 || had[got.name] && got.what == informer.Added || !had[got.name] && got.what == informer.Deleted {
				r.t.Fatalf("the watch yields: %v; want one of %v", got, left[got.name])
			}
			left[got.name] = left[got.name][i+1:]
			had[got.name] = got.what != informer.Deleted
		}
	}
}

// errSilent is the error of a watch that ended without one.
var errSilent = errors.New("informertest: the watch has ended without an error")

// end waits for the end of the watch, and returns its error. It drops events that arrive before that.
func (r *watcher[T]) end() error {
	r.t.Helper()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	for {
		select {
		case <-r.events:
			continue
		case <-timer.C:
			r.t.Fatalf("the watch has not ended for %v", Patience)
		case <-r.ended:
		}
		break
	}
	switch {
	case r.late:
		r.t.Fatalf("the watch continues after the error %q", r.errs[0])
	case len(r.errs) > 1:
		r.t.Fatalf("the watch ends with the error %q, which comes with an event: %v", r.errs[0], r.errs[1])
	case len(r.errs) == 0:
		return errSilent
	}
	return r.errs[0]
}

// within returns the result of f, which may block if the source is broken. It fails if that takes too long.
func within(ctx context.Context, t testing.TB, what string, f func(context.Context) error) error {
	t.Helper()
	result := make(chan error, 1)
	go func() { result <- wait.Call(ctx, f) }() // ends with f; waited for below
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case err := <-result:
		return err
	case <-timer.C:
		t.Fatalf("waited %v for %s", Patience, what)
		return nil
	}
}
