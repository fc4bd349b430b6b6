package informertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/setpoint-go/setpoint/informer"
)

// pageCases are for sources that are a Pager: the cases for lists also hold for the collected pages.
func pageCases[T any]() []testCase[T] {
	var inPages []testCase[T]
	for _, c := range listCases[T]() {
		inPages = append(inPages, testCase[T]{"in pages: " + c.name, func(t testing.TB, s Subject[T]) {
			s.Source = &collected[T]{s.Source, pagerOf(t, s)}
			c.run(t, s)
		}})
	}
	return append(inPages, testCase[T]{"pages whose context ends are complete, or end with the cause", func(t testing.TB, s Subject[T]) {
		w, pager := newWorld(t, s), pagerOf(t, s)
		w.fill()
		enough := errors.New("enough")
		err := within(t.Context(), t, "the end of the pages", func(ctx context.Context) error {
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			got := state{}
			for page, err := range pager.ListPages(ctx) {
				if err != nil {
					return err
				}
				cancel(enough)
				read, err := w.read(page)
				if err != nil {
					return err
				}
				maps.Copy(got, read)
			}
			if !maps.Equal(got, w.truth) {
				return fmt.Errorf("they end without an error, after %d objects of %d", len(got), len(w.truth))
			}
			return enough
		})
		if !errors.Is(err, enough) {
			t.Fatalf("the pages end with the error %q, want the cause of the end of their context", err)
		}
	}}, testCase[T]{"a consumer that leaves its loop has ended the pages", func(t testing.TB, s Subject[T]) {
		w, pager := newWorld(t, s), pagerOf(t, s)
		w.fill()
		w.must(within(t.Context(), t, "the end of the pages", func(ctx context.Context) error {
			for range pager.ListPages(ctx) {
				break
			}
			return nil
		}))
		w.put("0")
		w.listsTruth()
	}})
}

// pagerOf returns the source of s as a Pager, or skips the case.
func pagerOf[T any](t testing.TB, s Subject[T]) informer.Pager[T] {
	t.Helper()
	pager, ok := s.Source.(informer.Pager[T])
	if !ok {
		t.Skip("the source does not list in pages")
	}
	return pager
}

// collected is a source whose lists are its collected pages.
type collected[T any] struct {
	informer.ListWatcher[T]
	pager informer.Pager[T]
}

func (c *collected[T]) List(ctx context.Context) (informer.List[T], error) {
	return informer.Collect(c.pager.ListPages(ctx))
}
