package workqueue_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

func TestEntryFitsCacheLine(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("pointers are shorter here")
	}
	require.EqualValues(t, 64, workqueue.EntrySize)
	require.EqualValues(t, 96, workqueue.DetailsSize, "Config.Timestamps documents this")
}

// collidingKeys returns 64 keys whose hashes in q ask for the last slots or the first ones, in a table of up to 1024 slots. The first two
// have the very same hash.
func collidingKeys(q *workqueue.Queue[int]) (keys []int) {
	seen := map[uint32]int{}
	for k := 0; len(keys) < 66; k++ { // about 80,000 keys until two are alike, by the paradox of the birthdays
		hash := q.Hash(k)
		if other, ok := seen[hash]; ok && len(keys) >= 64 {
			return append([]int{other, k}, keys[:62]...)
		}
		seen[hash] = k
		if (hash+2)%1024 < 4 && len(keys) < 64 {
			keys = append(keys, k)
		}
	}
	return nil
}

// runTable plays bytes on a queue and on a map: keys come and go, and go all in the end. Every second key has details.
func runTable(q *workqueue.Queue[int], keys []int, ops []byte) error {
	model := map[int]bool{}
	for i := range len(ops) + len(keys) {
		k := keys[i%len(keys)]
		if i < len(ops) {
			k = keys[int(ops[i])%len(keys)]
		} else if !model[k] {
			continue
		}
		if model[k] {
			q.Cancel(k)
			delete(model, k)
		} else {
			q.AddWith(k, workqueue.AddOptions{Priority: k % 2})
			model[k] = true
		}
		if err := q.CheckInvariants(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		for _, k := range keys {
			info, ok := q.Info(k)
			if ok != model[k] || ok && (info.Key != k || info.Priority != k%2) {
				return fmt.Errorf("step %d: %d is in the table: %v, %+v", i, k, ok, info)
			}
		}
		if n, in := q.Len(), len(q.Snapshot()); n != len(model) || in != len(model) {
			return fmt.Errorf("step %d: the queue counts %d and has %d, want %d", i, n, in, len(model))
		}
	}
	return nil
}

func TestTableWithCollidingKeysMatchesMap(t *testing.T) {
	q := must(workqueue.New(workqueue.Config[int]{}))
	keys := collidingKeys(q)
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		ops := make([]byte, 300)
		for i := range ops {
			ops[i] = byte(r.IntN(4 << (seed % 5))) // a few keys, or all
		}
		require.NoError(t, runTable(q, keys, ops), "seed %d", seed)
	}
}

func FuzzTableMatchesMap(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 0, 1, 0, 2})
	q := must(workqueue.New(workqueue.Config[int]{})) // its seed is another in each process, but the slots that keys ask for are not
	keys := collidingKeys(q)
	f.Fuzz(func(t *testing.T, ops []byte) {
		require.NoError(t, runTable(q, keys, ops[:min(len(ops), 300)]))
	})
}

func TestTableGrowsForBurstAndShrinksAfterwards(t *testing.T) {
	q := must(workqueue.New(workqueue.Config[int]{}))
	_, slots := q.Room()
	require.Zero(t, slots, "none before the first key")
	const n = 20_000
	for k := range n {
		q.Add(k)
	}
	_, slots = q.Room()
	require.Less(t, slots, 4*n)
	require.NoError(t, q.CheckInvariants())
	for k := range n {
		require.True(t, q.Cancel(k))
		if _, now := q.Room(); now != slots {
			require.Greater(t, 2*(n-k), slots/8, "not before an eighth is used")
			slots = now
			require.NoError(t, q.CheckInvariants(), "with %d slots", slots)
			for other := range n {
				if _, ok := q.Info(other); ok != (other > k) {
					t.Fatalf("%d of those up to %d was removed, and %d is in the table: %v", k, n, other, ok)
				}
			}
		}
		if left := n - k - 1; slots > max(2*4096, 8*left) {
			t.Fatalf("%d slots for %d keys", slots, left)
		}
	}
	require.NoError(t, q.CheckInvariants())
}

