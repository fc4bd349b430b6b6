//go:build linux

package nats_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/nats"
)

// startBucketWriters starts processes that write keys.
func startBucketWriters(t testing.TB, addr string, n int) *dbtest.Processes {
	return dbtest.StartProcesses(t, n, envBucketWriter, func(seed uint64) string {
		text, err := json.Marshal(bucketWriter{addr, seed})
		require.NoError(t, err)
		return string(text)
	})
}

// bucketRecord follows the bucket with a history by a bare consumer, which is the model: what a bucket reports must be a part of this.
type bucketRecord struct {
	mu sync.Mutex
	// mu guards the following.
	last    uint64
	all     map[uint64]bool     // the sequences that were seen
	deletes map[string][]uint64 // by key
}

// follow reads until ctx ends. It goes on after errors.
func (r *bucketRecord) follow(ctx context.Context, js jetstream.JetStream) {
	for ctx.Err() == nil {
		consumer, err := js.OrderedConsumer(ctx, "KV_"+writtenHistory, jetstream.OrderedConsumerConfig{
			DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: r.at() + 1,
		})
		if err != nil {
			continue
		}
		messages, err := consumer.Messages()
		for err == nil {
			var m jetstream.Msg
			if m, err = messages.Next(jetstream.NextContext(ctx)); err == nil {
				r.add(m)
			}
		}
		if messages != nil {
			messages.Stop()
		}
	}
}

