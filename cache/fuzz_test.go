package cache_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzDeltaFIFO(f *testing.F) {
	f.Add(0, false, false, []byte{0, 4, 1, 5, 2})
	f.Add(64, true, true, []byte{12, 5, 9, 2, 7, 6, 3, 13, 5})
	f.Add(210, false, false, []byte{12, 6, 6, 2, 0})      // two failures, in order
	f.Add(0, true, true, []byte{0, 5, 14, 10, 15, 6, 14}) // lists of what is known
	f.Fuzz(func(t *testing.T, equal int, warm, compare bool, actions []byte) {
		if len(actions) > 200 {
			return
		}
		require.NoError(t, newHistory(actions, equal, warm, compare).finish(), "%v", actions)
	})
}

func FuzzIndexer(f *testing.F) {
	f.Add(uint64(1), 10, 50)
	f.Fuzz(func(t *testing.T, seed uint64, keys, steps int) {
		if keys < 1 || keys > 100 || steps > 1000 {
			return
		}
		r := rand.New(rand.NewPCG(seed, 5))
		p := newPair()
		for i := range steps {
			require.NoError(t, p.randomly(r, keys, i))
			require.NoError(t, p.check())
		}
	})
}
