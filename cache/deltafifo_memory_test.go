package cache_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLargeReplaceKeepsPendingKeys(t *testing.T) {
	x := newPods()
	x.Upsert(b(1))
	f := newFIFO(x)
	require.NoError(t, f.Add(a(1), 1))
	require.NoError(t, f.Update(b(2), 2))
	list := []*pod{a(2)}
	for i := range 1000 {
		list = append(list, &pod{name: fmt.Sprint(i)})
	}
	require.NoError(t, f.Replace(list, 3))
	require.NoError(t, f.CheckInvariants())
	require.Equal(t, len(list)+1, f.Len())
	lines := drain(t, f, x)
	require.Equal(t, []string{"a: Replaced 2", "b: Deleted? 2", "0: Replaced 0"}, lines[:3])
	require.Equal(t, len(list), x.Len())
}

func TestMergedIncarnationIsNotKeptAlive(t *testing.T) {
	x := newPods()
	x.Upsert(a(1))
	f := newFIFO(x)
	unseen := a(3)
	freed := make(chan struct{})
	runtime.AddCleanup(unseen, func(freed chan struct{}) { close(freed) }, freed)
	require.NoError(t, f.Delete(a(2), 1))
	require.NoError(t, f.Add(unseen, 2))
	unseen = nil
	require.NoError(t, f.Delete(a(3), 3))
	for range 10 {
		runtime.GC()
	}
	<-freed // or else the test never ends
	require.Equal(t, []string{"a: Deleted 2"}, drain(t, f, x))
}

func TestRepeatedUpdatesOfOneKeyHoldOneObject(t *testing.T) {
	x := newPods()
	f := newFIFO(x)
	const updates = 1000
	freed := make(chan struct{}, updates)
	for i := range updates {
		p := a(i)
		runtime.AddCleanup(p, func(freed chan struct{}) { freed <- struct{}{} }, freed)
		require.NoError(t, f.Update(p, uint64(i)))
	}
	for range 10 {
		runtime.GC()
	}
	for range updates - 1 {
		<-freed // all but the last
	}
	require.Equal(t, []string{"a: Updated 999"}, drain(t, f, x))
}
