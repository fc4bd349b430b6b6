package informertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/wait"
)

func watchCases[T any]() []testCase[T] {
	return []testCase[T]{
		{"a watch yields each change after its list, once and in order", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			w.put("x")
			watch := w.watch(w.listsTruth())
			for _, step := range []func() change{
				func() change { return w.put("a") },
				func() change { return w.put("x") },
				func() change { return w.put("b") },
				func() change { return w.put("a") },
				func() change { return w.delete("x") },
			} {
				watch.sees(step())
			}
		}},

		{"a deletion carries the last state, and a creation after it is new", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			w.put("a")
			watch := w.watch(w.listsTruth())
			watch.sees(w.put("a"))
			watch.sees(w.delete("a"))
			watch.sees(w.put("a"))
			watch.sees(w.delete("a"))
		}},

		{"a change between a list and its watch is not missed", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			w.needs(1)
			w.put("a")
			version := w.listsTruth()
			c := w.put("a")
			watch := w.watch(version)
			watch.sees(c)
			watch.sees(w.delete("a"))
		}},

		{"a watch from any version yields the rest", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			w.needs(storyChanges + 1)
			watch := w.watch(w.listsTruth())
			versions := []informer.Version{watch.last}
			var story []change
			for _, step := range w.steps() {
				c := step()
				watch.sees(c)
				story, versions = append(story, c), append(versions, watch.last)
			}
			last := w.put("d")
			for i, version := range versions {
				w.watch(version).sees(append(story[i:len(story):len(story)], last)...)
			}
		}},

		{"a watch resumes where its loop ended", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			w.needs(storyChanges)
			if w.Merges {
				t.Skip("the source may skip states")
			}
			version := w.listsTruth()
			for _, c := range w.story() {
				watch := w.watch(version)
				watch.sees(c)
				watch.leave()
				version = watch.last
			}
		}},

		{"two watches yield the same events", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			version := w.listsTruth()
			one, two := w.watch(version), w.watch(version)
			for range 3 {
				for _, step := range []func() change{
					func() change { return w.put("a") },
					func() change { return w.put("a") },
					func() change { return w.delete("a") },
				} {
					c := step()
					one.sees(c)
					two.sees(c)
				}
			}
		}},

		{"after a bookmark nothing is missed or repeated", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			if s.Bookmark == nil {
				t.Skip("the source has no bookmarks")
			}
			watch := w.watch(w.listsTruth())
			watch.sees(w.put("a"))
			w.must(s.Bookmark())
			c, err := watch.event()
			if err != nil || c.what != informer.Bookmark {
				t.Fatalf("the watch yields: %v, %v; want: a bookmark", c, err)
			}
			resumed := w.watch(watch.last)
			c = w.put("b")
			watch.sees(c)
			resumed.sees(c)
		}},

		{"the latest version covers every change, and a watch reaches it", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			v, ok := s.Source.(informer.Versioner)
			if !ok {
				t.Skip("the source does not tell its latest version")
			}
			latest := func() (version informer.Version) {
				w.must(within(t.Context(), t, "the latest version", func(ctx context.Context) (err error) {
					version, err = v.LatestVersion(ctx)
					return err
				}))
				return version
			}
			watch := w.watch(w.listsTruth())
			for _, step := range w.steps() {
				before := watch.last
				c := step()
				version := latest()
				if version <= before {
					t.Fatalf("the latest version is %d, but a watch at version %d lacks: %v", version, before, c)
				}
				watch.sees(c)
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				_ = within(ended, t, "the end of a call of LatestVersion", func(ctx context.Context) error {
					_, err := v.LatestVersion(ctx)
					return err
				})
				for watch.last < version {
					if c, err := watch.event(); err != nil || c.what != informer.Bookmark {
						t.Fatalf("the watch yields: %v, %v; want: a bookmark of version %d", c, err, version)
					}
				}
			}
		}},

		{"each loop over a watch starts at the same version", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			w.needs(1)
			ctx, cancel := context.WithTimeout(t.Context(), Patience)
			defer cancel()
			watch := w.Source.Watch(ctx, w.listsTruth())
			want := w.put("a")
			for range 2 {
				for ev, err := range watch {
					if goesOn(err) {
						continue
					}
					w.must(err)
					if ev.Type == informer.Bookmark {
						continue
					}
					if name, rev := w.Read(ev.Object); name != want.name || rev != want.rev {
						t.Fatalf("the loop begins with %s.%d, want: %v", name, rev, want)
					}
					break
				}
			}
		}},

		{"a consumer may list and change the source inside its loop", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			version := w.listsTruth()
			w.must(within(t.Context(), t, "changes inside a loop", func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(ctx, Patience)
				defer cancel()
				if err := s.Put("a", 1); err != nil {
					return err
				}
				for ev, err := range w.changes(ctx, version) {
					if err != nil {
						return err
					}
					if ev.Type == informer.Bookmark {
						continue
					}
					if name, _ := w.Read(ev.Object); name == "b" {
						return nil
					}
					if _, err := s.Source.List(ctx); err != nil {
						return err
					}
					if err := s.Put("b", 2); err != nil {
						return err
					}
				}
				return errors.New("the watch has ended")
			}))
		}},

		{"a consumer that does not read on delays no other", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			w.needs(storyChanges + 1)
			version := w.listsTruth()
			ctx, cancel := context.WithCancel(t.Context())
			stuck, done := make(chan struct{}), make(chan struct{})
			go func() { // ends with ctx, after its loop; waited for below
				defer close(done)
				_ = wait.Call(ctx, func(ctx context.Context) error { // a panic is the subject of another case
					for ev, err := range w.changes(ctx, version) {
						if err == nil && ev.Type != informer.Bookmark {
							close(stuck)
							<-ctx.Done()
						}
						return nil
					}
					return nil
				})
			}()
			defer func() {
				cancel()
				<-done
			}()
			first := w.put("x")
			select {
			case <-stuck:
			case <-done: // it has an error or a bookmark, so nothing holds the others up
			case <-time.After(Patience):
				t.Fatalf("the watch has yielded nothing for %v", Patience)
			}
			other := w.watch(version)
			other.sees(first)
			for _, step := range w.steps() {
				other.sees(step())
			}
		}},

		{"a list that begins after an event shows its change", func(t testing.TB, s Subject[T]) {
			const names, revs = 5, 8
			w := newWorld(t, s)
			ctx, cancel := context.WithTimeout(t.Context(), Patience)
			defer cancel()
			version := w.listsTruth()
			writing := make(chan error, 1)
			go func() { // writes concurrently with the watch; ends by itself; waited for below
				writing <- func() error {
					for i := range names * revs {
						if err := s.Put(fmt.Sprint(i%names), i+1); err != nil {
							return err
						}
					}
					return errors.Join(s.Delete("0"), s.Put("end", names*revs+1))
				}()
			}()
			for ended := false; !ended; {
				for ev, err := range w.changes(ctx, version) {
					now, listed := w.list()
					if errors.Is(err, informer.ErrExpired) {
						version = listed
						_, ended = now["end"]
						break
					}
					w.must(err)
					version = ev.Version
					if ev.Type == informer.Bookmark {
						continue
					}
					c := change{what: ev.Type, version: ev.Version}
					c.name, c.rev = w.Read(ev.Object)
					rev, exists := now[c.name]
					switch {
					case listed < c.version:
						t.Fatalf("the watch yields: %v; a list that begins after that is of version %d", c, listed)
					case c.what == informer.Deleted && exists:
						t.Fatalf("the watch yields: %v; a list that begins after that has %s.%d", c, c.name, rev)
					case c.what != informer.Deleted && rev < c.rev && (exists || c.name != "0"):
						t.Fatalf("the watch yields: %v; a list that begins after that has %v", c, now)
					}
					if ended = c.name == "end"; ended {
						break
					}
				}
			}
			w.must(<-writing)
		}},

		{"a consumer that lists and watches during changes converges", func(t testing.TB, s Subject[T]) {
			const readers, names, revs = 3, 7, 20
			w := newWorld(t, s)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			limit := time.AfterFunc(Patience, func() { cancel(fmt.Errorf("what is true was not seen for %v", Patience)) })
			defer limit.Stop()
			want := state{}
			for i := range names {
				want[fmt.Sprint(i)] = names*(revs-1) + i + 1
			}
			delete(want, "0")
			begun, results := make(chan struct{}, readers), make(chan error, readers)
			for range readers {
				go func() { // reads concurrently with the writer; ends with ctx; the loop below waits for it
					results <- wait.Call(ctx, func(ctx context.Context) error { return w.mirror(ctx, want, begun) })
				}()
			}
			for range readers { // or they would see only the end
				select {
				case <-begun:
				case <-ctx.Done():
					t.Fatalf("%v", context.Cause(ctx))
				}
			}
			for i := range names * revs {
				w.must(s.Put(fmt.Sprint(i%names), i+1))
				if i%names == 0 {
					w.must(s.Delete("0"))
				}
				limit.Reset(Patience) // the writes may take long together
			}
			var errs []error
			for range readers {
				errs = append(errs, <-results)
			}
			w.must(errors.Join(errs...))
		}},
	}
}

// follow reads a watch until the state is want. It returns false if a new list is needed.
func (w *world[T]) follow(ctx context.Context, now, want state, seen *informer.Version) (done bool, err error) {
	for ev, err := range w.changes(ctx, *seen) {
		switch {
		case errors.Is(err, informer.ErrExpired):
			return false, nil
		case err != nil:
			return false, err
		case ev.Version < *seen || ev.Version == *seen && ev.Type != informer.Bookmark:
			return false, fmt.Errorf("an event is of version %d, but version %d was seen", ev.Version, *seen)
		}
		*seen = ev.Version
		if ev.Type == informer.Bookmark {
			continue
		}
		c := change{what: ev.Type, version: ev.Version, keyOnly: ev.KeyOnly, merged: w.Merges}
		c.name, c.rev = w.Read(ev.Object)
		if err := now.apply(c); err != nil {
			return false, err
		}
		if maps.Equal(now, want) {
			return true, nil
		}
	}
	return false, nil
}
