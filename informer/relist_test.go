package informer_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/wait"
)

// outage makes the informer miss changes, so that it lists again.
func (s *chronicle) outage(changes func()) {
	s.src.Fail(errOutage)
	changes()
	s.src.Compact()
	s.src.Fail(nil)
	time.Sleep(time.Minute)
	synctest.Wait()
}

func TestRelistReportsOnlyChanges(t *testing.T) {
	for _, every := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newChronicle([]string{"a", "b", "c", "d"}, informer.Config{OnError: func(error) {}})
			r := newRecorder(t)
			r.gaps = true
			h := r.handler()
			h.EveryEvent = every
			_, err := b.in.AddHandler(h)
			require.NoError(t, err)
			start(t, b.in)
			r.take()

			b.outage(func() { b.src.Bookmark() })
			assert.Empty(t, r.take())
			assert.Equal(t, b.src.Version(), b.in.Version())

			b.outage(func() {
				b.put("c")
				b.delete("b")
				b.put("e")
			})
			assert.ElementsMatch(t, []string{"update c.3 5", "delete b.2 unknown", "add e.6 initial=false"}, r.take())
			assert.Equal(t, b.truth, contents(b.in))
			assert.Equal(t, b.src.Version(), b.in.Version())
		})
	}
}

// lister is a source that is listed, and expires, at each step of its informer.
type lister[T any] struct {
	list informer.List[T]
}

func (l *lister[T]) List(context.Context) (informer.List[T], error) { return l.list, nil }

func (l *lister[T]) Watch(context.Context, informer.Version) iter.Seq2[informer.Event[T], error] {
	return func(yield func(informer.Event[T], error) bool) { yield(informer.Event[T]{}, informer.ErrExpired) }
}

// relist lets the driven informer have items as the next list of its source.
func relist[T any](d *informer.Driver[string, T], l *lister[T], items []T) {
	l.list = informer.List[T]{Items: items, Version: l.list.Version + 1}
	if _, watches := d.Seen(); watches {
		d.Reflect(context.Background()) // it expires
	}
	d.Reflect(context.Background())
	for !d.Idle() {
		d.Apply()
	}
}

// counter counts the calls of a handler, and checks it.
type counter struct {
	t                    testing.TB
	known                map[string]site
	adds, updates, drops int
}

func (c *counter) handler() informer.Handler[string, site] {
	return informer.Handler[string, site]{
		OnAdd: func(s site, _ bool) { c.adds++; c.known[s.Name] = s },
		OnUpdate: func(old, s site) {
			c.updates++
			require.NotEqual(c.t, old, s)
			c.known[s.Name] = s
		},
		OnDelete: func(d cache.Tombstone[string, site]) { c.drops++; delete(c.known, d.Key) },
	}
}

// checkRelist gives an informer two lists, one after the other, and fails unless its handler gets exactly the
// differences.
func checkRelist(t testing.TB, before, after []site) {
	src := &lister[site]{}
	d := &informer.Driver[string, site]{In: must(informer.New(src, nameOf, informer.Config{Logger: quiet}))}
	c := &counter{t: t, known: make(map[string]site)}
	_, err := d.In.AddHandler(c.handler())
	require.NoError(t, err)
	deliver := func() {
		for d.Deliver(0) {
		}
	}
	relist(d, src, before)
	deliver()
	require.Equal(t, len(before), c.adds)
	*c = counter{t: t, known: c.known}

	relist(d, src, after)
	deliver()
	want, adds, updates, drops := make(map[string]site), 0, 0, 0
	old := make(map[string]site)
	for _, s := range before {
		old[s.Name] = s
	}
	for _, s := range after {
		want[s.Name] = s
		if was, existed := old[s.Name]; !existed {
			adds++
		} else if was != s {
			updates++
		}
	}
	for name := range old {
		if _, exists := want[name]; !exists {
			drops++
		}
	}
	require.Equal(t, want, contents(d.In))
	require.Equal(t, want, c.known)
	require.Equal(t, [3]int{adds, updates, drops}, [3]int{c.adds, c.updates, c.drops}, "adds, updates, deletions")
	require.NoError(t, informer.CheckInvariants(d.In))
}

