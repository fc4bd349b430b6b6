package informer_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
)

func TestPagedListIsAppliedAtomically(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		for i := range 100 {
			src.Put(site{Name: fmt.Sprint(i), Rev: i})
		}
		var errs errorLog
		in := must(informer.New(src.Paged(7), nameOf, informer.Config{Name: "sites", Backoff: exact, OnError: errs.Add}))
		r := newRecorder(t)
		r.gaps = true
		r.check = func() { assert.Equal(t, 100, in.Indexer().Len()) }
		r.add(in)
		src.FailListsAfter(3, errOutage)
		start(t, in)
		assert.Empty(t, contents(in))
		assert.False(t, in.HasSynced())
		got := errs.Take()
		require.Len(t, got, 1)
		assert.EqualError(t, got[0], "informer: list sites: no route to host")

		src.FailLists(nil)
		time.Sleep(800 * time.Millisecond)
		assert.Len(t, r.take(), 100)
		assert.Equal(t, src.Version(), in.Version())

		// A list that fails in the middle has no effect.
		src.Fail(errOutage)
		for i := range 100 {
			src.Delete(fmt.Sprint(i))
			src.Put(site{Name: fmt.Sprint("new", i), Rev: 100 + i})
		}
		src.Compact()
		src.FailWatches(nil)
		src.FailListsAfter(14, errOutage)
		before := in.Version()
		time.Sleep(time.Hour)
		assert.Empty(t, r.take())
		assert.Equal(t, before, in.Version())
		assert.NotEmpty(t, errs.Take())
		src.FailLists(nil)
		time.Sleep(time.Minute)
		assert.Len(t, r.take(), 200)
		assert.Len(t, contents(in), 100)
	})
}

// paged is a source whose pages are a function.
type paged struct {
	scripted
	pages func(ctx context.Context) iter.Seq2[informer.List[site], error]
}

func (p paged) ListPages(ctx context.Context) iter.Seq2[informer.List[site], error] {
	return p.pages(ctx)
}

// pagesOf yields pages with one object of each name, and the versions.
func pagesOf(versions ...informer.Version) iter.Seq2[informer.List[site], error] {
	return func(yield func(informer.List[site], error) bool) {
		for i, v := range versions {
			if !yield(informer.List[site]{Items: []site{{Name: fmt.Sprint(i)}}, Version: v}, nil) {
				return
			}
		}
	}
}

func TestInvalidPagesAreRejected(t *testing.T) {
	for _, c := range []struct {
		name  string
		pages iter.Seq2[informer.List[site], error]
		want  string
	}{
		{"of two versions", pagesOf(5, 5, 6), "page 3 of the list is of version 6, the first one of version 5"},
		{"none", pagesOf(), "the list has no page"},
		{"a panic", func(func(informer.List[site], error) bool) { panic("oh dear") }, "panic: oh dear"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var errs errorLog
				var pages knob[iter.Seq2[informer.List[site], error]]
				pages.set(c.pages)
				in := must(informer.New(paged{pages: func(context.Context) iter.Seq2[informer.List[site], error] { return pages.get() }},
					nameOf, informer.Config{Name: "sites", Backoff: exact, OnError: errs.Add}))
				start(t, in)
				got := errs.Take()
				require.Len(t, got, 1)
				assert.EqualError(t, got[0], "informer: list sites: "+c.want)
				assert.Empty(t, contents(in))
				pages.set(pagesOf(7, 7))
				time.Sleep(800 * time.Millisecond)
				synctest.Wait()
				assert.Len(t, contents(in), 2)
				assert.Equal(t, informer.Version(7), in.Version())
			})
			if c.name != "a panic" {
				_, err := informer.Collect(c.pages)
				assert.EqualError(t, err, "informer: collect pages: "+c.want)
			}
		})
	}
	_, err := informer.Collect(func(yield func(informer.List[site], error) bool) {
		assert.False(t, yield(informer.List[site]{}, errOutage))
	})
	assert.ErrorIs(t, err, errOutage)
}

