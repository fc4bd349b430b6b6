//go:build linux

package nats_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
)

// The leader of a replicated bucket steps down, again and again, and a server of the cluster stops, while one writer writes. Two caches follow
// without a new history: a leader that has just been elected is not taken for a restored backup.
func TestBucketGoesOnWhileItsLeaderMoves(t *testing.T) {
	t.Parallel()
	servers := serveCluster(t)
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.ClientURL())
	}
	all := strings.Join(urls, ",")
	js := connect(t, all)
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(*cycles+5)*30*time.Second)
	defer cancel()
	plain := newBucket(t, connect(t, serve(t).ClientURL()), jetstream.KeyValueConfig{}) // how the client configures a bucket
	cfg := plainConfig(t, plain, "replicated")
	cfg.Replicas = 3
	createEventually(t, js, cfg)
	kv, err := js.KeyValue(ctx, "replicated")
	require.NoError(t, err)
	anew := make(chan error, 100)
	var caches []*informer.Informer[string, site]
	for range 2 {
		source := noted{sitesIn(t, connect(t, all), "replicated"), anew}
		inf, err := informer.New(source, siteName, informer.Config{Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		dbtest.Follow(t, inf)
		caches = append(caches, inf)
	}
	write := func(name, value string) (revision uint64) { // until it is acknowledged
		for {
			writing, cancel := context.WithTimeout(ctx, time.Second)
			revision, err := kv.PutString(writing, name, value)
			cancel()
			if err == nil {
				return revision
			}
			require.NoError(t, ctx.Err(), err)
		}
	}
	agree := func(last uint64) {
		t.Helper()
		for _, inf := range caches {
			require.NoError(t, inf.WaitForVersion(ctx, informer.Version(last)))
			s, ok := inf.Get("last")
			require.True(t, ok)
			assert.Equal(t, last, s.At)
		}
	}
	n := 0
	for range *cycles {
		for range 20 {
			n++
			write(fmt.Sprint("key", n%7), fmt.Sprint(n))
		}
		_, err := js.Conn().RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN.KV_replicated", nil)
		require.NoError(t, err)
		agree(write("last", fmt.Sprint(n)))
	}
	leader := leaderOf(ctx, t, js, "KV_replicated")
	for _, s := range servers {
		if s.Name() == leader {
			s.Shutdown()
		}
	}
	agree(write("last", "0"))
	for _, inf := range caches {
		assert.Equal(t, min(n, 7)+1, inf.Indexer().Len())
	}
	assert.Empty(t, anew)
	t.Logf("%d times, %d and %d lists", *cycles, caches[0].Stats().Lists, caches[1].Stats().Lists)
}

// plainConfig returns the configuration of the stream of a bucket, with another name and in files.
func plainConfig(t testing.TB, kv jetstream.KeyValue, name string) jetstream.StreamConfig {
	t.Helper()
	status, err := kv.Status(t.Context())
	require.NoError(t, err)
	cfg := status.(*jetstream.KeyValueBucketStatus).StreamInfo().Config
	cfg.Name, cfg.Subjects, cfg.Storage = "KV_"+name, []string{"$KV." + name + ".>"}, jetstream.FileStorage
	return cfg
}

// noted notes when a watch says that a history is new.
type noted struct {
	source
	anew chan<- error
}

type source = interface {
	informer.ListWatcher[site]
	informer.Versioner
}

func (n noted) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[site], error] {
	return func(yield func(informer.Event[site], error) bool) {
		for e, err := range n.source.Watch(ctx, after) {
			if errors.Is(err, informer.ErrNewHistory) {
				n.anew <- err
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// The files of the server are restored from a backup while an informer follows. Then fewer keys are written than were lost, as many, or
// more, before the informer reaches the server again. Either way, it follows without help.
func TestBucketFollowsRestoredBackup(t *testing.T) {
	t.Parallel()
	for name, writes := range map[string]int{"with fewer revisions": 1, "with more revisions": 60, "with as many revisions and keys": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := daemon{dir: dir}.start(t)
			js := reach(t, s.Addr())
			kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "sites"})
			require.NoError(t, err)
			putSite(t, kv, "kept", "1")
			putSite(t, kv, "changed", "1")
			s.Stop()
			backup := filepath.Join(t.TempDir(), "backup")
			require.NoError(t, os.CopyFS(backup, os.DirFS(dir)))
			s.Start()
			proxy := servertest.NewProxy(t, s.Addr())
			inf, err := informer.New(sitesIn(t, reach(t, proxy.Addr()), "sites"), siteName, informer.Config{Logger: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			dbtest.Follow(t, inf)
			write := func(name, value string) (revision uint64) { // until the client is connected
				require.Eventually(t, func() bool {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					revision, err = kv.PutString(ctx, name, value)
					return err == nil
				}, time.Minute, time.Millisecond)
				return revision
			}
			for i := range 20 {
				write(fmt.Sprint("lost", i), "1")
			}
			last := write("changed", "2")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			require.NoError(t, inf.WaitForVersion(ctx, informer.Version(last)))
			require.Equal(t, 22, inf.Indexer().Len())

			proxy.Stall()
			s.Kill()
			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, os.CopyFS(dir, os.DirFS(backup)))
			s.Start()
			for i := range writes {
				write("new", fmt.Sprint(i))
			}
			if writes == 0 {
				for i := 19; i >= 0; i-- {
					write(fmt.Sprint("lost", i), "2")
				}
				require.Equal(t, last, write("changed", "3"))
			}
			proxy.Cut()
			proxy.Heal()
			if writes == 0 {
				require.Eventually(t, func() bool {
					for _, s := range inf.Indexer().All() {
						if s.Name != "kept" && s.Rev < 2 {
							return false
						}
					}
					c, _ := inf.Get("changed")
					return inf.Indexer().Len() == 22 && c.Rev == 3
				}, time.Minute, time.Millisecond)
				return
			}
			require.Eventually(t, func() bool {
				s, _ := inf.Get("new")
				c, _ := inf.Get("changed")
				return inf.Indexer().Len() == 3 && s.Rev == writes-1 && c.Rev == 1
			}, time.Minute, time.Millisecond)
			again := write("new", "-1")
			require.NoError(t, inf.WaitForVersion(ctx, informer.Version(again)))
		})
	}
}