// Lists of some hundred objects come in every order: as before, with gaps and insertions of all lengths, in parts, shuffled.
func TestListInAnyOrderIsReportedAsDifferences(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		var before []site
		for i := range rnd.IntN(1500) {
			before = append(before, site{Name: fmt.Sprint(i), Rev: 1})
		}
		after := slices.Clone(before)
		for range rnd.IntN(8) {
			at := rnd.IntN(len(after) + 1)
			n := rnd.IntN(min(len(after)-at, 200) + 1)
			switch rnd.IntN(6) {
			case 0: // deleted
				after = slices.Delete(after, at, at+n)
			case 1: // new
				for i := range n {
					after = slices.Insert(after, at, site{Name: fmt.Sprint("new", len(after), ".", i), Rev: 1})
				}
			case 2: // changed
				for i := range n {
					after[at+i].Rev = 2
				}
			case 3: // moved
				part := slices.Clone(after[at : at+n])
				after = append(slices.Delete(after, at, at+n), part...)
			case 4:
				slices.Reverse(after[at : at+n])
			case 5:
				rnd.Shuffle(n, func(i, j int) { after[at+i], after[at+j] = after[at+j], after[at+i] })
			}
		}
		if seed%10 == 9 {
			rnd.Shuffle(len(after), func(i, j int) { after[i], after[j] = after[j], after[i] })
		}
		checkRelist(t, before, after)
	}
}

// FuzzRelist makes two lists of the bytes: of each pair the first one is the name of an object, and the second says in which
// of the lists it is, in which state, and whether at the end or at the beginning.
func FuzzRelist(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 1, 2, 2, 3, 3, 4, 7, 5, 11})
	all := make([]byte, 0, 512)
	for i := range 256 {
		all = binary.BigEndian.AppendUint16(all, uint16(i<<8|i*7%16))
	}
	f.Add(all)
	f.Fuzz(func(t *testing.T, data []byte) {
		seen := make(map[byte]bool)
		var before, after []site
		for ; len(data) >= 2; data = data[2:] {
			name, how := data[0], data[1]
			if seen[name] {
				continue
			}
			seen[name] = true
			s := site{Name: fmt.Sprint(name), Rev: 1}
			if how&1 != 0 {
				before = append(before, s)
			}
			if how&2 != 0 {
				s.Rev += int(how >> 2 & 1)
				if how&8 != 0 {
					after = slices.Insert(after, 0, s)
				} else {
					after = append(after, s)
				}
			}
		}
		checkRelist(t, before, after)
	})
}

// Every list of up to four objects, of three keys and two states each, follows each of several lists.
func TestLastOfSeveralObjectsWithOneKeyCounts(t *testing.T) {
	var all [][]site
	lists := [][]site{nil}
	for range 4 {
		var longer [][]site
		for _, list := range lists {
			for _, name := range []string{"a", "b", "c"} {
				for rev := range 2 {
					longer = append(longer, append(slices.Clone(list), site{Name: name, Rev: rev}))
				}
			}
		}
		lists = longer
		all = append(all, lists...)
	}
	for _, before := range [][]site{nil, {{Name: "a"}, {Name: "b"}, {Name: "c"}}, {{Name: "b"}, {Name: "a"}}, {{Name: "a", Rev: 1}, {Name: "a"}}} {
		for _, list := range all {
			var errs []error
			src := &lister[site]{}
			d := &informer.Driver[string, site]{In: must(informer.New(src, nameOf, informer.Config{
				Logger: quiet, Name: "sites", OnError: func(err error) { errs = append(errs, err) },
			}))}
			relist(d, src, before)
			errs = nil

			relist(d, src, list)
			want := make(map[string]site)
			var twice []string
			for _, s := range list {
				if _, again := want[s.Name]; again {
					twice = append(twice, s.Name)
				}
				want[s.Name] = s
			}
			require.Equal(t, want, contents(d.In), "%v, then %v", before, list)
			if len(twice) == 0 {
				require.Empty(t, errs, "%v, then %v", before, list)
				continue
			}
			require.Len(t, errs, 1, "%v, then %v", before, list)
			slices.Sort(twice)
			twice = slices.Compact(twice)
			text := fmt.Sprintf("informer: list sites: %d of its keys have several objects, such as ", len(twice))
			rest, ok := strings.CutPrefix(errs[0].Error(), text)
			require.True(t, ok, "%v", errs[0])
			require.Contains(t, twice, strings.TrimSuffix(rest, "; the last object of each counts"))
		}
	}
}

// plain, boxed and sliced are objects whose states can be compared by ==, can sometimes, and never.
type (
	plain  struct{ name, state string }
	boxed  struct{ name, state any }
	sliced struct {
		name  string
		state []int
	}
)

// updates returns how many updates are reported when a list has before, and the next one after, under the same key.
func updates[T any](t *testing.T, before, after T, wraps ...func(informer.ListWatcher[T]) informer.ListWatcher[T]) (n int) {
	t.Helper()
	list := &lister[T]{}
	var src informer.ListWatcher[T] = list
	for _, wrap := range wraps {
		src = wrap(src)
	}
	d := &informer.Driver[string, T]{In: must(informer.New(src, func(T) string { return "a" }, informer.Config{Logger: quiet}))}
	_, err := d.In.AddHandler(informer.Handler[string, T]{OnUpdate: func(T, T) { n++ }})
	require.NoError(t, err)
	for _, obj := range []T{before, after} {
		relist(d, list, []T{obj})
		for d.Deliver(0) {
		}
	}
	return n
}

