//go:build linux

package nats_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/nats"
)

// After a list has started, an object is deleted, and the deletion is trimmed before the list reaches it.
func TestListOvertakenByTrimmerRestarts(t *testing.T) {
	url := serve(t).ClientURL()
	js := connect(t, url)
	cfg := nats.Config{Stream: newStream(t, js), Poll: time.Hour}
	db, other := open(t, js, cfg), open(t, connect(t, url), cfg)
	other.SetGrace(time.Millisecond)
	for _, key := range []string{"gone", "kept"} {
		_, err := put(t.Context(), other, "app", key, "1")
		require.NoError(t, err)
	}
	begun := 0
	db.AfterConsumer(func(string) {
		if begun++; begun > 1 {
			return
		}
		_, err := remove(t.Context(), other, "app", "gone")
		require.NoError(t, err)
		last, err := put(t.Context(), other, "app", "kept", "2")
		require.NoError(t, err)
		require.NoError(t, other.Forget(t.Context(), last.Version-1))
	})
	all, _ := read(t, db, "app")
	assert.Equal(t, map[string]string{"kept": "2"}, all)
	assert.Equal(t, 2, begun)
}

// A consumer is blocked while an object is deleted and the deletion is trimmed. The watch yields the deletion or
// expires.
func TestWatchOvertakenByTrimmerExpires(t *testing.T) {
	for _, grace := range []time.Duration{time.Millisecond, time.Second} {
		t.Run(fmt.Sprint("grace ", grace), func(t *testing.T) {
			url := serve(t).ClientURL()
			js := connect(t, url)
			cfg := nats.Config{Stream: newStream(t, js), Poll: time.Hour}
			db, other := open(t, js, cfg), open(t, connect(t, url), cfg)
			db.SetGrace(grace)
			other.SetGrace(grace)
			stream, err := js.Stream(t.Context(), cfg.Stream)
			require.NoError(t, err)
			consumer := ""
			db.AfterConsumer(func(name string) { consumer = name })
			_, err = put(t.Context(), other, "app", "gone", "1")
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			var last error
			reported := 0
			for c, err := range db.Watch(ctx, "app", backend.Query{}, 0) {
				if last = err; err != nil {
					break
				}
				if reported++; reported > 1 {
					assert.True(t, c.Record.Deleted, "the watch yields %q, but skipped the deletion", c.Record.Key)
					break
				}
				_, err := stream.PauseConsumer(ctx, consumer, time.Now().Add(time.Hour))
				require.NoError(t, err)
				_, err = remove(ctx, other, "app", "gone")
				require.NoError(t, err)
				late, err := put(ctx, other, "app", "late", "1")
				require.NoError(t, err)
				begin := time.Now()
				require.NoError(t, other.Forget(ctx, late.Version-1))
				require.GreaterOrEqual(t, time.Since(begin), grace, "it was removed before the grace was over")
				_, err = stream.ResumeConsumer(ctx, consumer)
				require.NoError(t, err)
			}
			if reported == 1 {
				require.ErrorIs(t, last, backend.ErrExpired)
			}
		})
	}
}

// A connection loses messages that the server has sent. The watch yields them before any later ones.
func TestWatchRecoversMessagesLostInTransit(t *testing.T) {
	s := serve(t)
	proxy := servertest.NewProxy(t, s.Addr().String())
	near := connect(t, s.ClientURL())
	cfg := nats.Config{Stream: newStream(t, near), Poll: time.Hour}
	js := connect(t, "nats://"+proxy.Addr())
	db, far := open(t, near, cfg), open(t, js, cfg)
	stream, err := near.Stream(t.Context(), cfg.Stream)
	require.NoError(t, err)
	name := ""
	far.AfterConsumer(func(n string) { name = n })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var written, reported []informer.Version
	write := func() {
		r, err := put(ctx, db, "app", fmt.Sprint(len(written)), "1")
		require.NoError(t, err)
		written = append(written, r.Version)
	}
	write()
	for c, err := range far.Watch(ctx, "app", backend.Query{}, 0) {
		require.NoError(t, err)
		if reported = append(reported, c.Version); len(reported) == 4 {
			break
		}
		if len(reported) > 1 {
			continue
		}
		proxy.Stall()
		write()
		write()
		for { // the server sends them, into a network that loses them
			consumer, err := stream.Consumer(ctx, name)
			require.NoError(t, err)
			if consumer.CachedInfo().Delivered.Consumer == 3 {
				break
			}
		}
		proxy.Cut()
		proxy.Heal()
		for js.Conn().Stats().Reconnects == 0 {
			time.Sleep(time.Millisecond)
		}
		write()
	}
	assert.Equal(t, written, reported)
}

