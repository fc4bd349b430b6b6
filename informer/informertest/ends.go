package informertest

import (
	"context"
	"errors"
	"testing"

	"github.com/setpoint-go/setpoint/informer"
)

func endCases[T any]() []testCase[T] {
	return []testCase[T]{
		{"the end of its context ends a waiting watch with the cause", func(t testing.TB, s Subject[T]) {
			w := newWorld(t, s)
			watch := w.watch(w.listsTruth())
			watch.sees(w.put("a")) // so it is running
			enough := errors.New("enough")
			watch.cancel(enough)
			if err := watch.end(); !errors.Is(err, enough) {
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
			if !errors.Is(err, enough) {
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
