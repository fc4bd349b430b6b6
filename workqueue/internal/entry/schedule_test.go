package entry_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// planned is a wake-up of the model of a schedule, which is a slice in order.
type planned struct {
	entry  int
	due    int64
	number int
}

// runSchedule plays bytes on a schedule and on a slice.
func runSchedule(ops []byte) error {
	const entries = 12
	s := newSchedule(entries)
	s.RunOut(uint32(len(ops) / 3)) // of numbers
	var model []planned
	for i, op := range ops {
		e := int(op>>3) % entries
		without := slices.DeleteFunc(slices.Clone(model), func(p planned) bool { return p.entry == e })
		scheduled := len(without) < len(model)
		switch op & 7 {
		case 0, 1, 2, 3: // with many that are equal, and each moves now to the front, now to the back
			due := 1 + int64(op&3)*3 + int64(i)%5 + int64(i)/40
			model = append(without, planned{e, due, i})
			slices.SortFunc(model, func(a, b planned) int {
				return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.number, b.number))
			})
			if first := s.set(e, due); first != (model[0].entry == e) {
				return fmt.Errorf("step %d: %d is the first: %v", i, e, first)
			}
		case 4, 5:
			if scheduled {
				s.remove(e)
				model = without
			}
		case 6: // the first is done
			if len(model) > 0 {
				s.remove(model[0].entry)
				model = model[1:]
			}
		case 7:
			if !scheduled {
				s.renew(e)
			} else if i%16 == 0 {
				due := s.clear()
				for _, p := range model {
					if due[p.entry] != p.due {
						return fmt.Errorf("step %d: cleared %v, want %v", i, due, model)
					}
				}
				if len(due) != len(model) {
					return fmt.Errorf("step %d: cleared %v, want %v", i, due, model)
				}
				model = nil
			}
		}
		if err := s.check(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		if s.Len() != len(model) {
			return fmt.Errorf("step %d: %d are scheduled, want %d", i, s.Len(), len(model))
		}
		if len(model) > 0 && i%3 == 0 { // not each time: First takes out what does not count
			if e, due := s.first(); e != model[0].entry || due != model[0].due {
				return fmt.Errorf("step %d: %d is due first, at %d; want %+v", i, e, due, model[0])
			}
		}
	}
	for _, p := range model {
		if e, due := s.first(); e != p.entry || due != p.due {
			return fmt.Errorf("at the end: %d is due first, at %d; want %+v", e, due, p)
		}
		s.remove(p.entry)
	}
	return nil
}

func TestScheduleMatchesSortedSlice(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 5))
		ops := make([]byte, 300)
		for i := range ops {
			ops[i] = byte(r.Uint32())
			if seed%2 == 1 && ops[i]&4 != 0 { // moved time and again, and hardly ever removed: much that does not count
				ops[i] &= byte(r.Uint32())
			}
		}
		require.NoError(t, runSchedule(ops), "seed %d", seed)
	}
}

func FuzzScheduleMatchesSortedSlice(f *testing.F) {
	f.Add([]byte{0, 8, 16, 1, 9, 6, 12, 7, 15, 3, 3, 3})
	f.Fuzz(func(t *testing.T, ops []byte) { require.NoError(t, runSchedule(ops[:min(len(ops), 500)])) })
}

// A key that is rescheduled repeatedly leaves only a bounded number of stale wake-ups.
func TestStaleWakeUpsTakeLittleMemory(t *testing.T) {
	s := newSchedule(100)
	for i := range 20_000 {
		s.set(i%100, int64(20_000-i)) // each comes before all others, so that nothing old gets to the top
		if s.Kept() > 1024 {
			t.Fatalf("memory for %d, of which 100 are scheduled", s.Kept())
		}
	}
	require.NoError(t, s.check())
	require.Equal(t, 100, s.Len())
}

func TestScheduleReleasesMemoryAfterBurst(t *testing.T) {
	const n = 10_000
	for name, finish := range map[string]func(*schedule){
		"the first is removed each time": func(s *schedule) {
			for i := range n {
				e, due := s.first()
				if e != i || due != int64(i+1) {
					t.Fatalf("%d is due first, at %d, and not %d", e, due, i)
				}
				s.remove(e)
			}
		},
		"the last is removed each time": func(s *schedule) {
			for i := range n {
				s.remove(n - 1 - i)
			}
		},
		"all are cleared": func(s *schedule) { s.clear() },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSchedule(n)
			for i := range n {
				s.set(i, int64(i+1))
			}
			require.GreaterOrEqual(t, s.Kept(), n)
			finish(s)
			require.Zero(t, s.Len())
			require.LessOrEqual(t, s.Kept(), 4096)
			require.NoError(t, s.check())
		})
	}
}
