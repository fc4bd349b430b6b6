package entry_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// collidingKeys returns 64 keys whose hashes in t ask for the last slots or the first ones, in a table of up to 1024 slots. The
// first two have the very same hash.
func collidingKeys(t *table) (keys []int) {
	seen := map[uint32]int{}
	for k := 0; len(keys) < 66; k++ { // about 80,000 keys until two are alike, by the paradox of the birthdays
		hash := t.Hash(k)
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

// runTable plays bytes on a table and on a map: keys come and go, and go all in the end.
func runTable(t *table, keys []int, ops []byte) error {
	model := map[int]bool{}
	for i := range len(ops) + len(keys) {
		k := keys[i%len(keys)]
		if i < len(ops) {
			k = keys[int(ops[i])%len(keys)]
		} else if !model[k] {
			continue
		}
		if model[k] {
			t.remove(k)
			delete(model, k)
		} else {
			t.add(k, t.Hash(k))
			model[k] = true
		}
		if err := t.check(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		for _, k := range keys {
			if t.has(k) != model[k] {
				return fmt.Errorf("step %d: %d is in the table: %v", i, k, t.has(k))
			}
		}
		in, n := t.keys(), t.Len()
		if slices.Sort(in); n != len(model) || !slices.Equal(in, slices.Sorted(maps.Keys(model))) {
			return fmt.Errorf("step %d: the table counts %d and has %d, want %v", i, n, in, model)
		}
	}
	return nil
}

func TestTableWithCollidingKeysMatchesMap(t *testing.T) {
	table := newTable()
	keys := collidingKeys(table)
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		ops := make([]byte, 300)
		for i := range ops {
			ops[i] = byte(r.IntN(4 << (seed % 5))) // a few keys, or all
		}
		require.NoError(t, runTable(table, keys, ops), "seed %d", seed)
	}
}

func FuzzTableMatchesMap(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 0, 1, 0, 2})
	table := newTable() // its seed is another in each process, but the slots that keys ask for are not
	keys := collidingKeys(table)
	f.Fuzz(func(t *testing.T, ops []byte) {
		require.NoError(t, runTable(table, keys, ops[:min(len(ops), 300)]))
	})
}

// The test chooses the hashes: runs wrap around the end, nest within runs, and are removed in insertion order or in
// reverse.
func TestTableKeepsInvariantsForAnyHashes(t *testing.T) {
	for seed := range uint64(100) {
		table := newTable()
		r := rand.New(rand.NewPCG(seed, 4))
		hashes := []uint32{0, 1<<32 - 1, 1 << 31, r.Uint32(), 6, 7}[:1+seed%6]
		var in []int
		for step := range 120 {
			if n := len(in); n > 0 && (r.IntN(5) == 0 || step > 60 && r.IntN(3) > 0) {
				i := r.IntN(n)
				table.remove(in[i])
				in = slices.Delete(in, i, i+1)
			} else {
				table.add(step, hashes[r.IntN(len(hashes))])
				in = append(in, step)
			}
			keys, n := table.keys(), table.Len()
			slices.Sort(keys)
			if err := table.check(); err != nil || n != len(in) || !slices.Equal(keys, slices.Sorted(slices.Values(in))) {
				t.Fatalf("seed %d, step %d: %v; the table counts %d and has %v, want %v", seed, step, err, n, keys, in)
			}
		}
	}
}

func TestTableGrowsForBurstAndShrinksAfterwards(t *testing.T) {
	table := newTable()
	require.Zero(t, table.Slots(), "none before the first key")
	const n = 20_000
	for k := range n {
		table.add(k, table.Hash(k))
	}
	require.Less(t, table.Slots(), 4*n)
	require.NoError(t, table.check())
	slots := table.Slots()
	for k := range n {
		table.remove(k)
		if table.Slots() != slots {
			slots = table.Slots()
			require.NoError(t, table.check(), "with %d slots", slots)
			require.Greater(t, 2*(n-k), slots/8, "not before an eighth is used")
			for other := range n {
				if table.has(other) != (other > k) {
					t.Fatalf("%d of those up to %d was removed, and %d is in the table: %v", k, n, other, table.has(other))
				}
			}
		}
		if left := n - k - 1; slots > max(2*4096, 8*left) {
			t.Fatalf("%d slots for %d keys", slots, left)
		}
	}
	require.LessOrEqual(t, table.Slots(), 2*4096)
	require.NoError(t, table.check())
}
