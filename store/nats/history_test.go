package nats_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/nats"
)

func TestHistoryIsTrimmed(t *testing.T) {
	t.Parallel()
	const history, writes = 600, 3000
	js := connect(t, serve(t).ClientURL())
	cfg := nats.Config{Stream: newStreamInMemory(t, js), History: history}
	db := open(t, js, cfg)
	db.SetGrace(5 * time.Millisecond)
	old, err := put(t.Context(), db, "app", "old", "1")
	require.NoError(t, err)
	_, err = put(t.Context(), db, "app", "gone", "1")
	require.NoError(t, err)
	gone, err := remove(t.Context(), db, "app", "gone")
	require.NoError(t, err)
	var last backend.Record
	for i := range writes {
		key := fmt.Sprint("busy", i%3)
		if i%10 == 0 {
			last, err = remove(t.Context(), db, "app", key)
		} else {
			var fences []backend.Fence
			if i%20 == 1 {
				fences = []backend.Fence{{Lease: "shop", Term: uint64(i / 100)}}
			}
			last, err = put(t.Context(), db, "app", key, fmt.Sprint(i), fences...)
		}
		require.NoError(t, err)
	}
	// Fenced writes have two messages, and what is announced is removed a little later.
	assert.Less(t, state(t, js, cfg.Stream).Msgs, uint64(writes))
	tombstone, err := db.Get(t.Context(), "app", "gone")
	require.NoError(t, err)
	assert.Zero(t, tombstone, "it is dropped like its neighboring changes")
	got, err := db.Get(t.Context(), "app", "old")
	require.NoError(t, err)
	assert.Equal(t, old, got)
	_, err = put(t.Context(), db, "app", "late", "", backend.Fence{Lease: "shop", Term: 3})
	require.ErrorIs(t, err, backend.ErrFenced, "terms are not forgotten")
	for _, v := range []informer.Version{0, old.Version, gone.Version} {
		_, err := end(t.Context(), db, "app", v)
		require.ErrorIs(t, err, backend.ErrExpired)
		require.ErrorContains(t, err, "are forgotten")
	}
	reported := 0
	for c, err := range db.Watch(t.Context(), "app", backend.Query{}, last.Version-history) {
		require.NoError(t, err)
		if reported++; c.Version == last.Version {
			break
		}
	}
	assert.GreaterOrEqual(t, reported, history/2)
}

// An announcement costs a write, so each one is for a batch of changes.
func TestHorizonIsAnnouncedInBatches(t *testing.T) {
	js := connect(t, serve(t).ClientURL())
	db := open(t, js, nats.Config{Stream: newStreamInMemory(t, js), History: 1})
	db.SetGrace(time.Nanosecond)
	first, err := put(t.Context(), db, "app", "a", "1")
	require.NoError(t, err)
	last := first
	for n := uint64(1); last.Version == first.Version+informer.Version(n-1); n++ {
		require.Less(t, n, uint64(1000), "nothing was announced")
		last, err = put(t.Context(), db, "app", "a", "1")
		require.NoError(t, err)
	}
	assert.Greater(t, last.Version, first.Version+500)
}

func TestWatchFromUnknownVersionExpires(t *testing.T) {
	js := connect(t, serve(t).ClientURL())
	db := open(t, js, nats.Config{Stream: newStream(t, js)})
	r, err := put(t.Context(), db, "app", "a", "1")
	require.NoError(t, err)
	_, err = end(t.Context(), db, "app", r.Version+1)
	require.ErrorIs(t, err, backend.ErrExpired)
	require.ErrorContains(t, err, fmt.Sprintf("the stream is at version %d, not at %d", r.Version, r.Version+1))
	_, err = end(t.Context(), db, "app", 1)
	require.ErrorIs(t, err, backend.ErrExpired, "a version of another stream")
}

// following runs a watch until it ends.
func following(t *testing.T, db backend.Backend, after informer.Version) <-chan error {
	t.Helper()
	begun, ended := make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	go func() { // ends with the watch, at the latest with the test
		first := true
		for _, err := range db.Watch(ctx, "app", backend.Query{}, after) {
			if first {
				close(begun)
				first = false
			}
			if err != nil {
				ended <- err
			}
		}
	}()
	<-begun
	return ended
}

