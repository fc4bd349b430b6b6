package informertest

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
)

func endCases[T any]() []testCase[T] {
	return []testCase[T]{
		{"the end of its context ends a waiting watch with the cause", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			watch := w.watch(w.listsTruth())
			watch.sees(w.put("a")) // so it is running
			enough := errors.New("enough")
			watch.cancel(enough)
			if err := watch.end(); !errors.Is(err, enough) || errors.Is(err, informer.ErrExpired) {
				t.Fatalf("the watch ends with the error %q, want the cause of the end of its context", err)
			}
		}},

		{"a watch whose context has ended ends with the cause", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			version := w.listsTruth()
			ctx, cancel := context.WithCancelCause(t.Context())
			enough := errors.New("enough")
			cancel(enough)
			err := within(ctx, t, "the end of a watch", func(ctx context.Context) error {
				for _, err := range w.changes(ctx, version) {
					return err
				}
				return errSilent
			})
			if !errors.Is(err, enough) || errors.Is(err, informer.ErrExpired) {
				t.Fatalf("the watch ends with the error %v, want the cause of the end of its context", err)
			}
		}},

		{"a list returns when its context ends", func(t testing.TB, s Subject[T]) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			newWorld(t, s).must(within(ctx, t, "the end of a list", func(ctx context.Context) error {
				_, _ = s.Source.List(ctx) // it may succeed or fail
				return nil
			}))
		}},

		{"a list whose context ends is complete, or fails", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			w.fill()
			begin := time.Now()
			w.listsTruth()
			took := time.Since(begin)
			for i := range 10 {
				ctx, cancel := context.WithTimeout(t.Context(), took*time.Duration(i)/8)
				var list informer.List[T]
				err := within(ctx, t, "the end of a list", func(ctx context.Context) (err error) {
					list, err = s.Source.List(ctx)
					return err
				})
				cancel()
				if err != nil {
					continue
				}
				got, err := w.read(list)
				w.must(err)
				if !maps.Equal(got, w.truth) {
					t.Fatalf("a list whose context has ended has no error, and %d of %d objects", len(got), len(w.truth))
				}
			}
		}},

		{"the source works after calls whose contexts have ended", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			w.put("a")
			for range 3 {
				version := w.listsTruth()
				ended := w.watch(version)
				ended.cancel(errors.New("enough"))
				_ = ended.end()
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				_ = within(ctx, t, "the end of a list", func(ctx context.Context) error {
					_, err := s.Source.List(ctx)
					return err
				})
				watch := w.watch(version)
				watch.sees(w.put("a"))
				watch.leave()
				w.listsTruth()
			}
		}},

		{"a watch that has ended leaves nothing behind", func(t testing.TB, s Subject[T]) {
			started := looptest.Started(t)
			w := newWorld(t, s)
			w.needs(2)
			once := func() {
				version := w.listsTruth()
				left := w.watch(version)
				left.sees(w.put("a"))
				left.leave()
				ended := w.watch(version)
				_, err := ended.next()
				w.must(err)
				ended.cancel(nil)
				_ = ended.end()
				w.put("a") // so that left notices
				_ = left.end()
			}
			once() // leftovers of the first watch, such as a connection in a pool, may stay
			before := started()
			for range 20 {
				once()
			}
			for end := time.Now().Add(Patience); started() > before+5; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%d goroutines were left before 40 watches, and %d after", before, started())
				}
			}
		}},

		{"breaking the loop ends the watch", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			watch := w.watch(w.listsTruth())
			first := w.put("a")
			watch.sees(first)
			watch.leave()
			w.put("a") // to be rejected
			if err := watch.end(); !errors.Is(err, errSilent) {
				t.Fatalf("the watch ends with the error %q, although its loop has ended", err)
			}
		}},

		{"a watch from a version that is too old ends with ErrExpired", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			expire := w.expiry()
			old := w.listsTruth()
			w.story()
			expire()
			_, err := w.watch(old).next()
			if !errors.Is(err, informer.ErrExpired) {
				t.Fatalf("the watch from version %d ends with the error %v, want ErrExpired", old, err)
			}
		}},

		{"a list allows watching again after ErrExpired", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			expire := w.expiry()
			w.story()
			expire()
			_, version := w.list()
			w.watch(version).sees(w.put("z"))
		}},
	}
}

// expiry returns the function that expires the history, or skips the case.
func (w *world[T]) expiry() func() {
	w.t.Helper()
	if w.Expire == nil {
		w.t.Skip("the source cannot be made to forget")
	}
	return func() { w.must(w.Expire()) }
}
