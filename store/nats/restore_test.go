//go:build linux

package nats_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/nats"
)

// The files of the server are restored from a backup while watches are open. They expire, because the stream is behind what they have seen.
// An informer refuses its older lists, and says so, until Reset says that this is another history.
func TestOpenWatchExpiresAfterRestore(t *testing.T) {
	dir := t.TempDir()
	s := daemon{dir: dir}.start(t)
	js := reach(t, s.Addr())
	cfg := nats.Config{Timeout: 2 * time.Second, Poll: 10 * time.Millisecond}
	require.NoError(t, nats.Create(t.Context(), js, cfg))
	db := open(t, js, cfg)
	apps := dbtest.Apps(t, db)
	kept, err := apps.Create(t.Context(), store.Object[dbtest.App]{Key: "kept"})
	require.NoError(t, err)
	s.Stop()
	backup := filepath.Join(t.TempDir(), "backup")
	require.NoError(t, os.CopyFS(backup, os.DirFS(dir)))
	s.Start()

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	refusals := make(chan error, 1) // of the informer, one at a time
	inf, err := informer.New(apps, store.Key, informer.Config{Logger: slog.New(slog.DiscardHandler), OnError: func(err error) {
		if strings.Contains(err.Error(), "was seen") {
			select {
			case refusals <- err:
			default:
			}
		}
	}})
	require.NoError(t, err)
	reported := make(chan string, 100)
	_, err = inf.AddHandler(informer.Handler[string, store.Object[dbtest.App]]{
		OnUpdate: func(_, o store.Object[dbtest.App]) { reported <- o.Key },
		OnDelete: func(d cache.Tombstone[string, store.Object[dbtest.App]]) { reported <- d.Key },
	})
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- inf.Run(ctx) }() // ends with ctx; the test waits for it
	var last store.Object[dbtest.App]
	for i := range 20 {
		for { // until the client is connected
			last, err = apps.Create(ctx, store.Object[dbtest.App]{Key: fmt.Sprint("lost", i)})
			if errors.Is(err, store.ErrExists) { // an earlier attempt has created it
				last, err = apps.Get(ctx, fmt.Sprint("lost", i))
			}
			if err == nil {
				break
			}
			require.NoError(t, ctx.Err(), err)
		}
	}
	require.NoError(t, inf.WaitForVersion(ctx, last.Version))
	begun, ended := make(chan struct{}), make(chan error, 1)
	go func() { // watches until its version is lost, or ctx ends; the test waits for it
		for first := true; ; {
			for _, err := range db.Watch(ctx, "App", backend.Query{}, last.Version) { // bookmarks
				if first {
					first = false
					close(begun)
				}
				if errors.Is(err, backend.ErrExpired) || ctx.Err() != nil {
					ended <- err
					return
				}
			}
		}
	}()
	<-begun
	assert.Empty(t, refusals)

	s.Kill()
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.CopyFS(dir, os.DirFS(backup)))
	s.Start()
	require.ErrorIs(t, <-ended, backend.ErrExpired)
	select {
	case <-refusals:
	case <-ctx.Done():
		t.Fatal("the informer has refused no list")
	}
	assert.Equal(t, 21, inf.Indexer().Len())
	inf.Reset()
	changed := kept
	for { // fewer changes than were lost
		if changed, err = apps.Update(ctx, kept); errors.Is(err, store.ErrConflict) { // an earlier attempt has changed it
			changed, err = apps.Get(ctx, kept.Key)
		}
		if err == nil {
			break
		}
		require.NoError(t, ctx.Err(), err)
	}
	require.Less(t, changed.Version, last.Version)
	for range 21 { // the lost ones are deleted, and kept is updated
		select {
		case <-reported:
		case <-ctx.Done():
			t.Fatal("the cache has not reached the restored stream")
		}
	}
	assert.Equal(t, 1, inf.Indexer().Len())
	got, _ := inf.Get("kept")
	assert.Equal(t, changed, got)
	cancel()
	require.NoError(t, <-done)
}
