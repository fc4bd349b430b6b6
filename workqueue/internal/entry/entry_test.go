package entry_test

import (
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue/internal/entry"
)

func TestEntryFitsCacheLine(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("pointers are shorter here")
	}
	require.EqualValues(t, 64, unsafe.Sizeof(entry.Entry[string]{}))
	require.EqualValues(t, 72, unsafe.Sizeof(entry.Details[string]{}), "Config.Timestamps documents this")
}

func TestDueIsEarliestDeadline(t *testing.T) {
	for _, times := range [][5]int64{ // wake-up, backoff, quiet time; Next, Due
		{0, 0, 0, 0, 0}, {1, 0, 0, 1, 1}, {0, 1, 0, 1, 1}, {0, 0, 1, 0, 1},
		{1, 2, 3, 1, 1}, {2, 1, 3, 1, 1}, {3, 2, 1, 2, 1}, {0, 3, 2, 3, 2}, {3, 0, 2, 3, 2},
	} {
		table := entry.NewTable[string]()
		e := table.Add("a", 0)
		e.WakeAt = times[0]
		*table.Own(e) = entry.Details[string]{RetryAt: times[1], QuietAt: times[2]}
		require.Equal(t, times[3:], []int64{e.Next(), e.Due()}, "%v", times)
	}
}

func TestLatestReasonsAreKeptInOrder(t *testing.T) {
	var r *entry.Reasons
	require.Zero(t, r.Len())
	r = new(entry.Reasons)
	var want []entry.Reason
	for i := range 30 {
		reason := entry.Reason{Text: fmt.Sprint(i), At: time.Unix(int64(i), 0)}
		r.Add(reason.Text, reason.At)
		want = append(want, reason)
		want = want[max(0, len(want)-8):]
		require.Equal(t, len(want), r.Len())
		for i := range want {
			require.Equal(t, want[i], r.At(i))
		}
	}
}

// All and Chunk find the same entries, and an entry stays where it is.
func TestChunksHaveAllEntries(t *testing.T) {
	table := newTable()
	const n = 1000
	for key := range n {
		table.add(key, table.Hash(key))
	}
	for key := range n / 2 {
		table.remove(2 * key)
	}
	chunks := func() map[*entry.Entry[int]]int {
		found := map[*entry.Entry[int]]int{}
		for i := 0; ; i++ {
			entries, more := table.Chunk(i)
			if !more {
				return found
			}
			require.LessOrEqual(t, len(entries), entry.ChunkSize)
			for j := range entries {
				if e := &entries[j]; e.Number != 0 {
					found[e] = i
				}
			}
		}
	}
	at := chunks()
	require.Len(t, at, n/2)
	for e := range table.All() {
		require.Contains(t, at, e)
	}
	for key := range 5 * n {
		table.add(n+key, table.Hash(n+key))
	}
	later := chunks()
	for e, i := range at {
		require.Equal(t, i, later[e])
	}
}

func TestListIsFirstInFirstOut(t *testing.T) {
	table := newTable()
	list := table.NewList()
	require.Nil(t, list.Head())
	for key := range 5 {
		list.Push(table.add(key, table.Hash(key)))
	}
	require.NoError(t, list.Check(entry.Resting))
	require.Error(t, list.Check(entry.Parked))
	for _, key := range []int{2, 0, 4} {
		list.Remove(table.entries[key])
		require.NoError(t, list.Check(entry.Resting))
	}
	list.Push(table.entries[2])
	var keys []int
	for e := range list.All() {
		keys = append(keys, e.Key)
	}
	require.Equal(t, []int{1, 3, 2}, keys)
	require.Equal(t, 3, list.Len())
	require.Equal(t, 1, list.Head().Key)
	for range list.All() {
		break
	}
}
