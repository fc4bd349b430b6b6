package informertest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/setpoint-go/setpoint/informer"
)

func listCases[T any]() []testCase[T] {
	return []testCase[T]{
		{"an empty source lists nothing", func(t testing.TB, s Subject[T]) {
			newWorld(t, s).listsTruth()
		}},

		{"a list holds each object once, in its last state", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			for range 3 {
				w.story()
				w.listsTruth()
			}
		}},

		{"the version of a list grows with every change", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			before := w.listsTruth()
			for _, step := range []func() change{
				func() change { return w.put("a") },
				func() change { return w.put("a") },
				func() change { return w.delete("a") },
				func() change { return w.put("a") },
			} {
				c := step()
				version := w.listsTruth()
				if version <= before {
					t.Fatalf("the list is of version %d before, and %d after: %v %s.%d", before, version, c.what, c.name, c.rev)
				}
				before = version
			}
		}},

		{"a long list is complete", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			w.fill()
			version := w.listsTruth()
			watch := w.watch(version)
			watch.sees(w.put("0")) // nothing in the list is repeated
		}},

		{"a list does not change afterward", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			for _, name := range []string{"a", "b", "c"} {
				w.put(name)
			}
			list, err := s.Source.List(t.Context())
			w.must(err)
			before, err := w.read(list)
			w.must(err)
			w.put("a")
			w.delete("b")
			w.put("d")
			w.listsTruth()
			if after, err := w.read(list); err != nil || !maps.Equal(before, after) {
				t.Fatalf("a list that held %v holds %v after later changes: %v", before, after, err)
			}
		}},

		{"a list during changes is consistent with its version", func(t testing.TB, s Subject[T]) {
			if s.Merges {
				t.Skip("a merging watch does not yield the state of every version")
			}
			w := newWorld(t, s)
			const rounds = 10
			changes := 3 * w.fill()
			w.needs(changes)
			log := &history[T]{watch: w.watch(w.listsTruth()), now: maps.Clone(w.truth)}

			var lists []listed
			for range rounds {
				writing := make(chan error, 1)
				go func() { writing <- w.churn(changes / rounds) }() // writes concurrently with the list; ends by itself; waited for below
				got, version := w.list()
				lists = append(lists, listed{got, version})
				w.must(<-writing)
			}
			for _, l := range lists {
				log.compare(l)
			}
		}},
	}
}

// fill puts as many objects as a long list has, and returns their number.
func (w *world[T]) fill() int {
	w.t.Helper()
	n := cmp.Or(w.Objects, 100)
	for i := range n {
		w.put(fmt.Sprint(i))
	}
	return n
}

// churn changes objects in turn, from the last one to the first, the reverse of the order of pages. It runs concurrently with the test,
// which must access only the source in that time.
func (w *world[T]) churn(changes int) error {
	n := cmp.Or(w.Objects, 100)
	for range changes {
		w.revs++
		if err := w.Put(fmt.Sprint(n-1-w.revs%n), w.revs); err != nil {
			return err
		}
	}
	return nil
}

// listed is a list that was taken.
type listed struct {
	state   state
	version informer.Version
}

// history is what a watch yields, up to the version of a list.
type history[T any] struct {
	watch *watcher[T]
	now   state
	next  change // yielded but not applied, unless its version is 0
}

// compare fails unless l matches what the watch yielded up to its version. Lists must be compared in the order of their versions.
func (h *history[T]) compare(l listed) {
	t := h.watch.t
	t.Helper()
	for {
		if h.next.version == 0 {
			if h.watch.last >= l.version {
				break
			}
			c, err := h.watch.event()
			if err != nil {
				t.Fatalf("the watch has ended: %v", err)
			}
			if c.what == informer.Bookmark {
				continue
			}
			h.next = c
		}
		if h.next.version > l.version {
			break
		}
		if err := h.now.apply(h.next); err != nil {
			t.Fatalf("the watch yields: %v", err)
		}
		h.next = change{}
	}
	if !maps.Equal(l.state, h.now) {
		t.Fatalf("the list of version %d differs from the events up to it:\n%v\n%v", l.version, l.state, h.now)
	}
}

// mirror follows the source until its state is want, and lists again when necessary. It returns an error that says what is wrong. After its
// first list, even if it failed, it sends to begun, which has room.
func (w *world[T]) mirror(ctx context.Context, want state, begun chan<- struct{}) error {
	signal := sync.OnceFunc(func() { begun <- struct{}{} })
	defer signal()
	var seen informer.Version
	for ctx.Err() == nil {
		list, err := w.Source.List(ctx)
		if err != nil {
			return err
		}
		if list.Version < seen {
			return fmt.Errorf("the list is of version %d, but version %d was seen", list.Version, seen)
		}
		seen = list.Version
		now, err := w.read(list)
		if err != nil {
			return err
		}
		signal()
		if maps.Equal(now, want) {
			return nil
		}
		done, err := w.follow(ctx, now, want, &seen)
		if done || err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}
