package nats_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/nats"
)

var cycles = flag.Int("cycles", 2, "how often each fault happens")

func put(ctx context.Context, db backend.Backend, kind, key, value string, fences ...backend.Fence) (backend.Record, error) {
	return db.Transact(ctx, kind, key, fences, func(backend.Record) (*backend.Record, error) {
		return &backend.Record{Meta: []byte("{}"), Value: []byte(value)}, nil
	})
}

func remove(ctx context.Context, db backend.Backend, kind, key string) (backend.Record, error) {
	return db.Transact(ctx, kind, key, nil, func(have backend.Record) (*backend.Record, error) {
		have.Deleted = true
		return &have, nil
	})
}

// state returns the state of a stream.
func state(t testing.TB, js jetstream.JetStream, name string) jetstream.StreamState {
	t.Helper()
	s, err := js.Stream(t.Context(), name)
	require.NoError(t, err)
	return s.CachedInfo().State
}

// end returns the error with which a watch ends, and its reports before that.
func end(ctx context.Context, db backend.Backend, kind string, after informer.Version) (reported []backend.Change, last error) {
	for c, err := range db.Watch(ctx, kind, backend.Query{}, after) {
		if err != nil {
			return reported, err
		}
		reported = append(reported, c)
	}
	return reported, nil
}

// read lists a kind.
func read(t testing.TB, db backend.Backend, kind string) (map[string]string, informer.Version) {
	t.Helper()
	all, version := map[string]string{}, informer.Version(0)
	for page, err := range db.List(t.Context(), kind, backend.Query{}) {
		require.NoError(t, err)
		for _, r := range page.Records {
			all[r.Key] = string(r.Value)
		}
		version = page.Version
	}
	return all, version
}

func TestOpenRejectsUnusableConfig(t *testing.T) {
	js := connect(t, serve(t).ClientURL())
	valid, err := nats.StreamConfig(nats.Config{Stream: "valid"})
	require.NoError(t, err)
	n := 0
	stream := func(change func(*jetstream.StreamConfig)) nats.Config {
		n++
		cfg := valid
		cfg.Name = fmt.Sprint("refused", n)
		cfg.Subjects = []string{cfg.Name + ".>"}
		change(&cfg)
		_, err := js.CreateStream(t.Context(), cfg)
		require.NoError(t, err)
		return nats.Config{Stream: cfg.Name}
	}
	for _, c := range []struct {
		cfg  nats.Config
		want string
	}{
		{nats.Config{}, `nats: open stream "setpoint": it does not exist: call nats.Create once`},
		{nats.Config{Stream: "a.b"}, "Config.Stream is"},
		{nats.Config{Stream: "a b"}, "Config.Stream is"},
		{nats.Config{Stream: "*"}, "Config.Stream is"},
		{nats.Config{Stream: strings.Repeat("a", 65)}, "Config.Stream is"},
		{nats.Config{History: -1}, "Config.History is -1, must not be negative"},
		{nats.Config{Poll: -1}, "Config.Poll is -1ns, must not be negative"},
		{nats.Config{Timeout: -1}, "Config.Timeout is -1ns, must not be negative"},
		{stream(func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = false }), "nats-server has them since 2.12"},
		{stream(func(c *jetstream.StreamConfig) { c.Subjects = []string{"other.>"} }), "its subjects are"},
		{stream(func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 }), "max_msgs"},
		{stream(func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }), "max_age"},
		{stream(func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 }), "max_msgs_per_subject"},
		{stream(func(c *jetstream.StreamConfig) { c.MaxBytes, c.Discard = 1<<20, jetstream.DiscardOld }), "max_bytes"},
		{stream(func(c *jetstream.StreamConfig) { c.DenyPurge = true }), "deny_purge"},
		{stream(func(c *jetstream.StreamConfig) { c.AllowDirect = true }), "allow_direct"},
		{stream(func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }), "must be limits"},
		{stream(func(c *jetstream.StreamConfig) { c.MaxConsumers = 100 }), "max_consumers"},
		{stream(func(c *jetstream.StreamConfig) { c.ConsumerLimits.InactiveThreshold = 5 * time.Second }), "consumer_limits.inactive_threshold"},
		{stream(func(c *jetstream.StreamConfig) { c.MaxMsgSize = 4 << 10 }), "max_msg_size"},
		{stream(func(c *jetstream.StreamConfig) { c.AllowMsgCounter, c.Discard = true, jetstream.DiscardOld }), "allow_msg_counter"},
	} {
		_, err := nats.Open(t.Context(), js, c.cfg)
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, "nats: open")
		if c.cfg.Stream != "" && n > 0 && strings.HasPrefix(c.cfg.Stream, "refused") {
			require.ErrorContains(t, nats.Create(t.Context(), js, c.cfg), c.want, "Create refuses it as well")
		}
	}
	db := open(t, js, stream(func(c *jetstream.StreamConfig) { c.MaxBytes, c.Storage = 1<<20, jetstream.MemoryStorage }))
	_, err = put(t.Context(), db, "app", "a", "1")
	require.NoError(t, err)
	db = open(t, js, stream(func(c *jetstream.StreamConfig) { c.ConsumerLimits.InactiveThreshold = time.Hour }))
	_, err = put(t.Context(), db, "app", "a", "1")
	require.NoError(t, err)
	state, _ := read(t, db, "app")
	require.Len(t, state, 1)
}