// An administrator removes messages that a watch may need.
func TestRemovalByHandExpiresWatches(t *testing.T) {
	for name, c := range map[string]struct {
		trimmed bool // writers have trimmed the history before
		hurt    func(ctx context.Context, s jetstream.Stream, last backend.Record) error
	}{
		"of everything":         {false, func(ctx context.Context, s jetstream.Stream, _ backend.Record) error { return s.Purge(ctx) }},
		"of everything trimmed": {true, func(ctx context.Context, s jetstream.Stream, _ backend.Record) error { return s.Purge(ctx) }},
		"of a key": {false, func(ctx context.Context, s jetstream.Stream, _ backend.Record) error {
			return s.Purge(ctx, jetstream.WithPurgeSubject(s.CachedInfo().Config.Name+".o.app.a"))
		}},
		"of a message": {false, func(ctx context.Context, s jetstream.Stream, last backend.Record) error {
			return s.DeleteMsg(ctx, uint64(last.Version))
		}},
		"of the beginning": {true, func(ctx context.Context, s jetstream.Stream, last backend.Record) error {
			return s.Purge(ctx, jetstream.WithPurgeSequence(uint64(last.Version)+1))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t).ClientURL()
			js := connect(t, url)
			cfg := nats.Config{Stream: newStream(t, js), Poll: 5 * time.Millisecond}
			db, other := open(t, js, cfg), open(t, connect(t, url), cfg)
			db.SetGrace(time.Millisecond)
			var last backend.Record
			for _, key := range []string{"a", "a", "b"} {
				var err error
				last, err = put(t.Context(), db, "app", key, "1")
				require.NoError(t, err)
			}
			if c.trimmed {
				require.NoError(t, db.Forget(t.Context(), last.Version-1))
			}
			ended := following(t, db, last.Version)
			stream, err := js.Stream(t.Context(), cfg.Stream)
			require.NoError(t, err)
			require.NoError(t, c.hurt(t.Context(), stream, last))
			require.ErrorIs(t, <-ended, backend.ErrExpired)
			_, version := read(t, other, "app")
			assert.Greater(t, version, last.Version)
			for _, v := range []informer.Version{0, last.Version} {
				_, err = end(t.Context(), other, "app", v)
				require.ErrorIs(t, err, backend.ErrExpired)
			}
			after, err := put(t.Context(), other, "app", "c", "1")
			require.NoError(t, err)
			assert.Greater(t, after.Version, version)
			for c, err := range db.Watch(t.Context(), "app", backend.Query{}, version) {
				require.NoError(t, err)
				if c.Record.Key != "" {
					assert.Equal(t, "c", c.Record.Key)
					break
				}
			}
		})
	}
}

// The messages of the history are complete, but an administrator has purged an older object. No watch can notice: the library's own removals
// look the same.
func TestOldObjectPurgedByHandStaysInCacheUntilReset(t *testing.T) {
	js := connect(t, serve(t).ClientURL())
	cfg := nats.Config{Stream: newStream(t, js), Poll: 5 * time.Millisecond}
	db := open(t, js, cfg)
	db.SetGrace(time.Millisecond)
	apps := dbtest.Apps(t, db)
	for _, key := range []string{"old", "new"} {
		o, err := apps.Create(t.Context(), store.Object[dbtest.App]{Key: key})
		require.NoError(t, err)
		require.NoError(t, db.Forget(t.Context(), o.Version))
	}
	inf, err := informer.New(apps, store.Key[dbtest.App], informer.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	deleted := make(chan string, 2)
	_, err = inf.AddHandler(informer.Handler[string, store.Object[dbtest.App]]{
		OnDelete: func(d cache.Tombstone[string, store.Object[dbtest.App]]) { deleted <- d.Key },
	})
	require.NoError(t, err)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- inf.Run(ctx) }() // ends with stop; the test waits for it
	<-inf.Synced()
	stream, err := js.Stream(ctx, cfg.Stream)
	require.NoError(t, err)
	require.NoError(t, stream.Purge(ctx, jetstream.WithPurgeSubject(cfg.Stream+".o.App.old")))
	_, err = apps.Get(ctx, "old")
	require.ErrorIs(t, err, store.ErrNotFound)
	o, err := apps.Create(ctx, store.Object[dbtest.App]{Key: "next"})
	require.NoError(t, err)
	require.NoError(t, inf.WaitForVersion(ctx, o.Version))
	assert.Equal(t, 3, inf.Indexer().Len())
	assert.Empty(t, deleted)
	inf.Reset()
	assert.Equal(t, "old", <-deleted)
	stop()
	require.NoError(t, <-done)
}

