package nats_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// envBucketWriter is the variable that makes the test binary a process that writes keys. Its value is a bucketWriter, as JSON.
const envBucketWriter = "SETPOINT_NATS_BUCKET_WRITER"

// The buckets of the writers.
const (
	writtenPlain   = "plain"
	writtenHistory = "history" // keeps every state for a while
	writtenSilent  = "silent"  // changes without messages
)

var written = map[string]jetstream.KeyValueConfig{
	writtenPlain:   {Bucket: writtenPlain},
	writtenHistory: {Bucket: writtenHistory, History: 64},
	writtenSilent:  {Bucket: writtenSilent, History: 5, LimitMarkerTTL: time.Second},
}

// bucketWriter is a process that writes keys at random, with a bare client.
type bucketWriter struct {
	Addr string
	Seed uint64
}

// run writes with two goroutines until the standard input ends. It ignores errors: whoever reads does not know which writes were made.
func (w bucketWriter) run() error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends when the parent closes the pipe, at the latest when the parent has died
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	js, err := dial(w.Addr)
	if err != nil {
		return err
	}
	var buckets []jetstream.KeyValue
	for bucket := range written {
		for ctx.Err() == nil { // the server may be away
			if kv, err := js.KeyValue(ctx, bucket); err == nil {
				buckets = append(buckets, kv)
				break
			}
		}
	}
	var g sync.WaitGroup
	for i := range 2 {
		g.Go(func() { // writes until ctx ends
			random := rand.New(rand.NewPCG(w.Seed, uint64(i)))
			for n := 0; ctx.Err() == nil; n++ {
				for _, kv := range buckets {
					writing, cancel := context.WithTimeout(ctx, time.Second)
					if err := randomWrite(writing, js, kv, random, fmt.Sprintf("%d%d%06d", w.Seed, i, n)); err != nil {
						time.Sleep(time.Millisecond) // the server may be away, or the key exists
					}
					cancel()
				}
			}
		})
	}
	g.Wait()
	return nil
}

// randomWrite makes one change of a key.
func randomWrite(ctx context.Context, js jetstream.JetStream, kv jetstream.KeyValue, random *rand.Rand, value string) error {
	name := fmt.Sprint("key.", random.IntN(12))
	if random.IntN(10) == 0 {
		value = "bad"
	}
	silent := kv.Bucket() == writtenSilent
	switch random.IntN(12) {
	case 0, 1, 2:
		return kv.Delete(ctx, name)
	case 3:
		return kv.Purge(ctx, name)
	case 4:
		if silent {
			return kv.Purge(ctx, name, jetstream.PurgeTTL(time.Second))
		}
	case 5:
		if silent {
			_, err := kv.Create(ctx, name, []byte(value), jetstream.KeyTTL(time.Second))
			return err
		}
	case 6:
		if silent && random.IntN(20) == 0 {
			s, err := js.Stream(ctx, "KV_"+kv.Bucket())
			if err != nil {
				return err
			}
			return s.Purge(ctx, jetstream.WithPurgeSubject("$KV."+kv.Bucket()+"."+name))
		}
	}
	_, err := kv.PutString(ctx, name, value)
	return err
}

// runBucketWriter is the process.
func runBucketWriter(text string) error {
	var w bucketWriter
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		return err
	}
	return w.run()
}
