package informertest_test

import (
	"context"
	"errors"
	"hash/fnv"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	{"pages do not notice that their loop ended", "a consumer that leaves its loop has ended the pages", "panic: runtime error",
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
				assert.Contains(t, failed, f.noticed)
				assert.Contains(t, failed[f.noticed], f.message)
				time.Sleep(2 * time.Hour) // what sleeps in a faulty source shall end
			})
		})
	}
}

// rangeLister is a source that lists ranges of hashes, by a condition that may have a fault.
type rangeLister struct {
	*source
	in func(hash uint64, r informer.HashRange) bool
}

func (l rangeLister) ListRanges(ctx context.Context, ranges []informer.HashRange) pages {
	return func(yield func(informer.List[pair], error) bool) {
		list, err := l.List(ctx)
		var in []pair
		for _, p := range list.Items {
			h := fnv.New32a()
			_, _ = h.Write([]byte(p.name))
			for _, r := range ranges {
				if l.in(uint64(h.Sum32())&^0xfffff, r) { // so that some hashes are the bounds of ranges
					in = append(in, p)
				}
			}
		}
		list.Items = in
		yield(list, err)
	}
}

func TestSuiteDetectsEveryFaultOfRanges(t *testing.T) {
	const case1 = "each object is in one range"
	for name, f := range map[string]struct {
		in      func(hash uint64, r informer.HashRange) bool
		message string
	}{
		"the end is in the range":       {func(h uint64, r informer.HashRange) bool { return r.From <= h && h <= r.To }, "is in two ranges"},
		"the begin is not in the range": {func(h uint64, r informer.HashRange) bool { return r.From < h && h < r.To }, "the ranges have"},
		"the range has everything":      {func(uint64, informer.HashRange) bool { return true }, "twice"},
		"the hash is that of another":   {func(h uint64, r informer.HashRange) bool { return r.From <= h+1<<31 && h+1<<31 < r.To }, "the ranges have"},
		"an empty range is open-ended":  {func(h uint64, r informer.HashRange) bool { return r.From <= h && (h < r.To || r.To == 0) }, "twice"},
		"the bounds have 31 bits":       {func(h uint64, r informer.HashRange) bool { return r.From&0x7fffffff <= h && h < r.To&0x7fffffff }, "is in two ranges"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failed, _ := informertest.Failures(t, func() informertest.Subject[pair] {
					src := newSource()
					return subject(src, rangeLister{src, f.in})
				})
				assert.Contains(t, failed[case1], f.message)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		failed, _ := informertest.Failures(t, func() informertest.Subject[pair] {
			src := newSource()
			return subject(src, rangeLister{src, func(h uint64, r informer.HashRange) bool { return r.From <= h && h < r.To }})
		})
		assert.Empty(t, failed)
	})
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
				assert.Zero(t, page)
				return sizes, err
			}
			assert.Equal(t, informer.Version(5), page.Version)
			sizes = append(sizes, len(page.Items))
		}
		return sizes, nil
	}
	for after, want := range [][]int{nil, {2}, {2, 2}, {2, 2, 1}, {2, 2, 1}} {
		src.FailListsAfter(after, outage)
		sizes, err := read()
		assert.ErrorIs(t, err, outage)
		assert.Equal(t, want, sizes, "after %d pages", after)
		_, err = src.List(t.Context())
		assert.ErrorIs(t, err, outage)
	}
	src.FailLists(nil)
	sizes, err := read()
	require.NoError(t, err)
	assert.Equal(t, []int{2, 2, 1}, sizes)
	assert.Panics(t, func() { src.Paged(0) })
}