// Keys come and go at random, in small and large numbers. An entry in use never changes, and the memory of the others is freed.
func TestPoolKeepsUsedEntriesAndReleasesTheRest(t *testing.T) {
	const most = 6000
	q := must(workqueue.New(workqueue.Config[int]{}))
	check := func(used []int) {
		t.Helper()
		require.NoError(t, q.CheckInvariants())
		for _, key := range used {
			if info, ok := q.Info(key); !ok || info.Priority != key%2*key {
				t.Fatalf("the entry of %d is %+v, %v", key, info, ok)
			}
		}
	}
	size := func() int {
		entries, _ := q.Room()
		return entries
	}
	r := rand.New(rand.NewPCG(3, 4))
	var used []int
	key := 0
	for _, target := range []int{1, 0, 3, 200, 17, most, 5000, 300, most, 1, 140, 0, most, 0} {
		for len(used) != target {
			if len(used) < target && r.IntN(4) > 0 || len(used) == 0 {
				key++
				q.AddWith(key, workqueue.AddOptions{Priority: key % 2 * key})
				used = append(used, key)
			} else {
				i := r.IntN(len(used))
				require.True(t, q.Cancel(used[i]))
				used = slices.Delete(used, i, i+1)
			}
			if size() < 300 {
				check(used)
			}
		}
		check(used)
	}
	require.LessOrEqual(t, size(), 4096, "free entries of an unused pool")
	before := size()
	for range 10_000 {
		q.Add(1)
		q.Cancel(1)
	}
	require.Equal(t, before, size())
	check(nil)
}

// The first keys of a queue take little memory.
func TestPoolGrowsGeometrically(t *testing.T) {
	q := must(workqueue.New(workqueue.Config[int]{}))
	var sizes []int
	for key := range 1000 {
		q.Add(key)
		if s, _ := q.Room(); len(sizes) == 0 || sizes[len(sizes)-1] != s {
			sizes = append(sizes, s)
		}
	}
	require.Equal(t, []int{2, 4, 8, 16, 32, 64, 128, 256, 384, 512, 640, 768, 896, 1024}, sizes)
}

func TestDoneKeyIsNotKeptAlive(t *testing.T) {
	type big struct{ _ [1 << 16]byte }
	type queue = *workqueue.Queue[*big]
	for name, use := range map[string]func(q queue, k *big){
		"raised":   func(q queue, k *big) { q.AddWith(new(big), prio(1)); q.AddWith(k, prio(-1)); q.AddWith(k, prio(1)) },
		"canceled": func(q queue, k *big) { q.Add(k); q.AddAfter(k, time.Hour); q.Cancel(k) },
		"dropped":  func(q queue, k *big) { q.Park(k, ""); q.DropParked(k) },
		"forgotten": func(q queue, k *big) {
			q.AddRateLimited(k)
			q.Cancel(k)
			q.Forget(k)
		},
		"shut down": func(q queue, k *big) { q.AddAfter(k, time.Hour); q.ShutDown() },
		"due":       func(q queue, k *big) { q.AddAfter(k, 1); q.Get(); q.Done(k) },
		"done":      func(q queue, k *big) { q.Add(k) },
	} {
		t.Run(name, func(t *testing.T) {
			q := must(workqueue.New(workqueue.Config[*big]{MaxAttempts: 2, Timestamps: true, Group: func(*big) string { return "g" }}))
			freed := make(chan struct{}, 1)
			k := new(big)
			runtime.AddCleanup(k, func(int) { freed <- struct{}{} }, 0)
			use(q, k)
			for k, ok := tryGet(q); ok; k, ok = tryGet(q) {
				q.Done(k)
			}
			k = nil
			runtime.GC()
			runtime.GC()
			select {
			case <-freed:
			case <-time.After(10 * time.Second):
				t.Fatal("still alive")
			}
			runtime.KeepAlive(q)
		})
	}
}
