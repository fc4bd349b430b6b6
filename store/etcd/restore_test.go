//go:build linux

package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/etcd"
)

// follow runs an informer until the test ends, and returns it when it has synced.
func follow(t testing.TB, db *etcd.Backend, handler informer.Handler[string, store.Object[dbtest.App]]) *store.Informer[dbtest.App] {
	t.Helper()
	inf, err := informer.New(dbtest.Apps(t, db), store.Key, informer.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	_, err = inf.AddHandler(handler)
	require.NoError(t, err)
	dbtest.Follow(t, inf)
	return inf
}

// A cluster that was restored from a backup reuses revisions. A cache that has seen the lost revisions must not
// continue from there.
func TestWatchExpiresAfterClusterRestore(t *testing.T) {
	t.Parallel()
	p := startProcesses(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	db := open(t, p.near(), quick)
	s := dbtest.Apps(t, db)
	keep, err := s.Create(ctx, store.Object[dbtest.App]{Key: "keep"})
	require.NoError(t, err)

	p.servers[0].Stop()
	backup := filepath.Join(t.TempDir(), "backup")
	require.NoError(t, os.CopyFS(backup, os.DirFS(p.dirs[0])))
	p.servers[0].Start()
	p.leader()

	added := make(chan string, 100)
	inf := follow(t, open(t, p.near(), quick), informer.Handler[string, store.Object[dbtest.App]]{
		OnAdd: func(o store.Object[dbtest.App], _ bool) { added <- o.Key },
	})
	var last store.Object[dbtest.App]
	for i := range 20 {
		last = create(t, db, fmt.Sprint("lost", i))
	}
	require.NoError(t, inf.WaitForVersion(ctx, last.Version))

	p.servers[0].Kill()
	require.NoError(t, os.RemoveAll(p.dirs[0]))
	require.NoError(t, os.CopyFS(p.dirs[0], os.DirFS(backup)))
	p.servers[0].Start()
	p.leader()
	_, err = watchEnd(t, db, "App", last.Version)
	require.ErrorIs(t, err, informer.ErrNewHistory)
	require.ErrorContains(t, err, "not at ")

	// Fewer changes than were lost. The informer accepts the older list, because this is another history.
	create(t, db, "new")
	for key := ""; key != "new"; {
		select {
		case key = <-added:
		case <-ctx.Done():
			t.Fatal("the cache has not reached the restored cluster")
		}
	}
	assert.Equal(t, 2, inf.Indexer().Len())
	cached, ok := inf.Get("keep")
	require.True(t, ok)
	assert.Equal(t, keep, cached)
}

// create creates an object, as often as it takes for the client to find the server.
func create(t testing.TB, db *etcd.Backend, key string) (o store.Object[dbtest.App]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		o, err := dbtest.Apps(t, db).Create(ctx, store.Object[dbtest.App]{Key: key})
		if errors.Is(err, store.ErrExists) { // an earlier attempt has created it
			o, err = dbtest.Apps(t, db).Get(ctx, key)
		}
		if err == nil {
			return o
		}
		require.NoError(t, ctx.Err(), err)
	}
}

// Another cluster at the same address may have more revisions than the first one.
func TestWatchExpiresInAnotherCluster(t *testing.T) {
	t.Parallel()
	addr := servertest.FreeAddr(t)
	start := func(token string) *embed.Etcd {
		m := alone(t.TempDir())
		m.Client = addr
		c := m.config()
		c.InitialClusterToken = token
		e, err := embed.StartEtcd(c)
		require.NoError(t, err)
		<-e.Server.ReadyNotify()
		return e
	}
	one := start("one")
	db := open(t, addr, quick)
	seen := create(t, db, "a")
	one.Close()
	defer start("two").Close()
	other := open(t, addr, quick)
	for i := range 10 {
		create(t, other, fmt.Sprint(i))
	}
	got, err := watchEnd(t, db, "App", seen.Version)
	require.ErrorIs(t, err, informer.ErrNewHistory)
	require.ErrorContains(t, err, "another cluster has answered")
	assert.Empty(t, got)
	_, version := list(t, db, "App")
	r := create(t, db, "b")
	assert.Equal(t, r.Version, changes(t, db, "App", version, 1)[0].Version)
}

// A watcher that missed a compaction lists again. Its handlers receive every deletion that its cache can know of.
func TestCacheRecoversFromMissedCompaction(t *testing.T) {
	t.Parallel()
	p := startProcesses(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	db, c := open(t, p.near(), quick), connect(t, p.near())
	s := dbtest.Apps(t, db)
	deleted := make(chan string, 1000)
	inf := follow(t, open(t, p.far(), quick), informer.Handler[string, store.Object[dbtest.App]]{
		EveryEvent: true,
		OnDelete:   func(d cache.Tombstone[string, store.Object[dbtest.App]]) { deleted <- d.Key },
	})
	compacted := 0
	for i := range *cycles {
		key := fmt.Sprint(i)
		o := create(t, db, key)
		require.NoError(t, inf.WaitForVersion(ctx, o.Version))
		p.clients[0].Stall()
		p.clients[0].Cut()
		_, err := s.Delete(ctx, key)
		require.NoError(t, err)
		passing := create(t, db, fmt.Sprint("passing", i)) // comes and goes unseen
		_, err = s.Delete(ctx, passing.Key)
		require.NoError(t, err)
		require.Greater(t, passing.Version, o.Version)
		next := create(t, db, fmt.Sprint("next", i))
		compact(t, c)
		compacted++
		p.clients[0].Heal()
		require.NoError(t, inf.WaitForVersion(ctx, next.Version))
		select {
		case got := <-deleted:
			require.Equal(t, key, got)
		case <-ctx.Done():
			t.Fatal("the handler did not receive the deletion")
		}
		require.Equal(t, i+1, inf.Indexer().Len())
	}
	assert.Empty(t, deleted)
	t.Logf("%d compactions", compacted)
}

// A silent server ends the watch, even if the connection still looks healthy.
func TestWatchEndsWhenServerIsSilent(t *testing.T) {
	t.Parallel()
	addr := startServer(t).addr
	p := servertest.NewProxy(t, addr)
	db := open(t, p.Addr(), quick)
	db.SetSilence(time.Second)
	_, version := list(t, db, "app")
	_, err := putInto(t.Context(), db, "other", "a", backend.Record{}) // for a bookmark at once
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	bookmarks := 0
	var end error
	for _, err := range db.Watch(ctx, "app", backend.Query{}, version) {
		if end = err; err == nil {
			bookmarks++
			p.Stall()
		}
	}
	require.ErrorContains(t, end, "etcd: watch app: the server has not answered for 1s")
	assert.Equal(t, 1, bookmarks, "after a bookmark, nothing is yielded without a reply from the server")
}

// A slow consumer is not a silent server.
func TestWatchContinuesAfterSlowConsumer(t *testing.T) {
	t.Parallel()
	db := open(t, startServer(t).addr, quick)
	db.SetSilence(200 * time.Millisecond)
	_, version := list(t, db, "app")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err := dbtest.Put(t.Context(), db, "0", "1")
	require.NoError(t, err)
	n := 0
	for c, err := range db.Watch(ctx, "app", backend.Query{}, version) {
		require.NoError(t, err)
		if c.Record.Key == "" {
			continue
		}
		if n++; n == 4 {
			break
		}
		_, err = dbtest.Put(t.Context(), db, fmt.Sprint(n), "1")
		require.NoError(t, err)
		time.Sleep(500 * time.Millisecond) // longer than the server may be silent
	}
	assert.Equal(t, 4, n)
}

// Members without a majority receive no changes. A watch on such a member ends, so that its informer tries another
// one.
func TestWatchEndsOnMemberWithoutLeader(t *testing.T) {
	t.Parallel()
	p := startProcesses(t, 3)
	addr := p.servers[0].Addr()
	db := open(t, addr, quick)
	_, version := list(t, db, "app")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	bookmarks := 0
	var end error
	for _, err := range db.Watch(ctx, "app", backend.Query{}, version) {
		if end = err; err == nil {
			if bookmarks++; bookmarks == 1 {
				p.servers[1].Kill()
				p.servers[2].Kill()
			}
		}
	}
	require.Error(t, end)
	require.NoError(t, ctx.Err())
	require.ErrorContains(t, end, "no leader")
}

// A deletion by another program has no last state to report. The next list shows it.
func TestForeignDeletionExpiresWatch(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	db, c := open(t, s.addr, etcd.Config{}), connect(t, s.addr)
	for _, key := range []string{"a", "b"} {
		_, err := dbtest.Put(t.Context(), db, key, "1")
		require.NoError(t, err)
	}
	removed, err := remove(t.Context(), db, "a")
	require.NoError(t, err)
	_, err = c.Delete(t.Context(), "setpoint/objects/app/live/b")
	require.NoError(t, err)
	changes, err := watchEnd(t, db, "app", removed.Version-1)
	require.ErrorIs(t, err, backend.ErrExpired)
	require.ErrorContains(t, err, `"b" was deleted by another program`)
	assert.Equal(t, removed, changes[0].Record)
	keys, _ := list(t, db, "app")
	assert.Empty(t, keys)

	// An earlier deletion of the same key had a tombstone.
	db = open(t, s.addr, etcd.Config{Prefix: "again"})
	_, version := list(t, db, "app")
	_, err = dbtest.Put(t.Context(), db, "a", "1")
	require.NoError(t, err)
	_, err = remove(t.Context(), db, "a")
	require.NoError(t, err)
	_, err = dbtest.Put(t.Context(), db, "a", "2")
	require.NoError(t, err)
	_, err = c.Delete(t.Context(), "again/objects/app/live/a")
	require.NoError(t, err)
	_, err = watchEnd(t, db, "app", version)
	require.ErrorIs(t, err, backend.ErrExpired)
	require.ErrorContains(t, err, `"a" was deleted by another program`)
}

// A member that lags behind may answer a watch that has seen more through another one.
func TestBookmarksNeverGoBack(t *testing.T) {
	for reported, want := range map[informer.Version][]backend.Change{9: nil, 10: {{Version: 10}}, 11: {{Version: 11}}} {
		changes, err := etcd.Progress(10, reported)
		require.NoError(t, err)
		assert.Equal(t, want, changes)
	}
}