func (r *bucketRecord) add(m jetstream.Msg) {
	meta, err := m.Metadata()
	if err != nil {
		panic(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = meta.Sequence.Stream
	r.all[r.last] = true
	if m.Headers().Get("KV-Operation") != "" {
		key := m.Subject()[len("$KV."+writtenHistory+"."):]
		r.deletes[key] = append(r.deletes[key], r.last)
	}
}

func (r *bucketRecord) at() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// deleted reports whether a key may have been deleted between two sequences.
func (r *bucketRecord) deleted(key string, from, to uint64) bool {
	for _, at := range r.deletes[key] {
		if from < at && at < to {
			return true
		}
	}
	for at := from + 1; at < min(to, r.last); at++ {
		if !r.all[at] {
			return true // the record lacks what has happened
		}
	}
	return false
}

// report is what a handler got.
type report struct {
	deleted bool
	state   site // the last one of a deletion
}

// bucketReader is an informer of a bucket, with what its handler got for each key.
type bucketReader struct {
	*informer.Informer[string, site]
	bucket string
	mu     sync.Mutex
	got    map[string][]report // guarded by mu
}

func newBucketReader(t testing.TB, js jetstream.JetStream, bucket string) *bucketReader {
	t.Helper()
	source := bucketWith(t, js, nats.BucketConfig{Bucket: bucket, Poll: 20 * time.Millisecond, Verify: 200 * time.Millisecond})
	inf, err := informer.New(source, siteName, informer.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	r := &bucketReader{Informer: inf, bucket: bucket, got: map[string][]report{}}
	add := func(name string, what report) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got[name] = append(r.got[name], what)
	}
	_, err = inf.AddHandler(informer.Handler[string, site]{
		EveryEvent: true,
		OnAdd:      func(s site, _ bool) { add(s.Name, report{false, s}) },
		OnUpdate:   func(_, s site) { add(s.Name, report{false, s}) },
		OnDelete:   func(d cache.Tombstone[string, site]) { add(d.Key, report{true, d.Object}) },
	})
	require.NoError(t, err)
	dbtest.Follow(t, inf)
	return r
}

// check checks what the handler got: no revision twice or backward, and no deletion that did not happen. It returns the number of reports.
// states has the states that were reported before, by revision, and gets those of this handler.
func (r *bucketReader) check(t testing.TB, record *bucketRecord, states map[uint64]site) (n int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, got := range r.got {
		n += len(got)
		last := uint64(0) // the revision of the last state
		for i, g := range got {
			around := got[max(i-3, 0):min(i+2, len(got))]
			switch {
			case !g.deleted && g.state.At <= last && r.bucket != writtenSilent:
				t.Fatalf("%s: revision %d comes after revision %d: %+v", name, g.state.At, last, around)
			case !g.deleted:
				if other, seen := states[g.state.At]; seen && other != g.state {
					t.Fatalf("revision %d is %+v and %+v", g.state.At, g.state, other)
				}
				last, states[g.state.At] = g.state.At, g.state
			case r.bucket == writtenHistory:
				next := record.last + 1
				if i+1 < len(got) {
					next = got[i+1].state.At
				}
				if !record.deleted(name, last, next) {
					t.Fatalf("%s was not deleted between the revisions %d and %d: %+v", name, last, next, around)
				}
			}
		}
	}
	return n
}

// differs says how the cache differs from what a bare client reads.
func (r *bucketReader) differs(t testing.TB, js jetstream.JetStream) string {
	t.Helper()
	kv, err := js.KeyValue(t.Context(), r.bucket)
	require.NoError(t, err)
	watcher, err := kv.WatchAll(t.Context(), jetstream.IgnoreDeletes())
	require.NoError(t, err)
	defer func() { require.NoError(t, watcher.Stop()) }()
	want, got := map[string]site{}, map[string]site{}
	for e := range watcher.Updates() {
		if e == nil {
			break
		}
		s, err := decodeSiteRev(e)
		if err == nil {
			want[s.Name] = s
			continue
		}
		want[s.Name] = site{}
		if r.Unread(s.Name) == nil {
			return s.Name + " is unread, and the informer does not say so"
		}
	}
	for name, s := range r.Indexer().All() {
		if got[name] = s; r.Unread(name) != nil { // it is the last state that could be read
			got[name] = site{}
		}
	}
	for name := range want {
		if _, cached := got[name]; !cached && r.Unread(name) != nil {
			got[name] = site{}
		}
	}
	if maps.Equal(want, got) {
		return ""
	}
	return fmt.Sprintf("%s: the cache has %v, the bucket %v", r.bucket, got, want)
}

// bucketFaults is what a fault can break.
type bucketFaults struct {
	t       testing.TB
	writers *dbtest.Processes
	server  *servertest.Server
	proxy   *servertest.Proxy // between the readers and the server
	near    jetstream.JetStream
}

func (f *bucketFaults) stall(d time.Duration) {
	f.proxy.Stall()
	time.Sleep(d)
	f.proxy.Heal()
}

// loseConsumers deletes the consumers of all buckets, those of the record too.
func (f *bucketFaults) loseConsumers() {
	for bucket := range written {
		s, err := f.near.Stream(f.t.Context(), "KV_"+bucket)
		require.NoError(f.t, err)
		for name := range s.ConsumerNames(f.t.Context()).Name() {
			_ = s.DeleteConsumer(f.t.Context(), name) // it may just have ended
		}
	}
}

// createAgain deletes a bucket and creates it again.
func (f *bucketFaults) createAgain(bucket string) {
	s, err := f.near.Stream(f.t.Context(), "KV_"+bucket)
	require.NoError(f.t, err)
	cfg := s.CachedInfo().Config
	require.NoError(f.t, f.near.DeleteStream(f.t.Context(), cfg.Name))
	createEventually(f.t, f.near, cfg)
}

// Writers in three processes write the keys of three buckets at random, while something fails. Two informers of each bucket follow, one from
// the beginning. What they report is a part of what happened, and in the end they have what the bucket has.
func TestBucketCachesMatchBucketsWhile(t *testing.T) {
	for _, c := range []struct {
		name  string
		slow  bool // only with many cycles
		anew  bool // histories begin anew, so only the end can be compared
		fault func(f *bucketFaults)
	}{
		{"a writer is killed", false, false, func(f *bucketFaults) { f.writers.Kill() }},
		{"the server is killed", false, false, func(f *bucketFaults) { f.server.Restart() }},
		{"the server is restarted", true, false, func(f *bucketFaults) { f.server.Stop(); f.server.Start() }},
		{"all connections are cut", true, false, func(f *bucketFaults) { f.proxy.Cut() }},
		{"a reply is lost", true, false, func(f *bucketFaults) { f.proxy.CutNextReply() }},
		{"the network stalls", true, false, func(f *bucketFaults) { f.stall(100 * time.Millisecond) }},
		{"data in flight is lost", true, false, func(f *bucketFaults) {
			f.proxy.Stall()
			time.Sleep(50 * time.Millisecond)
			f.proxy.Cut()
			f.proxy.Heal()
		}},
		{"the network stalls longer", true, false, func(f *bucketFaults) { f.stall(3 * time.Second) }},
		{"connections are half-open", true, false, func(f *bucketFaults) { f.proxy.Hang() }},
		{"consumers are lost", true, false, func(f *bucketFaults) { f.loseConsumers() }},
		{"a bucket is created again", false, true, func(f *bucketFaults) { f.createAgain(writtenPlain) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.slow && *cycles < 3 {
				t.Skip("it takes longer; run it with -cycles=3 or more")
			}
			t.Parallel()
			f := &bucketFaults{t: t, server: process(t)}
			f.proxy = servertest.NewProxy(t, f.server.Addr())
			f.near = reach(t, f.server.Addr())
			for _, cfg := range written {
				_, err := f.near.CreateKeyValue(t.Context(), cfg)
				require.NoError(t, err)
			}
			record := &bucketRecord{all: map[uint64]bool{}, deletes: map[string][]uint64{}}
			following, stop := context.WithCancel(t.Context())
			var recording sync.WaitGroup
			recording.Go(func() { record.follow(following, reach(t, f.server.Addr())) }) // ends with stop
			defer recording.Wait()
			defer stop()
			var readers []*bucketReader
			read := func() {
				for bucket := range written {
					readers = append(readers, newBucketReader(t, reach(t, f.proxy.Addr()), bucket))
				}
			}
			read()
			f.writers = startBucketWriters(t, f.server.Addr(), 3)
			moves := func() { // returns when things have happened
				begin := record.at()
				require.Eventually(t, func() bool { return record.at() >= begin+100 }, 2*time.Minute, time.Millisecond)
			}
			moves()
			read()
			for range *cycles {
				moves()
				for _, r := range readers { // so that the fault meets a watch
					if !c.anew {
						require.NoError(t, catchUp(t, r))
					}
				}
				c.fault(f)
			}
			moves()
			f.writers.Stop()
			for _, r := range readers {
				if r.bucket == writtenSilent || c.anew {
					require.Eventually(t, func() bool { return r.differs(t, f.near) == "" }, time.Minute, 20*time.Millisecond, "%s", r.bucket)
					continue
				}
				require.NoError(t, catchUp(t, r))
				require.Empty(t, r.differs(t, f.near))
			}
			last, err := lastSequence(t.Context(), f.near, writtenHistory)
			require.NoError(t, err)
			require.Eventually(t, func() bool { return record.at() >= last }, time.Minute, time.Millisecond)
			record.mu.Lock()
			defer record.mu.Unlock()
			reports, lists := 0, uint64(0)
			for bucket := range written {
				states := map[uint64]site{}
				for _, r := range readers {
					if r.bucket == bucket && !(c.anew && bucket == writtenPlain) {
						reports += r.check(t, record, states)
						lists += r.Stats().Lists
					}
				}
			}
			t.Logf("%d times, %d revisions of one bucket, %d of them recorded, %d reports, %d lists", *cycles, last, len(record.all), reports, lists)
		})
	}
}

// catchUp returns when a cache has every change, whatever fails in the meantime.
func catchUp(t testing.TB, r *bucketReader) (err error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		if err = r.CatchUp(ctx); err == nil || ctx.Err() != nil {
			return err
		}
	}
}
