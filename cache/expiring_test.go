package cache_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/stretchr/testify/require"
)

func TestExpiring(t *testing.T) {
	t.Run("an object is there until its time is over, and not after", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			x := cache.NewExpiring(podName, time.Minute)
			p := &pod{name: "a"}
			x.Upsert(p)
			time.Sleep(time.Minute - 1)
			got, ok := x.Get("a")
			require.True(t, ok)
			require.Same(t, p, got)
			require.Equal(t, 1, x.Len())
			time.Sleep(time.Nanosecond)
			_, ok = x.Get("a")
			require.False(t, ok)
			require.Zero(t, x.Len())
			_, existed := x.Upsert(p)
			require.False(t, existed)
		})
	})
	t.Run("storing again begins a new life, reading does not", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			x := cache.NewExpiring(podName, time.Minute)
			x.Upsert(&pod{name: "a"})
			x.Upsert(&pod{name: "b"})
			time.Sleep(40 * time.Second)
			old, existed := x.Upsert(&pod{name: "a", n: 2})
			require.True(t, existed)
			require.Zero(t, old.n)
			x.Get("b")
			require.Equal(t, []string{"b", "a"}, names(x.All()))
			time.Sleep(20 * time.Second)
			require.Equal(t, []string{"a"}, names(x.All()))
		})
	})
	t.Run("what has expired cannot be deleted", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			x := cache.NewExpiring(podName, time.Minute)
			for i := range 100 {
				x.Upsert(&pod{name: fmt.Sprint(i)})
			}
			old, existed := x.Delete("99")
			require.True(t, existed)
			require.Equal(t, "99", old.name)
			time.Sleep(time.Minute)
			_, existed = x.Delete("98")
			require.False(t, existed)
		})
	})
	t.Run("use gives the memory back, a few objects at a time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			x := cache.NewExpiring(podName, time.Minute)
			for i := range 1000 {
				x.Upsert(&pod{name: fmt.Sprint(i)})
			}
			time.Sleep(time.Minute)
			before := x.Held()
			x.Get("nobody")
			require.Equal(t, before-4, x.Held())
			for range 300 {
				x.Get("nobody")
			}
			require.Zero(t, x.Held())
			require.NoError(t, x.CheckInvariants())
		})
	})
	t.Run("misuse panics", func(t *testing.T) {
		require.PanicsWithValue(t, "cache: NewExpiring: the key function is nil", func() { cache.NewExpiring[string, *pod](nil, 1) })
		require.PanicsWithValue(t, "cache: NewExpiring: the time to live is not positive", func() { cache.NewExpiring(podName, 0) })
		x := cache.NewExpiring(func(f float64) float64 { return f }, 1)
		require.Panics(t, func() { x.Upsert(math.NaN()) })
	})
}

func TestExpiringEqualsAModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 7))
		x := cache.NewExpiring(podName, 20)
		stored := make(map[string]time.Time)
		for range 20_000 {
			name := fmt.Sprint(r.IntN(30))
			at, ok := stored[name]
			want := ok && time.Since(at) < 20
			var got bool
			switch r.IntN(6) {
			case 0:
				_, got = x.Delete(name)
				delete(stored, name)
			case 1, 2:
				_, got = x.Upsert(&pod{name: name})
				stored[name] = time.Now()
			case 3:
				time.Sleep(time.Duration(r.IntN(4)))
				continue
			case 4:
				n := 0
				for _, at := range stored {
					if time.Since(at) < 20 {
						n++
					}
				}
				require.Equal(t, n, x.Len())
				continue
			default:
				_, got = x.Get(name)
			}
			require.Equal(t, want, got)
			require.NoError(t, x.CheckInvariants())
		}
	})
}

func TestAStoreThatGrowsAndShrinksLosesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 7))
	x := cache.NewExpiring(podName, time.Hour)
	there := make(map[string]bool)
	for i := range 12_000 {
		name := fmt.Sprint(r.IntN(1500))
		if i/3000%2 == 0 && r.IntN(4) > 0 || r.IntN(8) == 0 {
			x.Upsert(&pod{name: name})
			there[name] = true
		} else {
			_, existed := x.Delete(name)
			require.Equal(t, there[name], existed)
			delete(there, name)
		}
		if i%100 == 0 {
			require.NoError(t, x.CheckInvariants())
			require.Equal(t, len(there), x.Len())
		}
	}
}