// The smaller limit of the server and the stream counts.
func TestStreamMayLimitSizeOfMessages(t *testing.T) {
	js := connect(t, serve(t).ClientURL())
	cfg, err := nats.StreamConfig(nats.Config{Stream: "small"})
	require.NoError(t, err)
	cfg.MaxMsgSize = 64 << 10
	_, err = js.CreateStream(t.Context(), cfg)
	require.NoError(t, err)
	db := open(t, js, nats.Config{Stream: "small"})
	most := db.Capabilities().MaxBytes
	require.Less(t, most, 64<<10)
	fence := backend.Fence{Lease: "shop", Term: 7}
	_, err = put(t.Context(), db, "app", "a", strings.Repeat("x", 65<<10), fence)
	require.ErrorIs(t, err, backend.ErrTooLarge)
	require.NotErrorIs(t, err, jetstream.ErrStreamMessageExceedsMaximum, "the server is not asked, with the beginning of a batch")
	_, err = put(t.Context(), db, "app", "a", strings.Repeat("x", most-2), fence)
	require.NoError(t, err)
}

func TestProcessesMayCreateStreamConcurrently(t *testing.T) {
	url := serve(t).ClientURL()
	for i := range 5 {
		errs := make(chan error)
		const handles = 4
		cfg := nats.Config{Stream: fmt.Sprint("shared", i)}
		for n := range handles {
			js := connect(t, url)
			go func() { // ends after a write; the test waits for its error
				errs <- func() error {
					if err := nats.Create(t.Context(), js, cfg); err != nil {
						return err
					}
					db, err := nats.Open(t.Context(), js, cfg)
					if err != nil {
						return err
					}
					_, err = put(t.Context(), db, "app", fmt.Sprint(n), "1")
					return err
				}()
			}()
		}
		for range handles {
			require.NoError(t, <-errs)
		}
		all, _ := read(t, open(t, connect(t, url), cfg), "app")
		assert.Len(t, all, handles)
	}
}

func TestTwoStreamsAreTwoDatabases(t *testing.T) {
	js := connect(t, serve(t).ClientURL())
	one, two := open(t, js, nats.Config{Stream: newStream(t, js)}), open(t, js, nats.Config{Stream: newStream(t, js)})
	_, err := put(t.Context(), one, "app", "a", "1", backend.Fence{Lease: "shop", Term: 7})
	require.NoError(t, err)
	r, err := two.Get(t.Context(), "app", "a")
	require.NoError(t, err)
	assert.Zero(t, r)
	_, err = put(t.Context(), two, "app", "a", "1", backend.Fence{Lease: "shop", Term: 6})
	require.NoError(t, err)
}

