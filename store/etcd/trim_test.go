package etcd_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/etcd"
)

// tombstones returns how many tombstones a kind has.
func tombstones(t testing.TB, c *clientv3.Client, kind string) int64 {
	t.Helper()
	res, err := c.Get(t.Context(), "setpoint/objects/"+kind+"/gone/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(t, err)
	return res.Count
}

func TestTombstoneStaysForHistory(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	db, c := open(t, s.addr, etcd.Config{}), connect(t, s.addr)
	gone := func(key string) backend.Record {
		_, err := dbtest.Put(t.Context(), db, key, key)
		require.NoError(t, err)
		r, err := remove(t.Context(), db, key)
		require.NoError(t, err)
		return r
	}
	forget := func() {
		_, now := list(t, db, "app")
		require.NoError(t, db.Forget(t.Context(), now))
	}
	old := gone("old")
	_, err := dbtest.Put(t.Context(), db, "live", "1")
	require.NoError(t, err)
	forget()
	forget()
	r, err := db.Get(t.Context(), "app", "old")
	require.NoError(t, err)
	assert.Equal(t, old, r, "a watch could begin before it")

	young := gone("young")
	_, err = c.Compact(t.Context(), int64(young.Version))
	require.NoError(t, err)
	forget()
	for key, want := range map[string]backend.Record{"old": {}, "young": young} {
		r, err := db.Get(t.Context(), "app", key)
		require.NoError(t, err)
		assert.Equal(t, want, r)
	}
	compact(t, c)
	for range 3 { // the rest of this round, and the next one
		forget()
	}
	compact(t, c)
	forget()
	assert.Zero(t, tombstones(t, c, "app"))
	keys, version := list(t, db, "app")
	assert.Equal(t, []string{"live"}, keys)

	// A watch does not learn of it.
	forget()
	next, err := dbtest.Put(t.Context(), db, "live", "2")
	require.NoError(t, err)
	assert.Equal(t, []backend.Record{next}, changes(t, db, "app", version, 1))
}

func TestManyTombstonesAreRemovedInBatches(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	db, c := open(t, s.addr, etcd.Config{}), connect(t, s.addr)
	data, err := backend.Record{Meta: []byte("{}")}.MarshalBinary()
	require.NoError(t, err)
	want := map[string]int{"a": 2500, "b": 0, "c%2Fd": 7, "z": 1001}
	for i := range 20 {
		want[fmt.Sprint("k", i)] = i % 2
	}
	var ops []clientv3.Op
	flush := func() {
		_, err := c.Txn(t.Context()).Then(ops...).Commit()
		require.NoError(t, err)
		ops = nil
	}
	add := func(key string) {
		if ops = append(ops, clientv3.OpPut("setpoint/objects/"+key, string(data))); len(ops) == 100 {
			flush()
		}
	}
	for kind, n := range want {
		add(kind + "/live/x")
		for i := range n {
			add(fmt.Sprintf("%s/gone/%04d", kind, i))
		}
	}
	add("foreign")
	flush()
	_, now := list(t, db, "a")
	require.NoError(t, db.Forget(t.Context(), now))
	compact(t, c)
	steps := 0
	for left := int64(1); left > 0; steps++ {
		require.Less(t, steps, 30)
		require.NoError(t, db.Forget(t.Context(), now))
		left = 0
		for kind := range want {
			left += tombstones(t, c, kind)
		}
	}
	t.Logf("%d steps", steps)
	for kind := range want {
		res, err := c.Get(t.Context(), "setpoint/objects/"+kind+"/live/x")
		require.NoError(t, err)
		assert.Len(t, res.Kvs, 1, kind)
	}
}

// With Config.History, neither the revisions nor the tombstones grow without limit, and the promised history stays.
func TestWritesCompactClusterToHistory(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	const history = 100
	db, c := open(t, s.addr, etcd.Config{History: history}), connect(t, s.addr)
	first, err := dbtest.Put(t.Context(), db, "first", "1")
	require.NoError(t, err)
	var versions []informer.Version
	for i := range 350 {
		key := fmt.Sprint(i)
		r, err := dbtest.Put(t.Context(), db, key, "1")
		require.NoError(t, err)
		versions = append(versions, r.Version)
		r, err = remove(t.Context(), db, key)
		require.NoError(t, err)
		versions = append(versions, r.Version)
	}
	last := versions[len(versions)-1]
	_, err = watchEnd(t, db, "app", first.Version)
	require.ErrorIs(t, err, backend.ErrExpired)
	after, reported := last-history, []informer.Version{}
	for c, err := range db.Watch(t.Context(), "app", backend.Query{}, after) {
		require.NoError(t, err)
		if c.Record.Key != "" {
			reported = append(reported, c.Version)
		}
		if c.Version >= last {
			break
		}
	}
	from, _ := slices.BinarySearch(versions, after+1)
	assert.Equal(t, versions[from:], reported)
	assert.Less(t, tombstones(t, c, "app"), int64(250))
	t.Logf("%d tombstones are left of 350", tombstones(t, c, "app"))
}
