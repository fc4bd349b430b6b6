package cache_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/stretchr/testify/require"
)

func TestIterationAllocatesNothing(t *testing.T) {
	x := newPods()
	byNode := cache.AddIndex(x, podNodes)
	for i := range 1000 {
		x.Upsert(&pod{name: fmt.Sprint(i), nodes: []string{"n", fmt.Sprint("n", i%100)}})
	}
	n := 0
	require.Zero(t, testing.AllocsPerRun(10, func() {
		for range x.All() {
			n++
		}
		for range byNode.All("n") {
			n++
		}
		for range byNode.Values() {
			n++
		}
	}))
	require.Equal(t, 11*2101, n)
}

func TestEmptiedStructuresReleaseMemory(t *testing.T) {
	const many = 10000
	x := newPods()
	byNode := cache.AddIndex(x, podNodes)
	f := newFIFO(x)
	for i := range many {
		p := &pod{name: fmt.Sprint(i), nodes: []string{"all", fmt.Sprint(i)}}
		x.Upsert(p)
		require.NoError(t, f.Add(p, uint64(i)))
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
		require.LessOrEqual(t, room, 100, what)
	}
	require.NoError(t, cache.CheckInvariants(x))
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
	require.Equal(t, 1, x.Len())
}