// Below the engine, which rejects some keys, a key is any bytes.
func TestKeyIsAnyBytesOrRejected(t *testing.T) {
	t.Parallel()
	js := connect(t, serve(t).ClientURL())
	db := open(t, js, nats.Config{Stream: newStreamInMemory(t, js)})
	keys := []string{
		".", "..", "a.b", "*", ">", "a.>", " ", "a b", "=", "=2E", "=2e", "\x00", "\xff", "a\xffb", "é", "/", "//", `"`, `\`, "$JS", "\r\n",
		strings.Repeat("\xff", backend.MaxKey), strings.Repeat(".", backend.MaxKey-1) + "a", strings.Repeat(".", backend.MaxKey-1) + "b",
	}
	for i, key := range keys {
		lease := backend.Fence{Lease: key, Term: uint64(i + 1)}
		_, err := put(t.Context(), db, key[:min(len(key), backend.MaxKind)], key, fmt.Sprint(i), lease)
		require.NoError(t, err, "%.20q", key)
	}
	for i, key := range keys {
		kind := key[:min(len(key), backend.MaxKind)]
		r, err := db.Get(t.Context(), kind, key)
		require.NoError(t, err)
		assert.Equal(t, key, r.Key)
		assert.Equal(t, fmt.Sprint(i), string(r.Value))
		all, _ := read(t, db, kind)
		assert.Equal(t, fmt.Sprint(i), all[key], "%.20q", key)
		for c, err := range db.Watch(t.Context(), kind, backend.Query{Prefix: key}, 0) {
			require.NoError(t, err)
			assert.Equal(t, key, c.Record.Key)
			break
		}
		_, err = put(t.Context(), db, kind, key, "", backend.Fence{Lease: key, Term: uint64(i)})
		require.ErrorIs(t, err, backend.ErrFenced, "%.20q", key)
	}
	long := strings.Repeat("k", 64<<10)
	for _, c := range []struct{ kind, key, lease, want string }{
		{"app", long, "", "the key has 65536 bytes, must not have more than 1024"},
		{"app", "", "", "the key is empty"},
		{long, "a", "", "the kind has 65536 bytes, must not have more than 128"},
		{"", "a", "", "the kind is empty"},
		{"app", "a", long, "the lease has 65536 bytes"},
	} {
		fences := []backend.Fence{{Lease: c.lease, Term: 1}}
		if c.lease == "" {
			fences = nil
		}
		_, err := put(t.Context(), db, c.kind, c.key, "1", fences...)
		require.ErrorContains(t, err, c.want)
		require.Less(t, len(err.Error()), 1000)
		if c.lease == "" {
			_, err = db.Get(t.Context(), c.kind, c.key)
			require.ErrorContains(t, err, c.want)
		}
	}
	for page, err := range db.List(t.Context(), long, backend.Query{}) {
		require.ErrorContains(t, err, "the kind has 65536 bytes", page)
	}
	_, err := end(t.Context(), db, long, 0)
	require.ErrorContains(t, err, "the kind has 65536 bytes")
	_, err = put(t.Context(), db, "app", "a", "1")
	require.NoError(t, err, "the connection is still there")
}

func TestOversizedRecordIsRejected(t *testing.T) {
	js := connect(t, serveLimited(t, server.JSLimitOpts{MaxBatchInflightPerStream: 1}).ClientURL())
	db := open(t, js, nats.Config{Stream: newStream(t, js)})
	most := db.Capabilities().MaxBytes
	fence := backend.Fence{Lease: "shop", Term: 7}
	for name, r := range map[string]backend.Record{
		"value":  {Value: make([]byte, most+9<<10)},
		"labels": {Labels: map[string]string{}, Value: make([]byte, most-200_000)},
	} {
		for i := range 60_000 {
			if r.Labels != nil {
				r.Labels[fmt.Sprint(i)] = "" // small strings, whose lengths take space as well
			}
		}
		_, err := db.Transact(t.Context(), "app", "a", []backend.Fence{fence}, func(backend.Record) (*backend.Record, error) { return &r, nil })
		require.ErrorIs(t, err, backend.ErrTooLarge, name)
	}
	r, err := db.Get(t.Context(), "app", "a")
	require.NoError(t, err)
	assert.Zero(t, r)
	_, err = put(t.Context(), db, "app", "a", strings.Repeat("x", most-2), backend.Fence{Lease: "shop", Term: 6})
	require.NoError(t, err, "an allowed record fits, the term was not recorded, and the server waits for no rest of a batch")
}

func TestOvertakenWriteRestarts(t *testing.T) {
	url := serve(t).ClientURL()
	js := connect(t, url)
	cfg := nats.Config{Stream: newStream(t, js)}
	dbtest.OvertakenWriteRestarts(t, open(t, js, cfg), open(t, connect(t, url), cfg))
}

func TestDamagedRecordIsNamed(t *testing.T) {
	js := connect(t, serve(t).ClientURL())
	cfg := nats.Config{Stream: newStream(t, js)}
	db := open(t, js, cfg)
	ack, err := js.Publish(t.Context(), cfg.Stream+".o.app.a", []byte{0xff})
	require.NoError(t, err)
	named := fmt.Sprintf("the record of version %d: ", ack.Sequence)
	_, err = db.Get(t.Context(), "app", "a")
	require.ErrorContains(t, err, `nats: get app "a": `+named)
	for _, err := range db.List(t.Context(), "app", backend.Query{}) {
		require.ErrorContains(t, err, `nats: list app: `+named)
	}
	_, err = end(t.Context(), db, "app", 0)
	require.ErrorContains(t, err, `nats: watch app: `+named)
	_, err = js.Publish(t.Context(), cfg.Stream+".f.shop", []byte("x"))
	require.NoError(t, err)
	_, err = put(t.Context(), db, "app", "b", "1", backend.Fence{Lease: "shop", Term: 1})
	require.ErrorContains(t, err, `the term of lease "shop"`)
}

// However long Poll is, a watch of an idle stream is never silent for longer than the contract allows.
func TestIdleWatchHasBookmarksWithLongPoll(t *testing.T) {
	t.Parallel()
	js := connect(t, serve(t).ClientURL())
	db := open(t, js, nats.Config{Stream: newStream(t, js), Poll: time.Hour})
	_, err := put(t.Context(), db, "app", "a", "1")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*backend.BookmarkInterval)
	defer cancel()
	reported := 0
	for _, err := range db.Watch(ctx, "app", backend.Query{}, 0) {
		require.NoError(t, err, "after %d changes and bookmarks", reported)
		if reported++; reported == 2 {
			break
		}
	}
}

func TestCallToHangingServerEnds(t *testing.T) {
	js := connect(t, serve(t).ClientURL())
	db := open(t, js, nats.Config{Stream: newStream(t, js), Timeout: 50 * time.Millisecond})
	require.NoError(t, js.DeleteStream(t.Context(), db.Stream()))
	_, err := put(t.Context(), db, "app", "a", "1")
	require.ErrorContains(t, err, `nats: write app "a": `)
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	_, err = put(ctx, db, "app", "a", "1")
	require.ErrorIs(t, err, gone)
}

func TestHostileStringsAreData(t *testing.T) {
	t.Parallel()
	js := connect(t, serve(t).ClientURL())
	dbtest.HostileStrings(t, open(t, js, nats.Config{Stream: newStreamInMemory(t, js)}))
}
