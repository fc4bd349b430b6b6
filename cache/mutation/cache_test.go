package mutation_test

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/cache/mutation"
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
	t.Run("an expired write is dropped for every method", func(t *testing.T) {
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

func deleted(p *pod) cache.Tombstone[string, *pod] {
	return cache.Tombstone[string, *pod]{Key: p.name, Object: p}
}

func missed(p *pod) cache.Tombstone[string, *pod] {
	return cache.Tombstone[string, *pod]{Key: p.name, Object: p, FinalStateUnknown: true}
}

func TestLateReplyDoesNotReviveDeletedObject(t *testing.T) {
	for what, write := range map[string]func(o *mutation.Cache[string, *pod]){
		"of a write":            func(o *mutation.Cache[string, *pod]) { o.Wrote(a(5)) },
		"of an older write":     func(o *mutation.Cache[string, *pod]) { o.Wrote(a(4)) },
		"of the deletion of it": func(o *mutation.Cache[string, *pod]) { o.WroteDeletion("a", 5) },
	} {
		x, o := newCache(t, mutation.Config{})
		x.Upsert(a(5)) // the cache shows the write before the call that wrote it returns
		x.Delete("a")
		o.OnDelete(deleted(a(5)))
		o.OnDelete(deleted(a(2))) // an older life, reported late
		write(o)
		shows(t, o, 0)
		require.Zero(t, o.Len(), what)
		o.Wrote(a(6))
		shows(t, o, 6)
	}
}

func TestDeletionDuringGapEndsUnseenWrite(t *testing.T) {
	_, o := newCache(t, mutation.Config{})
	o.Wrote(a(5))
	o.OnDelete(missed(a(3))) // a list after the gap, in which our write was deleted
	shows(t, o, 0)
}

func TestDeletionsAreRememberedWithinTTLAndLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, o := newCache(t, mutation.Config{TTL: time.Second, Limit: 3})
		o.OnDelete(deleted(a(5)))
		time.Sleep(time.Second - 1)
		o.Wrote(a(5))
		shows(t, o, 0)
		time.Sleep(time.Nanosecond)
		o.Wrote(a(5))
		shows(t, o, 5)

		o.OnDelete(deleted(a(5)))
		for i := range 3 {
			o.OnDelete(deleted(&pod{name: fmt.Sprint(i), n: 5}))
			o.Wrote(a(5))
			shows(t, o, []int{0, 0, 5}[i])
		}
	})
}

func TestWriteEndsWhenNewerCacheLacksIt(t *testing.T) {
	reached := uint64(4)
	x, o := newCache(t, mutation.Config{Version: func() uint64 { return reached }})
	o.Wrote(a(5)) // into a cache that shows a part of the source, to which the object does not belong
	shows(t, o, 5)
	o.OnDelete(missed(a(3))) // by a list that was read before the write
	shows(t, o, 5)
	reached = 5
	shows(t, o, 0)
	require.Zero(t, o.Len())

	o.WroteDeletion("a", 7)
	x.Upsert(a(7))
	reached = 7
	shows(t, o, 0)
	x.Delete("a")
	reached = 8
	shows(t, o, 0)
	require.Zero(t, o.Len())
}

func TestIndexReadShowsOwnWrites(t *testing.T) {
	x, o := newCache(t, mutation.Config{})
	byNode := cache.AddIndex(x, podNodes)
	for _, name := range []string{"a", "b", "c", "d"} {
		x.Upsert(&pod{name: name, n: 1, nodes: []string{"1"}})
	}
	o.Wrote(&pod{name: "e", n: 2, nodes: []string{"1"}})
	o.Wrote(&pod{name: "a", n: 3, nodes: []string{"2", "2"}}) // has moved
	o.Wrote(&pod{name: "b", n: 4, nodes: []string{"1"}})      // has changed, and is where it was
	o.WroteDeletion("c", 1)
	require.Equal(t, []string{"d", "e", "b"}, names(mutation.ByIndex(o, byNode).All("1")))
	require.Equal(t, []string{"a"}, names(mutation.ByIndex(o, byNode).All("2")))
	require.Empty(t, names(mutation.ByIndex(o, byNode).All("3")))
	require.Equal(t, []string{"d", "e", "a", "b"}, names(o.All()))

	for key := range mutation.ByIndex(o, byNode).All("1") { // a loop may end early
		require.Equal(t, "d", key)
		break
	}
	for key := range mutation.ByIndex(o, byNode).All("2") {
		require.Equal(t, "a", key)
		break
	}
}

func TestIndexReadHasOrderOfIndex(t *testing.T) {
	x, o := newCache(t, mutation.Config{})
	byNode := cache.AddIndex(x, podNodes)
	x.Upsert(&pod{name: "a", n: 1})
	x.Upsert(&pod{name: "b", n: 1, nodes: []string{"1"}})
	x.Upsert(&pod{name: "a", n: 2, nodes: []string{"1"}})
	require.Equal(t, []string{"a", "b"}, names(o.All()))
	require.Equal(t, []string{"b", "a"}, names(mutation.ByIndex(o, byNode).All("1")))
}

func TestCacheNoticesProgressOnlyWhenKeyIsRead(t *testing.T) {
	x, o := newCache(t, mutation.Config{})
	o.Wrote(a(2))
	x.Upsert(a(2))
	require.Equal(t, 1, o.Len())
	shows(t, o, 2)
	require.Zero(t, o.Len())
}

func TestForgottenDeletionNoLongerHidesObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, o := newCache(t, mutation.Config{TTL: time.Second})
		x.Upsert(a(5)) // and never again
		o.WroteDeletion("a", 5)
		time.Sleep(time.Second - 1)
		shows(t, o, 0)
		time.Sleep(time.Nanosecond)
		shows(t, o, 5)
	})
}

type pod struct {
	name  string
	n     int
	nodes []string
}

func podName(p *pod) string    { return p.name }
func podNodes(p *pod) []string { return p.nodes }

func newPods() *cache.Indexer[string, *pod] { return cache.NewIndexer(podName) }

// a returns a state of the object a.
func a(n int) *pod { return &pod{name: "a", n: n} }

// names returns the keys of seq in order.
func names(seq func(func(string, *pod) bool)) (names []string) {
	for name := range seq {
		names = append(names, name)
	}
	return names
}

// must returns v. It panics if err is not nil: a test that constructs its subject from a bad Config is broken.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
