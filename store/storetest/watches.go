package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/wait"
)

// story makes a few changes of every kind, and returns them as events, without the versions of deletions.
func story(t testing.TB, s store.Store[Thing]) []event {
	t.Helper()
	var all []event
	expect := func(what informer.EventType, o object) {
		all = append(all, event{Type: what, Object: o, Version: o.Version})
	}
	a := create(t, s, "a")
	expect(informer.Added, a)
	expect(informer.Added, create(t, s, "b", "dns"))
	a = grow(t, s, "a")
	expect(informer.Modified, a)
	remove(t, s, "b")
	b := get(t, s, "b")
	expect(informer.Modified, b)
	remove(t, s, "a")
	a.Version = list(t, s).Version
	expect(informer.Deleted, a)
	expect(informer.Added, create(t, s, "a"))
	b.Finalizers = nil
	expect(informer.Deleted, update(t, s, b))
	expect(informer.Modified, grow(t, s, "a"))
	return all
}

func (w *watcher) seesAll(want []event) {
	w.t.Helper()
	for _, e := range want {
		if e.Type == informer.Deleted {
			w.seesDeleted(e.Object)
		} else {
			w.sees(e.Type, e.Object)
		}
	}
}

var watchCases = []testCase{
	{"a watch from 0 yields the whole history in order", func(t testing.TB, db Database) {
		s := db.open("thing")
		want := story(t, s)
		watch(t, patient(t), s, 0).seesAll(want)
	}},

	{"a watch from any version yields exactly the rest of the history", func(t testing.TB, db Database) {
		s := db.open("thing")
		want := story(t, s)
		for i, e := range want {
			w := watch(t, patient(t), s, e.Version)
			w.seesAll(want[i+1:])
		}
	}},

	{"a watch from a list yields everything after the list", func(t testing.TB, db Database) {
		s := db.open("thing")
		story(t, s)
		from := list(t, s).Version
		w := watch(t, patient(t), s, from)
		o := create(t, s, "new")
		w.sees(informer.Added, o)
		w.sees(informer.Modified, grow(t, s, "new"))
	}},

	{"a broken watch resumes from the last version seen", func(t testing.TB, db Database) {
		s := db.open("thing")
		want := story(t, s)
		var last informer.Version
		for _, e := range want {
			one := watch(t, patient(t), s, last)
			one.seesAll([]event{e})
			last = one.last
		}
	}},

	{"a list plus later events equals the next list", func(t testing.TB, db Database) {
		s := db.open("thing")
		create(t, s, "old")
		before := list(t, s)
		want := story(t, s)
		held := map[string]object{}
		for _, o := range before.Items {
			held[o.Key] = o
		}
		w := watch(t, patient(t), s, before.Version)
		for range want {
			fold(t, held, w.next())
		}
		sameSet(t, held, list(t, s))
	}},

	{"each loop over a watch starts at the same version", func(t testing.TB, db Database) {
		s := db.open("thing")
		want := story(t, s)
		events := s.Watch(patient(t), 0)
		for range 2 {
			for e, err := range events {
				must(t, err)
				same(t, "the first event", e.Object, want[0].Object)
				break
			}
		}
	}},

	{"two waiting watches yield every write", func(t testing.TB, db Database) {
		s := db.open("thing")
		ctx, cancel := context.WithCancel(patient(t))
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		var received [2]chan event
		for i := range received {
			received[i] = make(chan event)
			wg.Go(func() { // ends when cancel ends the watch; the case waits for it
				for e, err := range s.Watch(ctx, 0) {
					if err != nil {
						return
					}
					if e.Type == informer.Bookmark {
						continue
					}
					select {
					case received[i] <- e:
					case <-ctx.Done():
					}
				}
			})
		}
		for n := range 10 {
			o := create(t, s, fmt.Sprint(n))
			for i := range received {
				select {
				case e := <-received[i]:
					same(t, "what a waiting watch received", e.Object, o)
				case <-ctx.Done():
					t.Fatalf("watch %d did not receive write %d", i, n)
				}
			}
		}
	}},

	{"a watch of a selection yields the deletion by an update that also changes the labels", func(t testing.TB, db Database) {
		s := db.open("thing")
		front := rules(store.Requirement{Label: "tier", Values: []string{"front"}})
		o, err := s.Create(patient(t), object{Key: "web", Labels: map[string]string{"tier": "front"}, Finalizers: []string{"dns"}})
		must(t, err)
		remove(t, s, "web")
		o = get(t, s, "web")
		w := pulled(t, s.WatchSelected(patient(t), front, o.Version), o.Version)
		o.Finalizers, o.Labels = nil, map[string]string{"tier": "back"}
		update(t, s, o)
		if e := w.next(); e.Type != informer.Deleted || e.Object.Key != "web" {
			t.Fatalf("the event is %v of %q, want Deleted of \"web\"", e.Type, e.Object.Key)
		}
	}},

	{"a watch ends with the cause of its context", func(t testing.TB, db Database) {
		s := db.open("thing")
		cause := errors.New("enough")
		story(t, s)
		ctx, cancel := context.WithCancelCause(patient(t))
		w := watch(t, ctx, s, 0)
		w.next()
		cancel(cause)
		if err := w.ends(); !errors.Is(err, cause) {
			t.Fatalf("the watch ended with %v, want the cause of the context", err)
		}
		if err := watch(t, ctx, s, 0).ends(); !errors.Is(err, cause) {
			t.Fatalf("a watch that started after the end returned %v, want the cause of the context", err)
		}
	}},

	{"a watch that waits ends with the cause of its context", func(t testing.TB, db Database) {
		s := db.open("thing")
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(patient(t))
		ended, from := make(chan error, 1), list(t, s).Version
		go func() { // ends when cancel ends the watch; the case waits for what it sends
			var last error
			for _, err := range s.Watch(ctx, from) {
				last = err
			}
			ended <- last
		}()
		cancel(cause)
		if err := <-ended; !errors.Is(err, cause) {
			t.Fatalf("the watch ended with %v, want the cause of the context", err)
		}
	}},

	{"a consumer may write to the store inside its loop", func(t testing.TB, db Database) {
		s, other := db.open("thing"), db.open("other")
		create(t, s, "web")
		for e, err := range s.Watch(patient(t), 0) {
			must(t, err)
			if e.Type == informer.Bookmark {
				continue
			}
			if e.Object.Value.Size == 3 {
				break
			}
			grow(t, s, "web")
			list(t, s)
			create(t, other, fmt.Sprint(e.Object.Value.Size))
		}
		keys(t, list(t, other), "0", "1", "2")
	}},

	{"a watch of one kind shows nothing of another", func(t testing.TB, db Database) {
		s, other := db.open("thing"), db.open("other")
		w := watch(t, patient(t), s, 0)
		create(t, other, "web")
		a := create(t, s, "a")
		w.sees(informer.Added, a)
		story(t, other)
		w.sees(informer.Modified, grow(t, s, "a"))
		keys(t, list(t, s), "a")
		keys(t, list(t, other), "a", "web")
	}},

	{"a watch from a version that the store has not reached is expired", func(t testing.TB, db Database) {
		s := db.open("thing")
		story(t, s)
		for _, beyond := range []informer.Version{1, 1000} {
			err := watch(t, patient(t), s, list(t, s).Version+beyond).ends()
			refused(t, err, informer.ErrExpired, opWatch, s, "")
		}
	}},
}

