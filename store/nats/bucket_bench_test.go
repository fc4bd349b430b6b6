//go:build linux

package nats_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/store/nats"
)

// keyed is a value of a bucket, and its key.
type keyed struct {
	Key string
	dbtest.App
}

func keyOfApp(a keyed) string { return a.Key }

func decodeApp(e jetstream.KeyValueEntry) (app keyed, err error) {
	err = json.Unmarshal(e.Value(), &app.App)
	app.Key = e.Key()
	return app, err
}

func appsIn(b *testing.B, js jetstream.JetStream, bucket string) *nats.Bucket[keyed] {
	source, err := nats.NewBucket(b.Context(), js, decodeApp, nats.BucketConfig{Bucket: bucket, Timeout: time.Minute})
	require.NoError(b, err)
	return source
}

// newDurableBucket creates a bucket in files.
func newDurableBucket(b *testing.B, js jetstream.JetStream) jetstream.KeyValue {
	kv, err := js.CreateKeyValue(b.Context(), jetstream.KeyValueConfig{Bucket: fmt.Sprint("apps_", streams.Add(1))})
	require.NoError(b, err)
	return kv
}

// BenchmarkBucketLatency compares the time from a commit to the handler of an informer of a bucket with that to a watcher of the client.
func BenchmarkBucketLatency(b *testing.B) {
	put := func(kv jetstream.KeyValue) func(i int) error {
		return func(i int) error {
			_, err := kv.Put(b.Context(), "a", fmt.Appendf(nil, `{"Image":"%d"}`, i))
			return err
		}
	}
	b.Run("bare", func(b *testing.B) {
		url := serve(b).ClientURL()
		kv, seen := newDurableBucket(b, connect(b, url)), make(chan time.Time, 1)
		reader, err := connect(b, url).KeyValue(b.Context(), kv.Bucket())
		require.NoError(b, err)
		watcher, err := reader.WatchAll(b.Context(), jetstream.UpdatesOnly())
		require.NoError(b, err)
		done := make(chan struct{})
		go func() { // ends when the watcher has stopped; the benchmark waits for it
			defer close(done)
			for range watcher.Updates() {
				seen <- time.Now()
			}
		}()
		dbtest.Latency(b, seen, put(kv))
		require.NoError(b, watcher.Stop())
		<-done
	})
	b.Run("bucket", func(b *testing.B) {
		url := serve(b).ClientURL()
		kv := newDurableBucket(b, connect(b, url))
		require.NoError(b, put(kv)(0))
		dbtest.HandlerLatency(b, appsIn(b, connect(b, url), kv.Bucket()), keyOfApp, put(kv))
	})
}

// filledBucket returns a bucket with n values, in a server that is another process.
func filledBucket(b *testing.B, n int) (jetstream.JetStream, jetstream.KeyValue) {
	js := reach(b, process(b).Addr())
	kv := newDurableBucket(b, js)
	value := fmt.Appendf(nil, `{"Image":"%s"}`, dbtest.Image)
	for i := range n {
		_, err := js.PublishAsync(fmt.Sprintf("$KV.%s.%07d", kv.Bucket(), i), value, jetstream.WithStallWait(time.Minute))
		require.NoError(b, err)
	}
	<-js.PublishAsyncComplete()
	return js, kv
}

// watchApps reads n values of a watcher of the client, and encoding/json decodes them.
func watchApps(ctx context.Context, kv jetstream.KeyValue, n int, options ...jetstream.WatchOpt) (apps []keyed, err error) {
	watcher, err := kv.WatchAll(ctx, options...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = watcher.Stop() }()
	for e := range watcher.Updates() {
		if e == nil { // the end of the first values
			continue
		}
		app, err := decodeApp(e)
		if err != nil {
			return apps, err
		}
		if apps = append(apps, app); len(apps) == n {
			break
		}
	}
	return apps, nil
}

// BenchmarkBucketList compares a list of a bucket, decoded, with as many values that a watcher of the client reads and encoding/json decodes.
func BenchmarkBucketList(b *testing.B) {
	js, kv := filledBucket(b, *rows)
	b.Run("bare", func(b *testing.B) {
		dbtest.EachRead(b, *rows, func() (int, error) {
			apps, err := watchApps(b.Context(), kv, *rows)
			return len(apps), err
		})
	})
	b.Run("bucket", func(b *testing.B) { dbtest.List(b, appsIn(b, js, kv.Bucket()), *rows) })
}

// BenchmarkBucketDrain compares a watch that reads many changes, each of another key, with a watcher of the client that resumes at the same
// revision.
func BenchmarkBucketDrain(b *testing.B) {
	js, kv := filledBucket(b, *rows)
	b.Run("bare", func(b *testing.B) {
		dbtest.EachRead(b, *rows, func() (int, error) {
			apps, err := watchApps(b.Context(), kv, *rows, jetstream.ResumeFromRevision(1))
			return len(apps), err
		})
	})
	b.Run("bucket", func(b *testing.B) { dbtest.Drain(b, appsIn(b, js, kv.Bucket()), 0, *rows) })
}
