package informertest_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
)

type pages = iter.Seq2[informer.List[pair], error]

// faultyPager is a source whose pages have a fault.
type faultyPager struct {
	*source
	pages func(s *source, ctx context.Context) pages
}

func (f faultyPager) ListPages(ctx context.Context) pages { return f.pages(f.source, ctx) }

// eachPage is a fault of pages: f changes the nth one.
func eachPage(f func(n int, page *informer.List[pair])) func(*source, context.Context) pages {
	return func(s *source, ctx context.Context) pages {
		return func(yield func(informer.List[pair], error) bool) {
			n := 0
			for page, err := range s.Paged(10).(informer.Pager[pair]).ListPages(ctx) {
				f(n, &page)
				if n++; !yield(page, err) {
					return
				}
			}
		}
	}
}

var pageFaults = []struct {
	name, noticed, message string
	pages                  func(*source, context.Context) pages
}{
	{"an object is on two pages", "in pages: a long list is complete", "has 0 twice",
		eachPage(func(n int, page *informer.List[pair]) {
			if n == 3 {
				page.Items = append(slices.Clone(page.Items), pair{"0", "1"})
			}
		})},
	{"a page is lost", "in pages: a long list is complete", "holds",
		eachPage(func(n int, page *informer.List[pair]) {
			if n == 4 {
				page.Items = nil
			}
		})},
	{"pages are of two versions", "in pages: a long list is complete", "page 3 of the list is of version",
		eachPage(func(n int, page *informer.List[pair]) {
			if n == 2 {
				page.Version++
			}
		})},
	{"an empty source has no page", "in pages: an empty source lists nothing", "has no page",
		func(s *source, ctx context.Context) pages {
			if list, _ := s.List(ctx); len(list.Items) == 0 {
				return func(func(informer.List[pair], error) bool) {}
			}
			return s.Paged(10).(informer.Pager[pair]).ListPages(ctx)
		}},
	{"a page is read after the previous one is consumed", "in pages: a list during changes is consistent with its version", "differs from the events up to it",
		func(s *source, ctx context.Context) pages {
			return func(yield func(informer.List[pair], error) bool) {
				list, _ := s.List(ctx)
				for i := 0; i < max(len(list.Items), 1); i += 10 {
					time.Sleep(time.Millisecond)
					now, _ := s.List(ctx)
					if !yield(informer.List[pair]{Items: now.Items[min(i, len(now.Items)):min(i+10, len(now.Items))], Version: list.Version}, nil) {
						return
					}
				}
			}
		}},
	{"pages end without an error", "pages whose context ends are complete, or end with the cause", "without an error, after 10 objects of 100",
		func(s *source, ctx context.Context) pages {
			return func(yield func(informer.List[pair], error) bool) {
				for page, err := range s.Paged(10).(informer.Pager[pair]).ListPages(ctx) {
					if err != nil || !yield(page, nil) {
						return
					}
				}
			}
		}},
	{"pages do not notice that their loop ended", "a consumer that leaves its loop has ended the pages", "recover from panic",
		func(s *source, ctx context.Context) pages {
			return func(yield func(informer.List[pair], error) bool) {
				for page, err := range s.Paged(10).(informer.Pager[pair]).ListPages(ctx) {
					yield(page, err)
				}
			}
		}},
	{"pages do not end", "pages whose context ends are complete, or end with the cause", "waited",
		func(s *source, ctx context.Context) pages {
			return func(yield func(informer.List[pair], error) bool) {
				for page, err := range s.Paged(10).(informer.Pager[pair]).ListPages(ctx) {
					if err != nil {
						time.Sleep(time.Hour)
					}
					if !yield(page, err) {
						return
					}
				}
			}
		}},
}

func TestSuiteDetectsEveryFaultOfPages(t *testing.T) {
	for _, f := range pageFaults {
		t.Run(f.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failed, _ := informertest.Failures(t, func() informertest.Subject[pair] {
					src := newSource()
					return subject(src, faultyPager{src, f.pages})
				})
				if _, ok := failed[f.noticed]; !ok {
					t.Errorf("failed = %v, want it to contain %v", failed, f.noticed)
				}
				if !strings.Contains(failed[f.noticed], f.message) {
					t.Errorf("failed[f.noticed] = %q, want it to contain %q", failed[f.noticed], f.message)
				}
				time.Sleep(2 * time.Hour) // what sleeps in a faulty source shall end
			})
		})
	}
}

func TestPagesMayFailMidway(t *testing.T) {
	outage := errors.New("no route to host")
	src := newSource()
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		src.Put(pair{name, "1"})
	}
	read := func() (sizes []int, err error) {
		for page, err := range src.Paged(2).(informer.Pager[pair]).ListPages(t.Context()) {
			if err != nil {
				if diff := cmp.Diff(informer.List[pair]{}, page, cmp.AllowUnexported(pair{})); diff != "" {
					t.Errorf("page mismatch (-want +got):\n%s", diff)
				}
				return sizes, err
			}
			if page.Version != informer.Version(5) {
				t.Errorf("page.Version = %v, want %v", page.Version, informer.Version(5))
			}
			sizes = append(sizes, len(page.Items))
		}
		return sizes, nil
	}
	for after, want := range [][]int{nil, {2}, {2, 2}, {2, 2, 1}, {2, 2, 1}} {
		src.FailListsAfter(after, outage)
		sizes, err := read()
		if !errors.Is(err, outage) {
			t.Errorf("err = %v, want %v", err, outage)
		}
		if diff := cmp.Diff(want, sizes); diff != "" {
			t.Errorf("after %d pages: sizes mismatch (-want +got):\n%s", after, diff)
		}
		_, err = src.List(t.Context())
		if !errors.Is(err, outage) {
			t.Errorf("err = %v, want %v", err, outage)
		}
	}
	src.FailLists(nil)
	sizes, err := read()
	if err != nil {
		t.Fatal(err)
	}
	if want := ([]int{2, 2, 1}); !slices.Equal(sizes, want) {
		t.Errorf("sizes = %v, want %v", sizes, want)
	}
	if panicOf(func() { src.Paged(0) }) == nil {
		t.Error("no panic")
	}
}
