package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

type (
	object = store.Object[Thing]
	event  = informer.Event[object]
)

// The operations of a store, as the Op of a store.Error names them.
const (
	opGet          = "get"
	opList         = "list"
	opWatch        = "watch"
	opCreate       = "create"
	opUpdate       = "update"
	opUpdateStatus = "update status"
	opDelete       = "delete"
)

// patient returns a context for the waits of a case.
func patient(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), Patience,
		fmt.Errorf("waited for %v", Patience))
	t.Cleanup(cancel)
	return ctx
}

// steady returns a context for a case of many steps, however long they take together: it ends Patience after the last call of step.
func steady(t testing.TB) (ctx context.Context, step func()) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	limit := time.AfterFunc(Patience, func() { cancel(fmt.Errorf("waited for %v", Patience)) })
	t.Cleanup(func() { cancel(nil) }) // after which limit does nothing
	return ctx, func() { limit.Reset(Patience) }
}

// full returns a value with everything in it.
func full() Thing {
	return Thing{
		Name:   "web",
		Size:   3,
		Tags:   []string{"x", "y"},
		Labels: map[string]string{"tier": "front", "zone": "a"},
		Main:   &Part{Name: "main", Ports: []int{80}},
		Parts:  []Part{{Name: "side", Ports: []int{1, 2}}, {Name: "car"}},
		Seen:   time.Date(2024, 2, 29, 12, 30, 15, 123456000, time.UTC),
	}
}

func owners() []store.OwnerRef {
	return []store.OwnerRef{
		{Ref: store.Ref{Kind: "team", Key: "blue", UID: "u-1"}},
		{Ref: store.Ref{Kind: "app", Key: "web", UID: "u-2"}, Controller: true},
	}
}

func create(t testing.TB, s store.Store[Thing], key string, finalizers ...string) object {
	t.Helper()
	o, err := s.Create(patient(t), object{Key: key, Value: Thing{Name: key}, Finalizers: finalizers})
	must(t, err)
	return o
}

func update(t testing.TB, s store.Store[Thing], o object) object {
	t.Helper()
	o, err := s.Update(patient(t), o)
	must(t, err)
	return o
}

// grow changes the object under key.
func grow(t testing.TB, s store.Store[Thing], key string) object {
	t.Helper()
	o := get(t, s, key)
	o.Value.Size++
	return update(t, s, o)
}

func get(t testing.TB, s store.Store[Thing], key string) object {
	t.Helper()
	o, err := s.Get(patient(t), key)
	must(t, err)
	return o
}

func list(t testing.TB, s store.Store[Thing]) informer.List[object] {
	t.Helper()
	l, err := s.List(patient(t))
	must(t, err)
	return l
}

func remove(t testing.TB, s store.Store[Thing], key string) object {
	t.Helper()
	o, err := s.Delete(patient(t), key)
	must(t, err)
	return o
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("a call that has to succeed: %v", err)
	}
}

// refused fails unless err is a *store.Error about the operation that wraps want.
func refused(t testing.TB, err, want error, op string, s store.Store[Thing], key string) *store.Error {
	t.Helper()
	var e *store.Error
	switch {
	case err == nil:
		t.Fatalf("%s %q succeeded, want the error %q", op, key, want)
	case !errors.Is(err, want):
		t.Fatalf("%s %q: the error is %q, want %q", op, key, err, want)
	case !errors.As(err, &e):
		t.Fatalf("%s %q: the error is a %T, want a *store.Error", op, key, err)
	case e.Op != op || e.Kind != s.Kind() || e.Key != key:
		t.Fatalf("the error is about %s %s %q, want %s %s %q", e.Op, e.Kind, e.Key, op, s.Kind(), key)
	case e.Conflict() != (want == store.ErrConflict):
		t.Fatalf("%s %q: Conflict() = %t for %q", op, key, e.Conflict(), err)
	}
	return e
}

