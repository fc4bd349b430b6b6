package mutation_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/cache/mutation"
	"github.com/stretchr/testify/require"
)

func deleted(p *pod) cache.Tombstone[string, *pod] {
	return cache.Tombstone[string, *pod]{Key: p.name, Object: p}
}

func missed(p *pod) cache.Tombstone[string, *pod] {
	return cache.Tombstone[string, *pod]{Key: p.name, Object: p, FinalStateUnknown: true}
}

func TestLateReplyDoesNotReviveDeletedObject(t *testing.T) {
	for what, tell := range map[string]func(o *mutation.Cache[string, *pod]){
		"of a write":            func(o *mutation.Cache[string, *pod]) { o.Wrote(a(5)) },
		"of an older write":     func(o *mutation.Cache[string, *pod]) { o.Wrote(a(4)) },
		"of the deletion of it": func(o *mutation.Cache[string, *pod]) { o.WroteDeletion("a", 5) },
	} {
		x, o := newCache(t, mutation.Config{})
		x.Upsert(a(5)) // the cache shows the write before the call that wrote it returns
		x.Delete("a")
		o.OnDelete(deleted(a(5)))
		o.OnDelete(deleted(a(2))) // an older life, told late
		tell(o)
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
