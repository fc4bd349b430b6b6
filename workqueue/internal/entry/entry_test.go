package entry_test

import (
	"fmt"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/setpoint-go/setpoint/workqueue/internal/entry"
)

func TestEntryFitsCacheLine(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("pointers are shorter here")
	}
	if got := unsafe.Sizeof(entry.Entry[string]{}); got != 64 {
		t.Fatalf("unsafe.Sizeof(entry.Entry[string]{}) = %v, want 64", got)
	}
	if got := unsafe.Sizeof(entry.Details[string]{}); got != 72 {
		t.Fatalf("Config.Timestamps documents this: unsafe.Sizeof(entry.Details[string]{}) = %v, want 72", got)
	}
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
		if e.Next() != times[3] || e.Due() != times[4] {
			t.Fatalf("%v: e.Next(), e.Due() = %d, %d", times, e.Next(), e.Due())
		}
	}
}

func TestLatestReasonsAreKeptInOrder(t *testing.T) {
	var r *entry.Reasons
	if got := r.Len(); got != 0 {
		t.Fatalf("r.Len() = %v, want 0", got)
	}
	r = new(entry.Reasons)
	var want []entry.Reason
	for i := range 30 {
		reason := entry.Reason{Text: fmt.Sprint(i), At: time.Unix(int64(i), 0)}
		r.Add(reason.Text, reason.At)
		want = append(want, reason)
		want = want[max(0, len(want)-8):]
		if got, want := r.Len(), len(want); got != want {
			t.Fatalf("r.Len() = %v, want %v", got, want)
		}
		for i := range want {
			if got := r.At(i); got.Text != want[i].Text || !got.At.Equal(want[i].At) {
				t.Fatalf("r.At(%d) = %v, want %v", i, got, want[i])
			}
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
			if got := len(entries); got > entry.ChunkSize {
				t.Fatalf("len(entries) = %v, want at most %v", got, entry.ChunkSize)
			}
			for j := range entries {
				if e := &entries[j]; e.Number != 0 {
					found[e] = i
				}
			}
		}
	}
	at := chunks()
	if len(at) != n/2 {
		t.Fatalf("len(at) = %d, want %d: %v", len(at), n/2, at)
	}
	for e := range table.All() {
		if _, ok := at[e]; !ok {
			t.Fatalf("at = %v, want it to contain %v", at, e)
		}
	}
	for key := range 5 * n {
		table.add(n+key, table.Hash(n+key))
	}
	later := chunks()
	for e, i := range at {
		if later[e] != i {
			t.Fatalf("later[e] = %v, want %v", later[e], i)
		}
	}
}

func TestListIsFirstInFirstOut(t *testing.T) {
	table := newTable()
	list := table.NewList()
	if got := list.Head(); got != nil {
		t.Fatalf("list.Head() = %v, want nil", got)
	}
	for key := range 5 {
		list.Push(table.add(key, table.Hash(key)))
	}
	if err := list.Check(entry.Resting); err != nil {
		t.Fatalf("list.Check(entry.Resting): %v", err)
	}
	if err := list.Check(entry.Parked); err == nil {
		t.Fatal("list.Check(entry.Parked) = nil, want an error")
	}
	for _, key := range []int{2, 0, 4} {
		list.Remove(table.entries[key])
		if err := list.Check(entry.Resting); err != nil {
			t.Fatalf("list.Check(entry.Resting): %v", err)
		}
	}
	list.Push(table.entries[2])
	var keys []int
	for e := range list.All() {
		keys = append(keys, e.Key)
	}
	if want := ([]int{1, 3, 2}); !slices.Equal(keys, want) {
		t.Fatalf("keys = %v, want %v", keys, want)
	}
	if got := list.Len(); got != 3 {
		t.Fatalf("list.Len() = %v, want 3", got)
	}
	if got := list.Head().Key; got != 1 {
		t.Fatalf("list.Head().Key = %v, want 1", got)
	}
	for range list.All() {
		break
	}
}
