//go:build linux

package etcd_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	etcdutl "go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

// A cluster is restored from a snapshot with the options that README.md demands, while a watch is open. Every watch expires, from
// before and from after the snapshot, and the informer lists again by itself.
func TestWatchesExpireAfterSnapshotRestore(t *testing.T) {
	t.Parallel()
	p := startProcesses(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	db := open(t, p.near(), quick)
	keep := create(t, db, "keep")
	reader, err := connect(t, p.near()).Snapshot(ctx)
	require.NoError(t, err)
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	file, err := os.Create(snapshot)
	require.NoError(t, err)
	_, err = io.Copy(file, reader)
	require.NoError(t, err)
	require.NoError(t, file.Close())

	deleted := make(chan string, 100)
	inf := follow(t, open(t, p.near(), quick), informer.Handler[string, store.Object[dbtest.App]]{
		OnDelete: func(d cache.Tombstone[string, store.Object[dbtest.App]]) { deleted <- d.Key },
	})
	var last store.Object[dbtest.App]
	for i := range 20 {
		last = create(t, db, fmt.Sprint("lost", i))
	}
	require.NoError(t, inf.WaitForVersion(ctx, last.Version))

	p.servers[0].Kill()
	require.NoError(t, os.RemoveAll(p.dirs[0]))
	peer := "http://" + p.peers[0].Addr()
	require.NoError(t, etcdutl.NewV3(zap.NewNop()).Restore(etcdutl.RestoreConfig{
		SnapshotPath: snapshot, OutputDataDir: p.dirs[0], Name: "m0", InitialCluster: "m0=" + peer, InitialClusterToken: "etcd-cluster",
		PeerURLs: []string{peer}, RevisionBump: 1_000_000_000, MarkCompacted: true,
	}))
	p.servers[0].Start()
	p.leader()
	for range 20 {
		select {
		case <-deleted:
		case <-ctx.Done():
			t.Fatal("the cache has not reached the restored cluster")
		}
	}
	assert.Equal(t, 1, inf.Indexer().Len())
	cached, _ := inf.Get("keep")
	assert.Equal(t, keep, cached)
	assert.Greater(t, inf.Version(), last.Version)
	for _, v := range []informer.Version{keep.Version, last.Version} {
		_, err = watchEnd(t, db, "App", v)
		require.ErrorIs(t, err, backend.ErrExpired, "from version %d", v)
	}
	next := create(t, db, "next")
	assert.Greater(t, next.Version, last.Version)
	require.NoError(t, inf.WaitForVersion(ctx, next.Version))
	assert.Equal(t, 2, inf.Indexer().Len())
}