// A page of an older version ends the list: no other page is read.
func TestOlderPageEndsList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs errorLog
		var version knob[informer.Version]
		version.set(5)
		var asked atomic.Int32
		in := must(informer.New(paged{
			pages: func(context.Context) iter.Seq2[informer.List[site], error] {
				return func(yield func(informer.List[site], error) bool) {
					for n := 1; n <= 3; n++ {
						asked.Store(int32(n))
						if !yield(informer.List[site]{Version: version.get()}, nil) {
							return
						}
					}
				}
			},
			scripted: scripted{watch: func(ctx context.Context, _ informer.Version) iter.Seq2[informer.Event[site], error] {
				return func(yield func(informer.Event[site], error) bool) {
					time.Sleep(time.Minute)
					yield(informer.Event[site]{}, informer.ErrExpired)
				}
			}},
		}, nameOf, informer.Config{Name: "sites", Backoff: exact, OnError: errs.Add}))
		start(t, in)
		assert.Equal(t, int32(3), asked.Load())
		version.set(4)
		time.Sleep(time.Minute)
		got := errs.Take()
		require.Len(t, got, 1)
		assert.EqualError(t, got[0], "informer: list sites: the list is of version 4, but version 5 was seen")
		assert.Equal(t, int32(1), asked.Load())
	})
}

// A source that stops when its context ends must not be mistaken for a complete list.
func TestPagesEndingWithContextAreIncomplete(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	again := false
	d := informer.Driver[string, site]{In: must(informer.New(paged{pages: func(call context.Context) iter.Seq2[informer.List[site], error] {
		return func(yield func(informer.List[site], error) bool) {
			yield(informer.List[site]{Items: []site{{Name: "a"}}, Version: 1}, nil)
			cancel()
			if !again {
				<-call.Done()
				again = true
			}
		}
	}}, nameOf, informer.Config{OnError: func(err error) { t.Error(err) }}))}
	d.Reflect(ctx)
	assert.True(t, d.Idle())
	_, watches := d.Seen()
	assert.False(t, watches)

	d.Reflect(t.Context())
	d.Apply()
	assert.Len(t, contents(d.In), 1)
}

func TestDerivedSourcesListByPages(t *testing.T) {
	src := newSource()
	for i := range 10 {
		src.Put(site{Name: fmt.Sprint(i), Rev: i})
	}
	paged := src.Paged(4)
	for name, derived := range map[string]informer.ListWatcher[site]{
		"filter": informer.Filter(paged, func(s site) bool { return s.Rev != 5 }),
		"map":    informer.Map(paged, func(s site) site { return s }),
	} {
		var sizes []int
		for page, err := range derived.(informer.Pager[site]).ListPages(t.Context()) {
			require.NoError(t, err)
			assert.Equal(t, informer.Version(10), page.Version)
			if sizes = append(sizes, len(page.Items)); len(sizes) == 3 {
				break
			}
		}
		want := []int{4, 4, 2}
		if name == "filter" {
			want = []int{4, 3, 2}
		}
		assert.Equal(t, want, sizes, name)
		src.FailListsAfter(1, errOutage)
		n := 0
		for page, err := range derived.(informer.Pager[site]).ListPages(t.Context()) {
			if n++; n == 2 {
				assert.ErrorIs(t, err, errOutage)
				assert.Zero(t, page)
			}
		}
		assert.Equal(t, 2, n, name)
		src.FailLists(nil)
	}
}

// The slices of a list can be freed once the list is applied, even if one of its objects is still referenced.
func TestListIsNotKeptAliveByItsObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slices knob[[]weak.Pointer[[1000]*site]]
		page := func() []*site {
			items, before := new([1000]*site), slices.get()
			for i := range items {
				items[i] = &site{Name: fmt.Sprint(len(before), ".", i)}
			}
			slices.set(append(before, weak.Make(items)))
			return items[:]
		}
		n := 0
		src := &pointers{list: func() []informer.List[*site] {
			n++
			return []informer.List[*site]{{Items: page(), Version: informer.Version(n)}, {Items: page(), Version: informer.Version(n)}}
		}}
		in := must(informer.New(src, func(s *site) string { return s.Name }, informer.Config{}))
		gate := make(chan struct{})
		calls := 0
		_, err := in.AddHandler(informer.Handler[string, *site]{OnAdd: func(*site, bool) { calls++; <-gate }})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- in.Run(ctx) }() // ends with ctx; waited for below
		defer func() { close(gate); cancel(); assert.NoError(t, <-ended) }()
		for lists := 1; lists <= 2; lists++ {
			time.Sleep(time.Duration(lists-1) * time.Minute) // the watch expires
			synctest.Wait()
			require.Equal(t, 2000, in.Indexer().Len())
			require.Len(t, slices.get(), 2*lists)
			runtime.GC()
			for i, s := range slices.get() {
				assert.Nil(t, s.Value(), "page %d is still in memory", i)
			}
		}
		require.Equal(t, 1, calls)
	})
}