func TestRecreatedStreamExpiresWatches(t *testing.T) {
	for _, name := range []string{"with versions above", "with versions from 1 on", "with the same versions"} {
		t.Run(name, func(t *testing.T) {
			js := connect(t, serve(t).ClientURL())
			cfg := nats.Config{Stream: newStream(t, js), Poll: 50 * time.Millisecond}
			old, err := js.Stream(t.Context(), cfg.Stream)
			require.NoError(t, err)
			db := open(t, js, cfg)
			before, err := put(t.Context(), db, "app", "a", "1")
			require.NoError(t, err)
			ended := following(t, db, 0)
			require.NoError(t, js.DeleteStream(t.Context(), cfg.Stream))
			again, err := nats.StreamConfig(cfg)
			require.NoError(t, err)
			switch name {
			case "with versions from 1 on":
				again.FirstSeq = 1
			case "with the same versions":
				again.FirstSeq = old.CachedInfo().Config.FirstSeq
			}
			createEventually(t, js, again)
			for i := range 20 {
				_, err := put(t.Context(), open(t, js, cfg), "app", fmt.Sprint(i), "1")
				require.NoError(t, err)
			}
			if err := <-ended; !errors.Is(err, backend.ErrExpired) {
				require.ErrorIs(t, err, jetstream.ErrStreamNotFound, "it asked although there was none")
			}
			all, _ := read(t, db, "app")
			assert.Len(t, all, 20)
			if name == "with the same versions" {
				return // a watch that begins now cannot know
			}
			_, err = end(t.Context(), db, "app", before.Version)
			require.ErrorIs(t, err, backend.ErrExpired)
		})
	}
}

// Another client limits the stream while a watch runs.
func TestStreamWithNewLimitsIsRejected(t *testing.T) {
	js := connect(t, serve(t).ClientURL())
	cfg := nats.Config{Stream: newStream(t, js), Poll: 5 * time.Millisecond}
	db := open(t, js, cfg)
	_, err := put(t.Context(), db, "app", "a", "1")
	require.NoError(t, err)
	ended := following(t, db, 0)
	limited, err := nats.StreamConfig(cfg)
	require.NoError(t, err)
	limited.MaxMsgs, limited.FirstSeq = 10, 0
	stream, err := js.Stream(t.Context(), cfg.Stream)
	require.NoError(t, err)
	limited.FirstSeq = stream.CachedInfo().Config.FirstSeq
	_, err = js.UpdateStream(t.Context(), limited)
	require.NoError(t, err)
	require.ErrorContains(t, <-ended, "it keeps 10 messages (max_msgs)")
	for _, err := range db.List(t.Context(), "app", backend.Query{}) {
		require.ErrorContains(t, err, "max_msgs")
	}
}

