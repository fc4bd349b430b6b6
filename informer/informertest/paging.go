package informertest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"testing"

	"github.com/setpoint-go/setpoint/informer"
)

// pageCases are for sources that are a Pager: the cases for lists also hold for the collected pages.
func pageCases[T any]() []testCase[T] {
	inPages := collectedCases("in pages", func(t testing.TB, s Subject[T]) listing[T] { return pagerOf(t, s).ListPages })
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

// rangeCases are for sources that are a RangeLister: the cases for lists also hold for a list of all ranges.
func rangeCases[T any]() []testCase[T] {
	inRanges := collectedCases("in ranges", func(t testing.TB, s Subject[T]) listing[T] {
		list, third := rangesOf(t, s), uint64(hashes/3)
		return func(ctx context.Context) iter.Seq2[informer.List[T], error] {
			return list(ctx, []informer.HashRange{{From: 0, To: third}, {From: third, To: 2 * third}, {From: 2 * third, To: hashes}})
		}
	})
	return append(inRanges, testCase[T]{"each object is in one range", func(t testing.TB, s Subject[T]) {
		w, list := newWorld(t, s), rangesOf(t, s)
		w.fill()
		const parts = 16
		all := state{}
		w.must(within(t.Context(), t, "the lists of ranges", func(ctx context.Context) error {
			for part := range uint64(parts) {
				// Half of a part, then the other half together with one that is somewhere else, and has no objects.
				for _, ranges := range [][]informer.HashRange{
					{{From: part * hashes / parts, To: part*hashes/parts + hashes/parts/2}},
					{{From: 0, To: 0}, {From: part*hashes/parts + hashes/parts/2, To: (part + 1) * hashes / parts}},
				} {
					l, err := informer.Collect(list(ctx, ranges))
					if err != nil {
						return err
					}
					some, err := w.read(l)
					if err != nil {
						return err
					}
					for name, rev := range some {
						if _, twice := all[name]; twice {
							return fmt.Errorf("object %s is in two ranges", name)
						}
						all[name] = rev
					}
				}
			}
			return nil
		}))
		if !maps.Equal(all, w.truth) {
			t.Fatalf("the ranges have %d of %d objects", len(all), len(w.truth))
		}
	}})
}

// hashes is the number of hashes.
const hashes = 1 << 32

// rangesOf returns the method ListRanges of the source of s, or skips the case.
func rangesOf[T any](t testing.TB, s Subject[T]) func(context.Context, []informer.HashRange) iter.Seq2[informer.List[T], error] {
	t.Helper()
	lister, ok := s.Source.(informer.RangeLister[T])
	if !ok || lister.ListRanges(t.Context(), nil) == nil {
		t.Skip("the source does not list ranges of hashes")
	}
	return lister.ListRanges
}

// listing lists in pages.
type listing[T any] = func(context.Context) iter.Seq2[informer.List[T], error]

// collectedCases returns the cases for lists, for the collected pages of a listing of the source.
func collectedCases[T any](prefix string, listingOf func(testing.TB, Subject[T]) listing[T]) []testCase[T] {
	var all []testCase[T]
	for _, c := range listCases[T]() {
		all = append(all, testCase[T]{prefix + ": " + c.name, func(t testing.TB, s Subject[T]) {
			s.Source = &collected[T]{s.Source, listingOf(t, s)}
			c.run(t, s)
		}})
	}
	return all
}

// collected is a source whose lists are collected pages.
type collected[T any] struct {
	informer.ListWatcher[T]
	pages listing[T]
}

func (c *collected[T]) List(ctx context.Context) (informer.List[T], error) {
	return informer.Collect(c.pages(ctx))
}
