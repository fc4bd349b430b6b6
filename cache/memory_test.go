package cache_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/setpoint-go/setpoint/cache"
)

func TestIterationAllocatesNothing(t *testing.T) {
	x := newPods()
	byNode := cache.AddIndex(x, podNodes)
	for i := range 1000 {
		x.Upsert(&pod{name: fmt.Sprint(i), nodes: []string{"n", fmt.Sprint("n", i%100)}})
	}
	n := 0
	if got := testing.AllocsPerRun(10, func() {
		for range x.All() {
			n++
		}
		for range byNode.All("n") {
			n++
		}
		for range byNode.Values() {
			n++
		}
	}); got != 0 {
		t.Fatalf("testing.AllocsPerRun = %v, want 0", got)
	}
	if n != 11*2101 {
		t.Fatalf("n = %v, want %v", n, 11*2101)
	}
}

func TestEmptiedStructuresReleaseMemory(t *testing.T) {
	const many = 10000
	x := newPods()
	byNode := cache.AddIndex(x, podNodes)
	f := newFIFO(x)
	for i := range many {
		p := &pod{name: fmt.Sprint(i), nodes: []string{"all", fmt.Sprint(i)}}
		x.Upsert(p)
		if err := f.Add(p, uint64(i)); err != nil {
			t.Fatalf("f.Add(p, uint64(i)): %v", err)
		}
	}
	for i := range many - 3 {
		x.Delete(fmt.Sprint(i))
		_, _ = f.TryPop(func(string, cache.Deltas[*pod], bool) error { return nil })
	}
	values, postings, members := byNode.Room("all")
	for what, room := range map[string]int{
		"the indexer": x.Room(), "the values of an index": values, "the postings": postings, "a bucket": members,
		"the queue": f.Room(),
	} {
		if room > 100 {
			t.Fatalf("%v: room = %v, want at most 100", what, room)
		}
	}
	if err := cache.CheckInvariants(x); err != nil {
		t.Fatalf("cache.CheckInvariants(x): %v", err)
	}
}

func TestShortListDoesNotRetainLongList(t *testing.T) {
	x := newPods()
	list := make([]*pod, 1000)
	for i := range list {
		list[i] = &pod{name: fmt.Sprint(i)}
	}
	freed := make(chan struct{})
	runtime.AddCleanup(list[0], func(freed chan struct{}) { close(freed) }, freed)
	x.Replace(list)
	x.Replace(list[999:])
	list = nil
	for range 10 {
		runtime.GC()
	}
	<-freed
	if got := x.Len(); got != 1 {
		t.Fatalf("x.Len() = %v, want 1", got)
	}
}