// While writers write and the history is trimmed, each list is compared with the changes up to its version.
func TestListIsASnapshotDuringWrites(t *testing.T) {
	t.Parallel()
	for name, history := range map[string]int{"all history": 100_000, "short history": 700} {
		t.Run(name, func(t *testing.T) {
			url := serve(t).ClientURL()
			js := connect(t, url)
			cfg := nats.Config{Stream: newStream(t, js), History: history, Poll: 5 * time.Millisecond}
			ctx, stop := context.WithCancel(t.Context())
			var writing, reading sync.WaitGroup
			for w := range 4 {
				db := open(t, connect(t, url), cfg)
				db.SetGrace(100 * time.Millisecond)
				writing.Go(func() { // ends with stop; the test waits for it
					for i := 0; ctx.Err() == nil; i++ {
						key, err := fmt.Sprint(rand.N(60)), error(nil)
						if i%3 == 0 {
							_, err = remove(t.Context(), db, "app", key)
						} else {
							_, err = put(t.Context(), db, []string{"app", "app", "other"}[i%3], key, fmt.Sprint(w, "/", i))
						}
						assert.NoError(t, err)
					}
				})
			}
			reader := open(t, connect(t, url), cfg)
			reader.SetGrace(100 * time.Millisecond)
			var mu sync.Mutex
			var changes []backend.Change
			reached := informer.Version(0)
			watching, leave := context.WithTimeout(t.Context(), 30*time.Second)
			defer leave()
			reading.Go(func() { // ends with leave; the test waits for it
				for c, err := range reader.Watch(watching, "app", backend.Query{}, 0) {
					if watching.Err() != nil {
						return
					}
					assert.NoError(t, err)
					mu.Lock()
					if reached = c.Version; c.Record.Key != "" {
						changes = append(changes, c)
					}
					mu.Unlock()
				}
			})
			type list struct {
				records map[string]string
				version informer.Version
			}
			var lists []list
			db := open(t, connect(t, url), cfg)
			for begin := time.Now(); time.Since(begin) < time.Second; {
				all, version := read(t, db, "app")
				lists = append(lists, list{all, version})
			}
			stop()
			writing.Wait()
			for end := lists[len(lists)-1].version; ; time.Sleep(time.Millisecond) {
				mu.Lock()
				done := reached >= end
				mu.Unlock()
				if done || watching.Err() != nil {
					break
				}
			}
			leave()
			reading.Wait()
			held, next := map[string]string{}, 0
			for _, l := range lists {
				for ; next < len(changes) && changes[next].Version <= l.version; next++ {
					if r := changes[next].Record; r.Deleted {
						delete(held, r.Key)
					} else {
						held[r.Key] = string(r.Value)
					}
				}
				require.True(t, maps.Equal(held, l.records), "at version %d: the changes make %v, the list is %v", l.version, held, l.records)
			}
			t.Logf("%d lists, %d changes, %d messages", len(lists), len(changes), state(t, js, cfg.Stream).Msgs)
		})
	}
}

// A missing or stuck server-side consumer loses no changes.
func TestWatchSurvivesLossOfItsConsumer(t *testing.T) {
	t.Parallel()
	for name, hurt := range map[string]func(ctx context.Context, s jetstream.Stream, consumer string) error{
		"deleted": func(ctx context.Context, s jetstream.Stream, consumer string) error {
			return s.DeleteConsumer(ctx, consumer)
		},
		"stuck": func(ctx context.Context, s jetstream.Stream, consumer string) error {
			_, err := s.PauseConsumer(ctx, consumer, time.Now().Add(time.Hour))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t).ClientURL()
			js := connect(t, url)
			cfg := nats.Config{Stream: newStream(t, js), Poll: 20 * time.Millisecond}
			db, other := open(t, js, cfg), open(t, connect(t, url), cfg)
			stream, err := js.Stream(t.Context(), cfg.Stream)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			var written, reported []informer.Version
			write := func(n int) {
				for range n {
					r, err := put(ctx, other, "app", "a", fmt.Sprint(len(written)))
					require.NoError(t, err)
					written = append(written, r.Version)
				}
			}
			write(1)
			for c, err := range db.Watch(ctx, "app", backend.Query{}, 0) {
				require.NoError(t, err)
				if c.Record.Key == "" {
					require.LessOrEqual(t, c.Version, reported[len(reported)-1], "a bookmark overtakes a change")
					continue
				}
				if reported = append(reported, c.Version); len(reported) == 8 {
					break
				}
				if len(reported) == len(written) { // a single missing change, and several
					for name := range stream.ConsumerNames(ctx).Name() {
						require.NoError(t, hurt(ctx, stream, name))
					}
					write(len(reported)%2*2 + 1)
				}
			}
			assert.Equal(t, written[:8], reported)
		})
	}
}
