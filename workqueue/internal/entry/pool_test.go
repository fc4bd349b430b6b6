package entry_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Entries are allocated and freed at random, in small and large numbers. Entries in use never change.
func TestPoolKeepsUsedEntriesAndReleasesTheRest(t *testing.T) {
	const most = 6000
	p := newTable()
	r := rand.New(rand.NewPCG(3, 4))
	var used []int
	key := 0
	for step, target := range []int{1, 0, 3, 200, 17, most, 5000, 300, most, 1, 140, 0, most, 0} {
		for len(used) != target {
			if len(used) < target && r.IntN(4) > 0 || len(used) == 0 {
				key++
				p.add(key, p.Hash(key))
				used = append(used, key)
			} else {
				i := r.IntN(len(used))
				p.remove(used[i])
				used = slices.Delete(used, i, i+1)
			}
			if p.Size() < 600 {
				require.NoError(t, p.check(), "step %d", step)
			}
		}
		require.NoError(t, p.check(), "step %d", step)
	}
	require.LessOrEqual(t, p.Size(), 4096, "free entries of an unused pool")
	before := p.Size()
	for range 10_000 {
		p.add(1, p.Hash(1))
		p.remove(1)
	}
	require.Equal(t, before, p.Size())
	require.NoError(t, p.check())
}

// The first keys of a queue take little memory.
func TestPoolGrowsGeometrically(t *testing.T) {
	p := newTable()
	var sizes []int
	for key := range 1000 {
		p.add(key, p.Hash(key))
		if s := p.Size(); len(sizes) == 0 || sizes[len(sizes)-1] != s {
			sizes = append(sizes, s)
		}
	}
	require.Equal(t, []int{2, 4, 8, 16, 32, 64, 128, 256, 384, 512, 640, 768, 896, 1024}, sizes)
}

// A wake-up may remain from an entry whose memory was released, and must not fire for its successor.
func TestStaleWakeUpOfRemovedEntryIsIgnored(t *testing.T) {
	const n = 20_000
	s := newSchedule(n)
	for i := range n {
		s.set(i, int64(i+1))
	}
	for i := range n - 1 { // of each the wake-up is in the heap until it is the first, or half of them do not count
		s.remove(i)
		s.drop(i)
	}
	i, due := s.first()
	require.Equal(t, n-1, i)
	require.Equal(t, int64(n), due)
	require.NoError(t, s.check())
}
