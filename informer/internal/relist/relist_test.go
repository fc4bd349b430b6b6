package relist_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/setpoint-go/setpoint/informer/internal/relist"
)

// paged returns the pages of a list with these keys. The object of a key is its place in the list.
func paged(pages [][]int) (list []relist.Page[int, int]) {
	n := 0
	for _, keys := range pages {
		p := relist.Page[int, int]{Keys: keys}
		for range keys {
			p.Items = append(p.Items, n)
			n++
		}
		list = append(list, p)
	}
	return list
}

// match finds the cached keys, and returns how many objects are astray. It checks that the list is complete, and in order.
func match(t *testing.T, cached []int, pages [][]int) (astray int) {
	t.Helper()
	list := slices.Concat(pages...)
	m := relist.NewMerger(paged(pages))
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
	for key, place := range m.Astray() {
		see(key, place)
		if place < last {
			t.Fatalf("%v in %v: astray are %d and then %d", cached, pages, last, place)
		}
		last = place
		astray++
	}
	if i := slices.Index(seen, false); i >= 0 {
		t.Fatalf("%v in %v: the object at %d is lost", cached, pages, i)
	}
	return astray
}

func TestEachObjectIsFoundOnceOrAstray(t *testing.T) {
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
			t.Errorf("pages of %d: %d objects are astray, want %d", size, got, fresh)
		}
	}
	all := make([]int, 1000)
	for i := range all {
		all[i] = i
	}
	if got := match(t, all, [][]int{nil, all[:500], nil, nil, all[500:], nil}); got != 0 {
		t.Errorf("empty pages: %d objects are astray", got)
	}
}

// In a list without the order of the cache, Find gives up: it does not compare all keys with 32 others.
func TestFindGivesUpWithoutCommonOrder(t *testing.T) {
	var keys []int
	for i := range 1000 {
		keys = append(keys, i)
	}
	m := relist.NewMerger(paged([][]int{keys}))
	for i := range 257 {
		if _, ok := m.Find(-1); ok {
			t.Fatalf("search %d finds a key that is not in the list", i)
		}
	}
	if _, ok := m.Find(0); ok {
		t.Error("after 257 failed searches, Find still searches")
	}

	m = relist.NewMerger(paged([][]int{keys}))
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
			if _, ok := relist.NewMerger(paged(pages)).Find(key); ok != (key < 32) {
				t.Errorf("pages of %d: Find(%d) = %v", size, key, ok)
			}
		}
	}
}