// The stream is purged and written again before the watch requests anything. All messages that it receives are above
// its marks.
func TestWatchReceivingChangesAfterPurgeExpires(t *testing.T) {
	url := serve(t).ClientURL()
	js := connect(t, url)
	cfg := nats.Config{Stream: newStream(t, js), Poll: 50 * time.Millisecond}
	db, other := open(t, js, cfg), open(t, connect(t, url), cfg)
	stream, err := js.Stream(t.Context(), cfg.Stream)
	require.NoError(t, err)
	_, err = put(t.Context(), other, "app", "a", "1")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var last error
	purged := false
	for _, err := range db.Watch(ctx, "app", backend.Query{}, 0) {
		if last = err; purged || err != nil {
			continue
		}
		purged = true
		require.NoError(t, stream.Purge(ctx))
		_, version := read(t, other, "app")
		r, err := put(ctx, other, "app", "b", "1")
		require.NoError(t, err)
		require.Greater(t, r.Version, version)
	}
	require.ErrorIs(t, last, backend.ErrExpired)
}

// intercepted replaces the way in which messages are read.
type intercepted struct {
	jetstream.MessagesContext
	next func() (jetstream.Msg, error)
}

func (m intercepted) Next(...jetstream.NextOpt) (jetstream.Msg, error) { return m.next() }

// A watch may use the position that another call has asked for. If a change was written and read since, the position is behind the watch.
func TestWatchAheadOfSharedPositionContinues(t *testing.T) {
	url := serve(t).ClientURL()
	js := connect(t, url)
	cfg := nats.Config{Stream: newStream(t, js), Poll: 1} // a position is due after each message
	db, other := open(t, js, cfg), open(t, connect(t, url), cfg)
	_, err := put(t.Context(), other, "app", "a", "0")
	require.NoError(t, err)
	_, version := read(t, db, "app")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var written, reported []informer.Version
	db.AfterBegin(func(m jetstream.MessagesContext) jetstream.MessagesContext {
		return intercepted{m, func() (jetstream.Msg, error) {
			require.NoError(t, db.Ask(ctx))
			r, err := put(ctx, other, "app", "a", "1")
			require.NoError(t, err)
			written = append(written, r.Version)
			return m.Next(jetstream.NextContext(ctx))
		}}
	})
	for c, err := range db.Watch(ctx, "app", backend.Query{}, version) {
		require.NoError(t, err)
		if reported = append(reported, c.Version); len(reported) == 3 {
			break
		}
	}
	assert.Equal(t, written, reported)
}

// A connection loses the first message of a list.
func TestListRecoversMessageLostInTransit(t *testing.T) {
	js := connect(t, serve(t).ClientURL())
	db := open(t, js, nats.Config{Stream: newStream(t, js)})
	for _, key := range []string{"a", "b"} {
		_, err := put(t.Context(), db, "app", key, "1")
		require.NoError(t, err)
	}
	begun := 0
	db.AfterBegin(func(m jetstream.MessagesContext) jetstream.MessagesContext {
		if begun++; begun == 1 {
			_, err := m.Next(jetstream.NextContext(t.Context()))
			require.NoError(t, err)
		}
		return m
	})
	all, _ := read(t, db, "app")
	assert.Equal(t, map[string]string{"a": "1", "b": "1"}, all)
	assert.Equal(t, 2, begun)
}

