//go:build linux

package nats_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/nats"
)

// The watcher is disconnected, objects are deleted, and the history with their deletions is trimmed. The handler
// still receives the deletions, because the informer lists again.
func TestDeletionsAreReportedAfterTrimDuringWatchGap(t *testing.T) {
	t.Parallel()
	s := serve(t)
	proxy := servertest.NewProxy(t, s.Addr().String())
	near := connect(t, s.ClientURL())
	cfg := nats.Config{Stream: newStream(t, near), History: 50, Poll: 10 * time.Millisecond, Timeout: 500 * time.Millisecond}
	db := open(t, near, cfg)
	db.SetGrace(5 * time.Millisecond)
	apps := dbtest.Apps(t, db)
	far := dbtest.Apps(t, open(t, connect(t, "nats://"+proxy.Addr()), cfg))
	inf, err := informer.New(far, store.Key[dbtest.App], informer.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	var deleted sync.Map
	handler, err := inf.AddHandler(informer.Handler[string, store.Object[dbtest.App]]{
		OnDelete: func(d cache.Tombstone[string, store.Object[dbtest.App]]) { deleted.Store(d.Key, true) },
	})
	require.NoError(t, err)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- inf.Run(ctx) }() // ends with stop; the test waits for it
	var want []string
	for i := range min(*cycles, 20) {
		key := fmt.Sprint("gone", i)
		_, err := apps.Create(ctx, store.Object[dbtest.App]{Key: key})
		require.NoError(t, err)
		kept, err := apps.Create(ctx, store.Object[dbtest.App]{Key: fmt.Sprint("kept", i)})
		require.NoError(t, err)
		require.NoError(t, inf.WaitForVersion(ctx, kept.Version))
		proxy.Stall()
		_, err = apps.Delete(ctx, key)
		require.NoError(t, err)
		want = append(want, key)
		var filler store.Object[dbtest.App]
		for n := range 60 {
			filler, err = apps.Create(ctx, store.Object[dbtest.App]{Key: fmt.Sprint("filler", i, "/", n)})
			require.NoError(t, err)
		}
		require.NoError(t, db.Forget(ctx, filler.Version-1))
		gone, err := db.Get(ctx, "App", key)
		require.NoError(t, err)
		require.Zero(t, gone, "no one remembers the deletion")
		proxy.Cut()
		proxy.Heal()
		require.NoError(t, inf.WaitForVersion(ctx, filler.Version))
	}
	require.NoError(t, handler.WaitIdle(ctx))
	for _, key := range want {
		_, reported := deleted.Load(key)
		assert.True(t, reported, key)
	}
	l, err := apps.List(ctx)
	require.NoError(t, err)
	assert.Len(t, l.Items, inf.Indexer().Len())
	stop()
	require.NoError(t, <-done)
}

// Deleted and trimmed objects do not come back when the server is killed.
func TestNothingIsRevivedByKill(t *testing.T) {
	t.Parallel()
	s := process(t)
	js := reach(t, s.Addr())
	cfg := nats.Config{History: 40, Timeout: 2 * time.Second}
	require.NoError(t, nats.Create(t.Context(), js, cfg))
	db := open(t, js, cfg)
	db.SetGrace(time.Millisecond)
	var last backend.Record
	for i := range 40 {
		key := fmt.Sprint(i)
		for _, value := range []string{"1", "2"} {
			_, err := put(t.Context(), db, "app", key, value, backend.Fence{Lease: "shop", Term: uint64(i / 10)})
			require.NoError(t, err)
		}
		_, err := remove(t.Context(), db, "app", key)
		require.NoError(t, err)
		last, err = put(t.Context(), db, "app", "kept", key)
		require.NoError(t, err)
	}
	require.NoError(t, db.Forget(t.Context(), last.Version-1))
	before := state(t, js, "setpoint").Msgs
	assert.Less(t, before, uint64(10))
	for range *cycles {
		s.Restart()
		again := reach(t, s.Addr())
		assert.Equal(t, before, state(t, again, "setpoint").Msgs)
		all, version := read(t, open(t, again, cfg), "app")
		assert.Equal(t, map[string]string{"kept": "39"}, all)
		assert.Equal(t, last.Version, version)
		_, err := put(t.Context(), open(t, again, cfg), "app", "late", "", backend.Fence{Lease: "shop", Term: 2})
		require.ErrorIs(t, err, backend.ErrFenced)
	}
}

