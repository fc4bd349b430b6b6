package informertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/informer"
)

func slowCases[T any]() []testCase[T] {
	return []testCase[T]{
		{"a slow consumer misses nothing, or its watch ends", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			version := w.listsTruth()
			slow := w.watch(version)
			slow.sees(w.put("x")) // so it is running
			seen := maps.Clone(w.truth)
			const n = 100
			for i := range 3 * n {
				w.must(within(t.Context(), t, "a change beside a consumer that does not read", func(context.Context) error {
					return s.Put(fmt.Sprint(i%n), i+1)
				}))
			}
			for i := range n {
				w.truth[fmt.Sprint(i)] = 2*n + i + 1
			}
			if err := slow.reaches(seen, w.truth); errors.Is(err, errSilent) {
				t.Logf("the watch has ended without an error, and may be resumed")
			}
			if w.History > 3*n {
				w.must(w.watch(version).reaches(state{}, w.truth))
			}
		}},

		{"a consumer that a compaction overtakes misses nothing, or its watch ends", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			expire := w.expiry()
			version := w.listsTruth()
			slow := w.watch(version)
			slow.sees(w.put("x")) // so it is running
			seen := maps.Clone(w.truth)
			w.story()
			expire()
			w.put("z")
			_ = slow.reaches(seen, w.truth)
		}},

		{"an event does not change afterward", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			ctx, cancel := context.WithTimeout(t.Context(), Patience)
			defer cancel()
			version := w.listsTruth()
			w.needs(1)
			var objects []T
			var seen []string
			text := func(obj T) string {
				name, rev := w.Read(obj)
				return fmt.Sprintf("%s.%d", name, rev)
			}
			w.put("a")
			for ev, err := range w.changes(ctx, version) {
				w.must(err)
				if ev.Type == informer.Bookmark {
					continue
				}
				objects, seen = append(objects, ev.Object), append(seen, text(ev.Object))
				if len(objects) == 4 {
					break
				}
				w.put([]string{"a", "b"}[len(objects)%2])
			}
			for i, obj := range objects {
				if now := text(obj); now != seen[i] {
					t.Fatalf("event %d of a watch was of %s, and its object is %s after later events", i+1, seen[i], now)
				}
			}
			if len(objects) < 4 {
				t.Fatalf("a watch yields %v, and ends", seen)
			}
		}},

		{"a list during changes lacks no other object", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			w.fill()
			for range 5 {
				writing := make(chan error, 1)
				go func() { // writes concurrently with the lists; ends by itself; waited for below
					writing <- func() error {
						for i := range 10 {
							if err := s.Put("x", w.revs+i+1); err != nil {
								return err
							}
						}
						return s.Delete("x")
					}()
				}()
				for range 5 {
					got, version := w.list()
					delete(got, "x")
					if !maps.Equal(got, w.truth) {
						t.Fatalf("a list of version %d during changes of x differs in other objects:\n%s", version, differences(got, w.truth))
					}
				}
				w.must(<-writing)
				w.revs += 10
			}
		}},

		{"an idle watch yields something within the BookmarkPeriod", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			b, ok := s.Source.(informer.Bookmarker)
			if !ok || b.BookmarkPeriod() <= 0 {
				t.Skip("the source promises no bookmarks")
			}
			version := w.listsTruth()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			last, period := time.Now(), b.BookmarkPeriod()
			if period > Patience/3 {
				t.Skip("the period of bookmarks is too long for a test")
			}
			limit := time.AfterFunc(2*period+time.Second, cancel)
			defer limit.Stop()
			n := 0
			for _, err := range w.changes(ctx, version) {
				if ctx.Err() != nil {
					break
				}
				w.must(err)
				limit.Reset(2*period + time.Second) // the machine may be slow
				last = time.Now()
				if n++; n == 3 {
					return
				}
			}
			t.Fatalf("an idle watch with a BookmarkPeriod of %v has yielded nothing for %v", period, time.Since(last))
		}},

		{"changes that commit together are not split", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			if s.Together == nil {
				t.Skip("the subject has no Together, so this suite does not show that a consumer may resume between changes of one version")
			}
			w.needs(2)
			w.put("a")
			w.put("b")
			for i, changes := range [][2]Change{
				{{Name: "a", Rev: 101}, {Name: "b", Rev: 102}},
				{{Name: "b", Rev: 103}, {Name: "c", Rev: 104}},
				{{Name: "a", Rev: 105}, {Name: "b", Delete: true}},
			} {
				version := w.listsTruth()
				live := w.watch(version)
				w.must(s.Together(changes[0], changes[1]))
				now := maps.Clone(w.truth)
				w.truth.change(changes[0])
				w.truth.change(changes[1])
				if i == 0 {
					w.revs = 110
				}
				w.must(live.reaches(maps.Clone(now), w.truth))
				_, done := w.list()
				// A consumer that leaves its loop after each event.
				for after := version; !maps.Equal(now, w.truth); {
					ctx, cancel := context.WithTimeout(t.Context(), Patience)
					for ev, err := range w.changes(ctx, after) {
						if ctx.Err() != nil {
							t.Fatalf("a consumer that resumes after version %d has %v, and the source %v", after, now, w.truth)
						}
						w.must(err)
						if ev.Type != informer.Bookmark && ev.Version == after {
							// It does not advance, so it must read on.
							now.change(w.changeOf(ev))
							continue
						}
						if after = ev.Version; ev.Type != informer.Bookmark {
							now.change(w.changeOf(ev))
						} else if after >= done && !maps.Equal(now, w.truth) {
							t.Fatalf("a consumer that resumes after each version gets a bookmark of version %d, and has %v, and the source %v", after, now, w.truth)
						}
						break
					}
					cancel()
				}
			}
		}},
	}
}

// changeOf returns the change that an event, which is no bookmark, reports.
func (w *world[T]) changeOf(ev informer.Event[T]) Change {
	c := Change{Delete: ev.Type == informer.Deleted}
	c.Name, c.Rev = w.Read(ev.Object)
	return c
}

// reaches applies the events of the watch to now until it is want. It returns the error with which the watch ends before that. Two events may
// have one version.
func (r *watcher[T]) reaches(now, want state) error {
	r.t.Helper()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	for !maps.Equal(now, want) {
		select {
		case ev := <-r.events:
			switch {
			case ev.Version < r.last:
				r.t.Fatalf("an event is of version %d, but version %d was seen", ev.Version, r.last)
			case ev.Type != informer.Bookmark:
				c := change{what: ev.Type, version: ev.Version, keyOnly: ev.KeyOnly, merged: r.merges}
				c.name, c.rev = r.read(ev.Object)
				if err := now.apply(c); err != nil {
					r.t.Fatalf("the watch yields: %v", err)
				}
			}
			r.last = ev.Version
			timer.Reset(Patience)
		case <-r.ended:
			return r.end()
		case <-timer.C:
			r.t.Fatalf("the watch has yielded nothing for %v, at version %d, and differs from the source:\n%s", Patience, r.last, differences(now, want))
		}
	}
	return nil
}