// fold applies e to held.
func fold(t testing.TB, held map[string]object, e event) {
	t.Helper()
	_, there := held[e.Object.Key]
	switch {
	case there == (e.Type == informer.Added):
		t.Fatalf("%v of %q at version %d, which was there: %t", e.Type, e.Object.Key, e.Version, there)
	case e.Type == informer.Deleted:
		delete(held, e.Object.Key)
	default:
		held[e.Object.Key] = e.Object
	}
}

// sameSet fails unless held matches the list.
func sameSet(t testing.TB, held map[string]object, l informer.List[object]) {
	t.Helper()
	if len(held) != len(l.Items) {
		t.Fatalf("the events make %d objects, the list has %d", len(held), len(l.Items))
	}
	for _, o := range l.Items {
		same(t, "what the events made of "+o.Key, held[o.Key], o)
	}
}

// expire makes the backend forget its history, or skips the case.
func (db Database) expire(t testing.TB, s store.Store[Thing]) {
	t.Helper()
	if db.Expire == nil {
		t.Skip("the backend cannot be made to forget")
	}
	must(t, db.Expire(s.Kind()))
}

var expiryCases = []testCase{
	{"the history has as many changes of a kind as the backend promises", func(t testing.TB, db Database) {
		if db.Remembers == 0 {
			t.Skip("the backend promises no history")
		}
		const keys = 16
		n := min(db.Remembers, 1000)
		ctx, step := steady(t)
		before := make(map[string]informer.Version)
		for _, kind := range []string{"raw", "raw2"} {
			_, before[kind] = records(t, db.Handles[0], kind, backend.Query{})
			must(t, wait.Parallelize(ctx, keys, keys, func(ctx context.Context, key int) error {
				for i := key; i < n; i += keys {
					next := backend.Record{Meta: []byte("{}"), Value: fmt.Append(nil, i)}
					h := db.Handles[key%len(db.Handles)]
					_, err := h.Transact(ctx, kind, fmt.Sprint(key), nil, func(backend.Record) (*backend.Record, error) { return &next, nil })
					if err != nil {
						return err
					}
					step()
				}
				return nil
			}))
		}
		for kind, from := range before {
			for _, h := range db.Handles {
				seen := map[string]bool{}
				for _, c := range changes(t, h, kind, backend.Query{}, from, n) {
					seen[string(c.Record.Value)] = true
				}
				if len(seen) != n {
					t.Fatalf("a watch yields %d of %d changes of %s", len(seen), n, kind)
				}
			}
		}
	}},

	{"a watch from before the history expires, and a list recovers", func(t testing.TB, db Database) {
		s := db.open("thing")
		create(t, s, "web")
		from := list(t, s).Version
		_, err := s.Update(patient(t), get(t, s, "web"), store.IfTerm("lease", 2))
		must(t, err)
		grow(t, s, "web")
		db.expire(t, s)
		_, err = s.Update(patient(t), get(t, s, "web"), store.IfTerm("lease", 1))
		refused(t, err, store.ErrFenced, opUpdate, s, "web")
		for _, after := range []informer.Version{0, from} {
			err := watch(t, patient(t), s, after).ends()
			refused(t, err, informer.ErrExpired, opWatch, s, "")
		}
		w := watch(t, patient(t), s, list(t, s).Version)
		w.sees(informer.Modified, grow(t, s, "web"))
	}},

	{"a slow watch whose history is forgotten skips nothing before it expires", func(t testing.TB, db Database) {
		s := db.open("thing")
		first := create(t, s, "web")
		w := watch(t, patient(t), s, 0)
		w.sees(informer.Added, first)
		second := grow(t, s, "web")
		w.sees(informer.Modified, second)
		last := grow(t, s, "web")
		db.expire(t, s)

		for size := second.Value.Size; size < last.Value.Size; {
			e, err, ok := w.pull()
			switch {
			case !ok:
				t.Fatalf("the watch stopped without an error")
			case err != nil: // it had not fetched the rest before the history was compacted
				refused(t, err, informer.ErrExpired, opWatch, s, "")
				return
			case e.Type == informer.Bookmark && e.Version >= last.Version:
				t.Fatalf("a bookmark of version %d overtakes version %d, which was not yielded", e.Version, last.Version)
			case e.Type == informer.Bookmark:
			case strings.HasPrefix(e.Object.Key, "filler"):
				t.Fatalf("the watch yields %s, but skipped version %d", e.Object.Key, last.Version)
			default:
				if size++; e.Object.Value.Size != size {
					t.Fatalf("the watch yields size %d, and %d comes next", e.Object.Value.Size, size)
				}
			}
		}
	}},
}