// pointers is a source of pointers, which is listed again each minute.
type pointers struct {
	list func() []informer.List[*site]
}

func (p *pointers) List(context.Context) (informer.List[*site], error) {
	return informer.List[*site]{}, errors.New("it is listed by pages")
}

func (p *pointers) ListPages(context.Context) iter.Seq2[informer.List[*site], error] {
	return func(yield func(informer.List[*site], error) bool) {
		for _, page := range p.list() {
			if !yield(page, nil) {
				return
			}
		}
	}
}

func (p *pointers) Watch(ctx context.Context, _ informer.Version) iter.Seq2[informer.Event[*site], error] {
	return func(yield func(informer.Event[*site], error) bool) {
		select {
		case <-time.After(time.Minute):
			yield(informer.Event[*site]{}, informer.ErrExpired)
		case <-ctx.Done():
		}
	}
}

// halfRead is a source of numbers, in two pages, of which it cannot read some.
type halfRead struct{}

func (halfRead) List(ctx context.Context) (informer.List[int], error) {
	return informer.Collect(halfRead{}.ListPages(ctx))
}

func (halfRead) ListPages(context.Context) iter.Seq2[informer.List[int], error] {
	return func(yield func(informer.List[int], error) bool) {
		_ = yield(informer.List[int]{Version: 3, Items: []int{1, 2}, Unread: []informer.Unread[int]{{3, errOutage}}, Missing: []error{errOutage}}, nil) &&
			yield(informer.List[int]{Version: 3, Items: []int{4}, Unread: []informer.Unread[int]{{Object: 5}}}, nil)
	}
}

func (halfRead) Watch(context.Context, informer.Version) iter.Seq2[informer.Event[int], error] {
	return func(yield func(informer.Event[int], error) bool) {
		yield(informer.Event[int]{Type: informer.Unreadable, Object: 3, Err: errOutage, Version: 4}, nil)
	}
}

func TestDerivedSourcesPassUnreadKeysOn(t *testing.T) {
	unread := []informer.Unread[int]{{3, errOutage}, {Object: 5}}
	for name, src := range map[string]informer.ListWatcher[int]{
		"itself": halfRead{},
		"filter": informer.Filter[int](halfRead{}, func(int) bool { return true }),
		"map":    informer.Map[int, int](halfRead{}, func(n int) int { return n }),
	} {
		l, err := src.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, informer.List[int]{Version: 3, Items: []int{1, 2, 4}, Unread: unread, Missing: []error{errOutage}}, l, name)
		var types []informer.Event[int]
		for ev, err := range src.Watch(t.Context(), 3) {
			require.NoError(t, err)
			types = append(types, ev)
		}
		assert.Equal(t, []informer.Event[int]{{Type: informer.Unreadable, Object: 3, Err: errOutage, Version: 4}}, types, name)
	}
	none := informer.Filter[int](halfRead{}, func(int) bool { return false })
	l, err := none.List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, unread, l.Unread, "it is unknown whether they pass")
	assert.Equal(t, []error{errOutage}, l.Missing)
}

func TestCollectDoesNotWriteToPages(t *testing.T) {
	room := []int{1, 2, 99}
	l, err := informer.Collect(func(yield func(informer.List[int], error) bool) {
		_ = yield(informer.List[int]{Items: room[:2]}, nil) && yield(informer.List[int]{Items: []int{3}}, nil)
	})
	require.NoError(t, err)
	assert.Equal(t, []int{1, 2, 3}, l.Items)
	assert.Equal(t, []int{1, 2, 99}, room)
}
