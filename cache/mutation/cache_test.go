package mutation_test

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/cache/mutation"
	"github.com/stretchr/testify/require"
)

func podVersion(p *pod) uint64 { return uint64(p.n) }

func newCache(t *testing.T, cfg mutation.Config) (*cache.Indexer[string, *pod], *mutation.Cache[string, *pod]) {
	x := newPods()
	o, err := mutation.New(x, podName, podVersion, cfg)
	require.NoError(t, err)
	return x, o
}

// asked is a cache that calls before for each Get.
type asked struct {
	*cache.Indexer[string, *pod]
	before func()
}

func (a asked) Get(key string) (*pod, bool) {
	a.before()
	return a.Indexer.Get(key)
}

// shows requires that Get finds this version, or nothing for 0.
func shows(t *testing.T, o *mutation.Cache[string, *pod], version int) {
	t.Helper()
	p, ok := o.Get("a")
	require.Equal(t, version > 0, ok)
	if ok {
		require.Equal(t, version, p.n)
	} else {
		require.Nil(t, p)
	}
	require.NoError(t, o.CheckInvariants())
}

func TestCache(t *testing.T) {
	t.Run("the newer of cache and write is shown until the cache catches up", func(t *testing.T) {
		x, o := newCache(t, mutation.Config{})
		shows(t, o, 0)
		x.Upsert(a(1))
		shows(t, o, 1)
		o.Wrote(a(3))
		shows(t, o, 3)
		x.Upsert(a(2))
		shows(t, o, 3)
		require.Equal(t, 1, o.Len())
		x.Upsert(a(3))
		shows(t, o, 3)
		require.Zero(t, o.Len(), "the cache has it")
		o.Wrote(a(4))
		x.Upsert(a(9))
		shows(t, o, 9)
		require.Zero(t, o.Len())
	})
	t.Run("a created object is visible before the cache has it", func(t *testing.T) {
		_, o := newCache(t, mutation.Config{})
		o.Wrote(a(1))
		shows(t, o, 1)
	})
	t.Run("a deleted object disappears at once and returns only if newer", func(t *testing.T) {
		x, o := newCache(t, mutation.Config{})
		x.Upsert(a(1))
		o.WroteDeletion("a", 2)
		shows(t, o, 0)
		x.Upsert(a(2))
		shows(t, o, 0)
		x.Upsert(a(5))
		shows(t, o, 5)
		require.Zero(t, o.Len())
		o.WroteDeletion("a", 5)
		x.Delete("a")
		shows(t, o, 0)
		require.Equal(t, 1, o.Len(), "the cache may not show the creation yet")
		o.OnDelete(cache.Tombstone[string, *pod]{Key: "a", Object: a(5)})
		require.Zero(t, o.Len(), "now it has")
	})
	t.Run("late writes do not hide newer ones", func(t *testing.T) {
		_, o := newCache(t, mutation.Config{})
		o.Wrote(a(4))
		o.Wrote(a(3))
		shows(t, o, 4)
		o.WroteDeletion("a", 3)
		shows(t, o, 4)
		o.WroteDeletion("a", 4)
		shows(t, o, 0)
		o.Wrote(a(4))
		shows(t, o, 0)
		o.Wrote(a(5))
		shows(t, o, 5)
	})
	t.Run("a deletion in the cache ends an older write but not a recreation", func(t *testing.T) {
		_, o := newCache(t, mutation.Config{})
		o.Wrote(a(3))
		o.OnDelete(cache.Tombstone[string, *pod]{Key: "a", Object: a(2)})
		shows(t, o, 3)
		o.OnDelete(cache.Tombstone[string, *pod]{Key: "b", Object: a(9)})
		shows(t, o, 3)
		o.OnDelete(cache.Tombstone[string, *pod]{Key: "a", Object: a(3)})
		shows(t, o, 0)
	})
	t.Run("a write is remembered for the TTL", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for _, ttl := range []time.Duration{0, time.Second} {
				_, o := newCache(t, mutation.Config{TTL: ttl})
				o.Wrote(a(1))
				if ttl == 0 {
					ttl = time.Minute
				}
				time.Sleep(ttl - 1)
				shows(t, o, 1)
				time.Sleep(time.Nanosecond)
				shows(t, o, 0)
				require.Zero(t, o.Len())
			}
		})
	})
	t.Run("an expired write is gone for every method", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, o := newCache(t, mutation.Config{})
			o.Wrote(a(1))
			time.Sleep(time.Minute - 1)
			require.Equal(t, []string{"a"}, names(o.All()))
			require.Equal(t, 1, o.Len())
			time.Sleep(time.Nanosecond)
			require.Empty(t, names(o.All()))
			o.Wrote(a(2))
			time.Sleep(time.Minute)
			require.Zero(t, o.Len())
		})
	})
	t.Run("without Config.Version, an object of version 0 is visible", func(t *testing.T) {
		_, o := newCache(t, mutation.Config{})
		o.Wrote(a(0))
		_, ok := o.Get("a")
		require.True(t, ok)
	})
	t.Run("a key that is not equal to itself panics", func(t *testing.T) {
		x := cache.NewIndexer(func(float64) float64 { return 0 })
		o := must(mutation.New(x, func(f float64) float64 { return f }, func(float64) uint64 { return 1 }, mutation.Config{}))
		const misuse = "mutation: a key is not equal to itself"
		require.PanicsWithValue(t, misuse, func() { o.Wrote(math.NaN()) })
		require.PanicsWithValue(t, misuse, func() { o.WroteDeletion(math.NaN(), 1) })
		require.PanicsWithValue(t, misuse, func() { o.OnDelete(cache.Tombstone[float64, float64]{Key: math.NaN()}) })
		require.Zero(t, o.Len(), "no lock is still held")
	})
	t.Run("the oldest write is dropped at the limit", func(t *testing.T) {
		for _, limit := range []int{0, 2} {
			_, o := newCache(t, mutation.Config{Limit: limit})
			if limit == 0 {
				limit = 1024
			}
			o.Wrote(a(1))
			for i := range limit - 1 {
				o.Wrote(&pod{name: fmt.Sprint(i)})
			}
			shows(t, o, 1)
			o.Wrote(&pod{name: "one more"})
			shows(t, o, 0)
			require.Equal(t, limit, o.Len())
		}
	})
	t.Run("user functions run without a lock", func(t *testing.T) {
		x := newPods()
		var o *mutation.Cache[string, *pod]
		o, err := mutation.New(x, podName, func(p *pod) uint64 { o.Len(); return uint64(p.n) }, mutation.Config{})
		require.NoError(t, err)
		x.Upsert(a(1))
		o.Wrote(a(2))
		shows(t, o, 2)
		o.OnDelete(cache.Tombstone[string, *pod]{Key: "a", Object: a(2)})
		shows(t, o, 1)
	})
	t.Run("a write during a cache read is not dropped with the earlier write", func(t *testing.T) {
		for what, test := range map[string]struct {
			write func(o *mutation.Cache[string, *pod])
			shows int
		}{
			"a newer write":             {func(o *mutation.Cache[string, *pod]) { o.Wrote(a(3)) }, 3},
			"the deletion of the state": {func(o *mutation.Cache[string, *pod]) { o.WroteDeletion("a", 2) }, 0},
		} {
			x := newPods()
			x.Upsert(a(2))
			var o *mutation.Cache[string, *pod]
			calls := 0
			o, err := mutation.New(asked{x, func() {
				if calls++; calls == 1 {
					test.write(o)
				}
			}}, podName, podVersion, mutation.Config{})
			require.NoError(t, err)
			o.Wrote(a(2))
			shows(t, o, 2)
			require.Equal(t, 1, o.Len(), what)
			shows(t, o, test.shows)
		}
	})
	t.Run("an invalid Config is an error that names the field, a nil function panics", func(t *testing.T) {
		_, err := mutation.New(newPods(), podName, podVersion, mutation.Config{TTL: -1, Limit: -1})
		require.EqualError(t, err, "mutation: new cache: Config.TTL is -1ns, must not be negative; Config.Limit is -1, must not be negative")
		require.Panics(t, func() { _, _ = mutation.New(newPods(), podName, nil, mutation.Config{}) })
	})
}

// TestReadsNeverGoBack has a writer whose writes reach the cache late. Its readers must never see a version lower
// than one that they have seen.
func TestReadsNeverGoBack(t *testing.T) {
	x, o := newCache(t, mutation.Config{})
	const last = 2000
	written := make(chan *pod, 10)
	var wg sync.WaitGroup
	// The cache: follows, until the writer has closed the channel.
	wg.Go(func() {
		for p := range written {
			x.Upsert(p)
		}
	})
	for range 2 {
		// Reads until it has seen the last version.
		wg.Go(func() {
			for seen := 0; seen < last; {
				p, ok := o.Get("a")
				if ok && p.n < seen || !ok && seen > 0 {
					t.Errorf("version %v after %d", p, seen)
					return
				}
				if ok {
					seen = p.n
				}
			}
		})
	}
	for n := 1; n <= last; n++ {
		o.Wrote(a(n))
		if p, ok := o.Get("a"); !ok || p.n != n {
			t.Errorf("wrote %d, read %v", n, p)
		}
		written <- a(n)
	}
	close(written)
	wg.Wait()
}