// A list has received the messages of a stream when another one takes its place, with the same versions. The list holds nothing of the
// former.
func TestListOfRecreatedStreamRestarts(t *testing.T) {
	url := serve(t).ClientURL()
	js := connect(t, url)
	cfg := nats.Config{Stream: newStream(t, js)}
	db := open(t, js, cfg)
	_, err := put(t.Context(), db, "app", "former", "1")
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), cfg.Stream)
	require.NoError(t, err)
	begun := 0
	db.AfterBegin(func(m jetstream.MessagesContext) jetstream.MessagesContext {
		if begun++; begun > 1 {
			return m
		}
		var received []jetstream.Msg
		for range 2 { // the mark and the record
			msg, err := m.Next(jetstream.NextContext(t.Context()))
			require.NoError(t, err)
			received = append(received, msg)
		}
		require.NoError(t, js.DeleteStream(t.Context(), cfg.Stream))
		createEventually(t, js, stream.CachedInfo().Config)
		_, err := put(t.Context(), open(t, connect(t, url), cfg), "app", "latter", "1")
		require.NoError(t, err)
		return intercepted{m, func() (jetstream.Msg, error) {
			msg := received[0]
			received = received[1:]
			return msg, nil
		}}
	})
	all, _ := read(t, db, "app")
	assert.Equal(t, map[string]string{"latter": "1"}, all)
	assert.Equal(t, 2, begun)
}

func TestCallsLeaveNoConsumerOnServer(t *testing.T) {
	js := connect(t, serve(t).ClientURL())
	cfg := nats.Config{Stream: newStream(t, js)}
	db := open(t, js, cfg)
	_, err := put(t.Context(), db, "app", "a", "1")
	require.NoError(t, err)
	begun := 0
	db.AfterConsumer(func(string) { begun++ })
	read(t, db, "app")
	assert.Zero(t, state(t, js, cfg.Stream).Consumers, "after a list")
	for _, err := range db.Watch(t.Context(), "app", backend.Query{}, 0) {
		require.NoError(t, err)
		assert.Equal(t, 1, state(t, js, cfg.Stream).Consumers)
		break
	}
	assert.Zero(t, state(t, js, cfg.Stream).Consumers, "after a watch")
	assert.Equal(t, 2, begun)
}

// An administrator deletes the mark while a list is read. The list reads on until there is another one, but holds nothing above its version.
// The server takes two seconds to skip the deleted mark.
func TestListHoldsNothingAboveItsVersion(t *testing.T) {
	t.Parallel()
	url := serve(t).ClientURL()
	js := connect(t, url)
	cfg := nats.Config{Stream: newStream(t, js)}
	db, other := open(t, js, cfg), open(t, connect(t, url), cfg)
	other.SetGrace(time.Millisecond)
	below, err := put(t.Context(), other, "app", "below", "1")
	require.NoError(t, err)
	require.NoError(t, other.Forget(t.Context(), below.Version))
	stream, err := js.Stream(t.Context(), cfg.Stream)
	require.NoError(t, err)
	db.AfterConsumer(func(string) {
		mark, err := stream.GetLastMsgForSubject(t.Context(), cfg.Stream+".h")
		require.NoError(t, err)
		require.Greater(t, mark.Sequence, uint64(below.Version))
		require.NoError(t, stream.DeleteMsg(t.Context(), mark.Sequence))
	})
	var above backend.Record
	db.AfterBegin(func(m jetstream.MessagesContext) jetstream.MessagesContext {
		return intercepted{m, func() (jetstream.Msg, error) {
			if above.Version == 0 {
				above, err = put(t.Context(), other, "app", "above", "1")
				require.NoError(t, err)
				require.NoError(t, other.Forget(t.Context(), below.Version)) // writes a mark
			}
			return m.Next(jetstream.NextContext(t.Context()))
		}}
	})
	all, version := read(t, db, "app")
	assert.Equal(t, map[string]string{"below": "1"}, all)
	assert.Equal(t, below.Version, version)
	assert.Greater(t, above.Version, version)
}
