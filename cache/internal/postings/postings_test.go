package postings_test

import (
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/setpoint-go/setpoint/cache/internal/postings"
)

// The model is a map of slices. Objects have no, one, or several postings by turns.
func TestTableMatchesModel(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		table := postings.New(maphash.MakeSeed(), r.IntN(100))
		model := make(map[uint32][]postings.Posting)
		for range 300 {
			n := r.Uint32N(150)
			var ps []postings.Posting
			for _, bucket := range r.Perm(5)[:r.IntN(4)] {
				ps = append(ps, postings.Posting{Bucket: uint32(bucket + 1), Place: r.Uint32N(9)})
			}
			table.Set(n, ps)
			model[n] = slices.Clone(ps)
			clear(ps) // the table has a copy
			if err := table.Check(); err != nil {
				t.Fatal(err)
			}
			if n := r.Uint32N(150); len(model[n]) > 0 { // a place may be changed in the table
				i := r.IntN(len(model[n]))
				model[n][i].Place = r.Uint32N(9)
				table.In(n, model[n][i].Bucket).Place = model[n][i].Place
			}
			for n := range uint32(200) {
				want := model[n]
				if got := table.Of(n); !slices.Equal(got, want) {
					t.Fatalf("seed %d: Of(%d) = %v, want %v", seed, n, got, want)
				}
				var only uint32
				if len(want) == 1 {
					only = want[0].Bucket
				}
				if got := table.Only(n); got != only {
					t.Fatalf("seed %d: Only(%d) = %d, want %d", seed, n, got, only)
				}
				for bucket := range uint32(7) {
					i := slices.IndexFunc(want, func(p postings.Posting) bool { return p.Bucket == bucket })
					if got := table.In(n, bucket); (got != nil) != (i >= 0) || got != nil && *got != want[i] {
						t.Fatalf("seed %d: In(%d, %d) = %v, want %v", seed, n, bucket, got, want)
					}
				}
			}
		}
	}
}
