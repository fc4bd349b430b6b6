package nats_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/store/nats"
)

// site is the object of the buckets of these tests. Its name is the key, and its value is a number.
type site struct {
	Name string
	Rev  int
	At   uint64 // the revision
}

func decodeSiteRev(e jetstream.KeyValueEntry) (s site, err error) {
	s.Name, s.At = e.Key(), e.Revision()
	s.Rev, err = strconv.Atoi(string(e.Value()))
	return s, err
}

func siteName(s site) string { return s.Name }

// sitesIn returns the sites of a bucket, through a connection of its own.
func sitesIn(t testing.TB, js jetstream.JetStream, bucket string) *nats.Bucket[site] {
	t.Helper()
	b, err := nats.NewBucket(t.Context(), js, decodeSiteRev, nats.BucketConfig{
		Bucket: bucket, Poll: 10 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	return b
}

// newBucket creates a bucket in memory.
func newBucket(t testing.TB, js jetstream.JetStream, cfg jetstream.KeyValueConfig) jetstream.KeyValue {
	t.Helper()
	cfg.Bucket, cfg.Storage = fmt.Sprintf("sites_%d", streams.Add(1)), jetstream.MemoryStorage
	kv, err := js.CreateKeyValue(t.Context(), cfg)
	require.NoError(t, err)
	return kv
}

// lastSequence returns the last sequence of a bucket.
func lastSequence(ctx context.Context, js jetstream.JetStream, bucket string) (uint64, error) {
	s, err := js.Stream(ctx, "KV_"+bucket)
	if err != nil {
		return 0, err
	}
	return s.CachedInfo().State.LastSeq, nil
}

// bucketKind is a kind of bucket in which the contract of a source must hold.
type bucketKind struct {
	cfg     jetstream.KeyValueConfig
	purge   bool // a deletion is a purge, whose marker vanishes
	mirror  bool
	objects int // of a long list
}

var bucketKinds = map[string]bucketKind{
	"plain":                {objects: 2100}, // on three pages
	"with a history":       {cfg: jetstream.KeyValueConfig{History: 64}},
	"with TTL and markers": {cfg: jetstream.KeyValueConfig{LimitMarkerTTL: time.Second, TTL: time.Hour}, purge: true},
	"with TTL, history":    {cfg: jetstream.KeyValueConfig{LimitMarkerTTL: time.Second, History: 5}, purge: true},
	"without markers":      {cfg: jetstream.KeyValueConfig{TTL: time.Hour}},
	"of a mirror":          {mirror: true},
}

// subject returns the sites of a new bucket. change may break the source.
func (k bucketKind) subject(t testing.TB, js jetstream.JetStream, change func(b *nats.Bucket[site]) informer.ListWatcher[site]) informertest.Subject[site] {
	ctx := context.WithoutCancel(t.Context())
	kv := newBucket(t, js, k.cfg)
	read := kv.Bucket()
	committed := func(err error) error { return err }
	if k.mirror {
		read = newBucket(t, js, jetstream.KeyValueConfig{Mirror: &jetstream.StreamSource{Name: kv.Bucket()}}).Bucket()
		committed = func(err error) error { // a mirror lags a little
			want, err2 := lastSequence(ctx, js, kv.Bucket())
			for now := uint64(0); err == nil && err2 == nil && now < want; {
				now, err2 = lastSequence(ctx, js, read)
			}
			if err == nil {
				err = err2
			}
			return err
		}
	}
	t.Cleanup(func() {
		for _, name := range []string{read, kv.Bucket()} {
			_ = js.DeleteStream(ctx, "KV_"+name) // twice the same, unless it is a mirror
		}
	})
	put := func(name, value string) error {
		_, err := kv.PutString(ctx, name, value)
		return committed(err)
	}
	remove := func(name string) error {
		if k.purge {
			return committed(kv.Purge(ctx, name, jetstream.PurgeTTL(time.Second)))
		}
		return committed(kv.Delete(ctx, name))
	}
	do := func(c informertest.Change) error {
		if c.Delete {
			return remove(c.Name)
		}
		return put(c.Name, strconv.Itoa(c.Rev))
	}
	subject := informertest.Subject[site]{
		Source: change(sitesIn(t, js, read)),
		Put:    func(name string, rev int) error { return put(name, strconv.Itoa(rev)) },
		Delete: remove,
		Spoil:  func(name string) error { return put(name, "spoiled") },
		Overlap: func(first, second informertest.Change, look func()) error { // the second writer is acknowledged first
			if err := do(second); err != nil {
				return err
			}
			look()
			return do(first)
		},
		Read:     func(s site) (string, int) { return s.Name, s.Rev },
		Merges:   true,
		History:  100_000,
		Objects:  k.objects,
		Bookmark: func() error { return remove("nothing") },
	}
	if !k.mirror { // a mirror keeps what its origin purges, and what it had when its origin is created again
		subject.Vanish = func(name string) error {
			stream, err := js.Stream(ctx, "KV_"+kv.Bucket())
			if err != nil {
				return err
			}
			return stream.Purge(ctx, jetstream.WithPurgeSubject("$KV."+kv.Bucket()+"."+name))
		}
		subject.Restart = func() error {
			cfg := k.cfg
			cfg.Bucket = kv.Bucket()
			err := js.DeleteKeyValue(ctx, cfg.Bucket)
			if err == nil {
				kv, err = js.CreateKeyValue(ctx, cfg)
			}
			return err
		}
	}
	return subject
}

func asIs(b *nats.Bucket[site]) informer.ListWatcher[site] { return b }

// keepsStates is the case that needs a bucket that keeps every state, as one with a history does for a while.
const keepsStates = "a list during changes is consistent with its version"

func TestBucketKeepsTheSourceContract(t *testing.T) {
	t.Parallel()
	url := serve(t).ClientURL()
	for name, kind := range bucketKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range informertest.Cases[site]() {
				t.Run(c.Name, func(t *testing.T) {
					t.Parallel()
					s := kind.subject(t, connect(t, url), asIs)
					s.Merges = kind.cfg.History < 64 || c.Name != keepsStates
					c.Run(t, s)
				})
			}
		})
	}
}