// withEqual is a source that compares its objects.
type withEqual[T any] struct {
	informer.ListWatcher[T]
	equal func(a, b T) bool
}

func (w withEqual[T]) Equal(a, b T) bool { return w.equal(a, b) }

func TestStatesAreComparedByEqualerOrEquality(t *testing.T) {
	assert.Equal(t, 0, updates(t, plain{"a", "1"}, plain{"a", "1"}), "a plain struct")
	assert.Equal(t, 1, updates(t, plain{"a", "1"}, plain{"a", "2"}), "a plain struct that has changed")
	assert.Equal(t, 0, updates(t, [2]int{1, 2}, [2]int{1, 2}), "an array")
	one, other := &plain{"a", "1"}, &plain{"a", "1"}
	assert.Equal(t, 0, updates(t, one, one), "the same object")
	assert.Equal(t, 1, updates(t, one, other), "another object")
	assert.Equal(t, 1, updates(t, boxed{"a", 1}, boxed{"a", 1}), "with an interface in it")
	x, y := sliced{"a", []int{1}}, sliced{"a", []int{2}}
	assert.Equal(t, 1, updates(t, [1]boxed{{"a", x}}, [1]boxed{{"a", x}}), "with an interface in it whose value has no ==")
	assert.Equal(t, 1, updates(t, x, x), "a type without ==")

	byState := func(src informer.ListWatcher[sliced]) informer.ListWatcher[sliced] {
		return withEqual[sliced]{src, func(a, b sliced) bool { return a.state[0] == b.state[0] }}
	}
	filter := func(src informer.ListWatcher[sliced]) informer.ListWatcher[sliced] {
		return informer.Filter(src, func(sliced) bool { return true })
	}
	assert.Equal(t, 0, updates(t, x, sliced{"b", []int{1}}, byState), "what the function reports as equal")
	assert.Equal(t, 1, updates(t, x, y, byState), "what the function reports as different")
	assert.Equal(t, 0, updates(t, x, x, byState, filter), "in a filter")
	assert.Equal(t, 1, updates(t, x, x, filter), "a type without ==, in a filter")
	assert.Equal(t, 1, updates(t, 1, 1, func(src informer.ListWatcher[int]) informer.ListWatcher[int] {
		return withEqual[int]{src, func(int, int) bool { return false }}
	}), "what is never the same")
}

// The states differ, and the source's Equal panics or returns true.
func TestPanickingEqualIsReportedAndCountsAsUpdate(t *testing.T) {
	src := &lister[site]{}
	var errs []error
	d := &informer.Driver[string, site]{In: must(informer.New(withEqual[site]{src, func(a, b site) bool {
		if b.Name == "bad" {
			panic("oh dear")
		}
		return true
	}}, nameOf, informer.Config{Name: "sites", Logger: quiet, OnError: func(err error) { errs = append(errs, err) }}))}
	relist(d, src, []site{{Name: "a", Rev: 1}, {Name: "bad", Rev: 1}, {Name: "c", Rev: 1}})
	relist(d, src, []site{{Name: "a", Rev: 2}, {Name: "bad", Rev: 2}, {Name: "c", Rev: 2}})
	require.Len(t, errs, 1)
	assert.EqualError(t, errs[0], "informer: compare states of bad for sites: panic: oh dear")
	assert.ErrorAs(t, errs[0], new(*wait.PanicError))
	assert.Equal(t, map[string]site{"a": {Name: "a", Rev: 1}, "bad": {Name: "bad", Rev: 2}, "c": {Name: "c", Rev: 1}}, contents(d.In))
	assert.Equal(t, informer.Version(2), d.In.Version())
}

// A backup was restored, and other changes followed. So an object with the same version has another state.
func TestResetReplacesObjectsEvenIfEqual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var list knob[informer.List[site]]
		list.set(informer.List[site]{Items: []site{{Name: "a", Rev: 1, Life: 1}}, Version: 1})
		src := withEqual[site]{scripted{list: func(context.Context) (informer.List[site], error) { return list.get(), nil }},
			func(a, b site) bool { return a.Rev == b.Rev }}
		in := must(informer.New(src, nameOf, informer.Config{}))
		start(t, in)
		list.set(informer.List[site]{Items: []site{{Name: "a", Rev: 1, Life: 2}}, Version: 1})
		in.Reset()
		synctest.Wait()
		assert.Equal(t, map[string]site{"a": {Name: "a", Rev: 1, Life: 2}}, contents(in))
	})
}

func TestRevertedObjectNoLongerHoldsBackVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(site{Name: "a", Rev: 1})
		var errs errorLog
		in := must(informer.New(src, nameOf, informer.Config{Backoff: exact, OnError: errs.Add}))
		cache.AddIndex(in.Indexer(), func(s site) []int {
			if s.Rev == 2 {
				panic("it cannot be indexed")
			}
			return nil
		})
		start(t, in)
		src.Put(site{Name: "a", Rev: 2})
		assert.Len(t, errs.Take(), 1)
		assert.Equal(t, informer.Version(1), in.Version())
		src.Fail(errOutage)
		src.Put(site{Name: "a", Rev: 1})
		src.Compact()
		src.Fail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, informer.Version(3), in.Version())
		assert.Equal(t, maps.Collect(in.Indexer().All()), map[string]site{"a": {Name: "a", Rev: 1}})
	})
}

// match finds the cached keys, and returns how many objects are skipped. It checks that the list is complete, and in order.
func match(t *testing.T, cached []int, pages [][]int) (skipped int) {
	t.Helper()
	list := slices.Concat(pages...)
	m := informer.NewMerger(pages)
	seen := make([]bool, len(list)) // by place
	see := func(key, place int) {
		if list[place] != key || seen[place] {
			t.Fatalf("%v in %v: the object at %d is taken for %d, or taken again", cached, pages, place, key)
		}
		seen[place] = true
	}
	for _, key := range cached {
		if place, ok := m.Find(key); ok {
			see(key, place)
		}
	}
	last := -1
	for key, place := range m.Skipped() {
		see(key, place)
		if place < last {
			t.Fatalf("%v in %v: skipped are %d and then %d", cached, pages, last, place)
		}
		last = place
		skipped++
	}
	if i := slices.Index(seen, false); i >= 0 {
		t.Fatalf("%v in %v: the object at %d is lost", cached, pages, i)
	}
	return skipped
}

func TestEachObjectIsFoundOnceOrSkipped(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		var cached []int
		var pages [][]int
		keys := 1 + r.IntN(1000>>(seed%8))
		for range r.IntN(2 * keys) {
			cached = append(cached, r.IntN(keys))
		}
		for range r.IntN(5) {
			var page []int
			for range r.IntN(keys) {
				page = append(page, r.IntN(keys)) // perhaps again
			}
			pages = append(pages, page)
		}
		if seed%2 == 0 { // nearly the same order
			slices.Sort(cached)
			for _, page := range pages {
				slices.Sort(page)
			}
		}
		match(t, cached, pages)
	}
}

// The last objects of each page are new. The comparison still finds the objects of the next page.
func TestListIsComparedAcrossPages(t *testing.T) {
	for _, size := range []int{1, 2, 10, 100} {
		var cached []int
		var pages [][]int
		fresh := 0
		for i := range 1000 {
			if i%size == 0 {
				pages = append(pages, nil)
			}
			last := &pages[len(pages)-1]
			*last = append(*last, i)
			if i%10 >= 8 {
				fresh++
			} else {
				cached = append(cached, i)
			}
		}
		if got := match(t, cached, pages); got != fresh {
			t.Errorf("pages of %d: %d objects are skipped, want %d", size, got, fresh)
		}
	}
	all := make([]int, 1000)
	for i := range all {
		all[i] = i
	}
	if got := match(t, all, [][]int{nil, all[:500], nil, nil, all[500:], nil}); got != 0 {
		t.Errorf("empty pages: %d objects are skipped", got)
	}
}

// In a list without the order of the cache, Find gives up: it does not compare all keys with 32 others.
func TestFindGivesUpWithoutCommonOrder(t *testing.T) {
	var keys []int
	for i := range 1000 {
		keys = append(keys, i)
	}
	m := informer.NewMerger([][]int{keys})
	for i := range 257 {
		if _, ok := m.Find(-1); ok {
			t.Fatalf("search %d finds a key that is not in the list", i)
		}
	}
	if _, ok := m.Find(0); ok {
		t.Error("after 257 failed searches, Find still searches")
	}

	m = informer.NewMerger([][]int{keys})
	for i := range 1000 {
		for range 4 * (i % 2) { // two searches of three fail
			m.Find(-1)
		}
		if _, ok := m.Find(i); !ok {
			t.Fatalf("Find(%d) finds nothing, though one in three searches succeeds", i)
		}
	}
}

func TestFindLooksAheadAcrossPages(t *testing.T) {
	for _, size := range []int{1, 3, 10, 40} {
		var pages [][]int
		for i := range 40 {
			if i%size == 0 {
				pages = append(pages, nil)
			}
			pages[len(pages)-1] = append(pages[len(pages)-1], i)
		}
		for key := range 40 {
			if _, ok := informer.NewMerger(pages).Find(key); ok != (key < 32) {
				t.Errorf("pages of %d: Find(%d) = %v", size, key, ok)
			}
		}
	}
}