// A server that accepts one atomic publish at a time makes the others wait, and loses none.
func TestAtomicPublishesAreSerialized(t *testing.T) {
	s := serveLimited(t, server.JSLimitOpts{MaxBatchInflightPerStream: 1})
	js := connect(t, s.ClientURL())
	cfg := nats.Config{Stream: newStreamInMemory(t, js)}
	begin, rest := natsgo.NewMsg(cfg.Stream+".other"), natsgo.NewMsg(cfg.Stream+".other")
	for i, m := range []*natsgo.Msg{begin, rest} { // a batch that takes the only place
		m.Header.Set("Nats-Batch-Id", "other")
		m.Header.Set("Nats-Batch-Sequence", fmt.Sprint(i+1))
	}
	rest.Header.Set("Nats-Batch-Commit", "1")
	_, err := js.Conn().RequestMsgWithContext(t.Context(), begin)
	require.NoError(t, err)
	ended := make(chan error, 1)
	db := open(t, connect(t, s.ClientURL()), cfg)
	go func() { // ends after its write; the test waits for it
		_, err := put(t.Context(), db, "app", "a", "1", backend.Fence{Lease: "shop", Term: 1})
		ended <- err
	}()
	select {
	case err := <-ended:
		t.Fatal("the write did not wait for its turn: ", err)
	case <-time.After(100 * time.Millisecond):
	}
	_, err = js.Conn().RequestMsgWithContext(t.Context(), rest)
	require.NoError(t, err)
	require.NoError(t, <-ended)
	all, _ := read(t, open(t, js, cfg), "app")
	assert.Len(t, all, 1)
}

// hooked calls a function between the decision and the write.
type hooked struct {
	backend.Backend
	decided func()
}

func (h hooked) Transact(
	ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
) (backend.Record, error) {
	return h.Backend.Transact(ctx, kind, key, fences, func(have backend.Record) (*backend.Record, error) {
		next, err := decide(have)
		if next != nil && err == nil {
			h.decided()
		}
		return next, err
	})
}

// A write whose acknowledgment is lost is not applied again when it is repeated.
func TestWriteWithLostReplyIsAppliedOnce(t *testing.T) {
	s := serve(t)
	proxy := servertest.NewProxy(t, s.Addr().String())
	near := connect(t, s.ClientURL())
	cfg := nats.Config{Stream: newStreamInMemory(t, near), Timeout: 300 * time.Millisecond}
	apps := dbtest.Apps(t, open(t, near, cfg))
	cuts := 0
	far := dbtest.Apps(t, hooked{open(t, connect(t, "nats://"+proxy.Addr()), cfg), func() {
		cuts++
		proxy.CutNextReply()
	}})
	_, err := far.Create(t.Context(), store.Object[dbtest.App]{Key: "a"})
	require.Error(t, err)
	require.Equal(t, 1, cuts)
	for !errors.Is(err, store.ErrExists) { // while the client reconnects
		_, err = far.Create(t.Context(), store.Object[dbtest.App]{Key: "a"})
		require.Error(t, err)
	}
	require.Equal(t, 1, cuts, "the repetition writes nothing")
	created, err := apps.Get(t.Context(), "a")
	require.NoError(t, err)

	created.Value.Image = "new"
	_, err = far.Update(t.Context(), created)
	require.Error(t, err)
	for err != nil && !errors.Is(err, store.ErrConflict) {
		_, err = far.Update(t.Context(), created)
	}
	require.ErrorIs(t, err, store.ErrConflict)
	stored, err := apps.Get(t.Context(), "a")
	require.NoError(t, err)
	assert.EqualValues(t, 2, stored.Generation)
}