// text shows all of o. Two objects are the same when their texts are.
func text(o object) string {
	if len(o.Labels) == 0 {
		o.Labels = nil
	}
	if len(o.Owners) == 0 {
		o.Owners = nil
	}
	if len(o.Finalizers) == 0 {
		o.Finalizers = nil
	}
	b, err := json.Marshal(o)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// content shows the part of o that the caller owns.
func content(o object) string {
	return text(object{Key: o.Key, Value: o.Value, Labels: o.Labels, Owners: o.Owners, Finalizers: o.Finalizers})
}

func same(t testing.TB, what string, got, want object) {
	t.Helper()
	if g, w := text(got), text(want); g != w {
		t.Fatalf("%s:\n got %s\nwant %s", what, g, w)
	}
}

func sameContent(t testing.TB, what string, got, want object) {
	t.Helper()
	if g, w := content(got), content(want); g != w {
		t.Fatalf("%s:\n got %s\nwant %s", what, g, w)
	}
}

// keys fails unless the list holds exactly these keys in this order.
func keys(t testing.TB, l informer.List[object], want ...string) {
	t.Helper()
	got := []string{}
	for _, o := range l.Items {
		got = append(got, o.Key)
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Fatalf("the list has the keys %q, want %q", got, want)
	}
}

// watcher reads a watch event by event.
type watcher struct {
	t    testing.TB
	pull func() (event, error, bool)
	last informer.Version
}

func watch(t testing.TB, ctx context.Context, s store.Store[Thing], after informer.Version) *watcher {
	t.Helper()
	return pulled(t, s.Watch(ctx, after), after)
}

// pulled returns a watcher of events, which begin after a version.
func pulled(t testing.TB, events iter.Seq2[event, error], after informer.Version) *watcher {
	t.Helper()
	pull, stop := iter.Pull2(events)
	t.Cleanup(stop)
	return &watcher{t: t, pull: pull, last: after}
}

// next returns the next event that is not a bookmark. It fails when there is none.
func (w *watcher) next() event {
	w.t.Helper()
	for {
		e, err, ok := w.pull()
		switch {
		case !ok:
			w.t.Fatalf("the watch stopped after version %d, want an event", w.last)
		case err != nil:
			w.t.Fatalf("the watch ended after version %d, want an event: %v", w.last, err)
		case e.Version < w.last, e.Version == w.last && e.Type != informer.Bookmark:
			w.t.Fatalf("%v has version %d after version %d", e.Type, e.Version, w.last)
		}
		w.last = e.Version
		if e.Type == informer.Bookmark {
			if text(e.Object) != text(object{}) {
				w.t.Fatalf("a bookmark carries the object %s", text(e.Object))
			}
			continue
		}
		if e.Object.Version != e.Version {
			w.t.Fatalf("%v of version %d carries an object of version %d", e.Type, e.Version, e.Object.Version)
		}
		return e
	}
}

// bookmark fails unless the next event is a bookmark of at least a version, and comes in time.
func (w *watcher) bookmark(least informer.Version) {
	w.t.Helper()
	const late = 3 * backend.BookmarkInterval / 2 // due within one interval, but a busy machine may be slow
	for start := time.Now(); ; {
		e, err, ok := w.pull()
		switch {
		case !ok || err != nil:
			w.t.Fatalf("the watch ended after version %d, want a bookmark: %v", w.last, err)
		case e.Type != informer.Bookmark:
			w.t.Fatalf("the event is %v of %q, want a bookmark", e.Type, e.Object.Key)
		case e.Version < w.last:
			w.t.Fatalf("a bookmark of version %d comes after version %d", e.Version, w.last)
		case time.Since(start) > late:
			w.t.Fatalf("the watch yielded nothing for %v, want a bookmark within %v", time.Since(start), backend.BookmarkInterval)
		}
		if w.last = e.Version; w.last >= least {
			return
		}
	}
}

// sees fails unless this is the next event.
func (w *watcher) sees(want informer.EventType, o object) {
	w.t.Helper()
	e := w.next()
	if e.Type != want {
		w.t.Fatalf("the event is %v of %s, want %v of %s", e.Type, text(e.Object), want, text(o))
	}
	same(w.t, "the object of "+want.String(), e.Object, o)
}

// seesDeleted fails unless the next event is the deletion of o, in the given state except for the version.
func (w *watcher) seesDeleted(o object) event {
	w.t.Helper()
	e := w.next()
	if e.Type != informer.Deleted {
		w.t.Fatalf("the event is %v of %s, want Deleted of %q", e.Type, text(e.Object), o.Key)
	}
	last := e.Object
	last.Version = o.Version
	same(w.t, "the last state of what was deleted", last, o)
	return e
}

// ends returns the error that ends the watch, past any event, and fails when there is none.
func (w *watcher) ends() error {
	w.t.Helper()
	for {
		e, err, ok := w.pull()
		switch {
		case !ok:
			w.t.Fatalf("the watch stopped after version %d without an error", w.last)
		case err == nil:
			w.last = e.Version
			continue
		case e.Type != 0 || e.Version != 0 || text(e.Object) != text(object{}):
			w.t.Fatalf("the error %q comes with the event %v %d", err, e.Type, e.Version)
		}
		if _, _, more := w.pull(); more {
			w.t.Fatalf("the watch continues after the error %q", err)
		}
		return err
	}
}

// errOf returns the error of a call that returns an object too.
func errOf[T any](_ store.Object[T], err error) error { return err }
