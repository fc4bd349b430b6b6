package informertest

import (
	"context"
	"maps"
	"testing"

	"github.com/setpoint-go/setpoint/informer"
)

func unreadCases[T any]() []testCase[T] {
	return []testCase[T]{
		{"a watch reports an object that cannot be read, and goes on", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			w.canSpoil()
			w.put("a")
			w.put("b")
			watch := w.watch(w.listsTruth())
			w.must(s.Spoil("a"))
			watch.seesUnreadable("a")
			watch.sees(w.put("b"))
			w.must(s.Spoil("new"))
			watch.seesUnreadable("new")
			repaired := w.put("a")
			repaired.merged = true // it may be new, or not, for a source that cannot read it
			if got, err := watch.next(); err != nil || got.name != "a" || got.rev != repaired.rev || got.what == informer.Deleted {
				t.Fatalf("the watch yields %v (%v) after the repair, want the new state of a", got, err)
			}
			w.must(s.Delete("new"))
			if got, err := watch.next(); err != nil || got.what != informer.Deleted || got.name != "new" {
				t.Fatalf("the watch yields %v (%v), want the deletion of an object that was never read", got, err)
			}
			watch.sees(w.put("b"))
		}},

		{"a list names an object that cannot be read, and has all others", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			w.canSpoil()
			w.put("a")
			w.put("b")
			w.must(s.Spoil("a"))
			w.must(s.Spoil("new"))
			w.listsUnread("a", "new")
			w.put("a")
			w.listsUnread("new")
			w.must(s.Delete("new"))
			w.listsUnread()
			w.listsTruth()
		}},

		{"an object that cannot be read keeps its last state in a cache", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			w.canSpoil()
			w.put("a")
			in := w.inform().in
			w.must(s.Spoil("a"))
			w.put("b")
			w.must(within(t.Context(), t, "a cache that has caught up", in.CatchUp))
			_, hasA := in.Get("a")
			_, hasB := in.Get("b")
			if !hasA || !hasB || in.Unread("a") == nil || in.Unread("b") != nil {
				t.Fatalf("a is in the cache: %v, and unread: %v; b is in the cache: %v, and unread: %v; want both in the cache, and a unread",
					hasA, in.Unread("a"), hasB, in.Unread("b"))
			}
		}},
	}
}

// canSpoil skips the case if the subject has no Spoil.
func (w *world[T]) canSpoil() {
	w.t.Helper()
	if w.Spoil == nil {
		w.t.Skip("the source has no object that cannot be read")
	}
}

// seesUnreadable fails unless the next event says that an object cannot be read.
func (r *watcher[T]) seesUnreadable(name string) {
	r.t.Helper()
	got, err := r.next()
	if err != nil || got.what != informer.Unreadable || got.name != name {
		r.t.Fatalf("the watch yields %v (%v), want Unreadable %s", got, err, name)
	}
}

// listsUnread fails unless a list has these objects among the unread ones, with errors, and all others as they are.
func (w *world[T]) listsUnread(names ...string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), Patience)
	defer cancel()
	list, err := w.Source.List(ctx)
	w.must(err)
	got, err := w.read(list)
	w.must(err)
	want := maps.Clone(w.truth)
	for _, name := range names {
		delete(got, name) // the source may know its last state
		delete(want, name)
	}
	if !maps.Equal(got, want) || len(list.Missing) > 0 {
		w.t.Fatalf("the list holds %v, and %d records are missing; want %v", got, len(list.Missing), want)
	}
	for _, u := range list.Unread {
		name, _ := w.Read(u.Object)
		if u.Err == nil {
			w.t.Fatalf("the list gives no reason why %s cannot be read", name)
		}
		got[name] = -1
	}
	for _, name := range names {
		if got[name] != -1 {
			w.t.Fatalf("the list does not say that %s cannot be read: %d unread", name, len(list.Unread))
		}
	}
	if len(list.Unread) != len(names) {
		w.t.Fatalf("%d objects of the list cannot be read, want %d", len(list.Unread), len(names))
	}
}
