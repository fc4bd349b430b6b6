package nats_test

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/nats"
)

// bare is the floor: the same stream, used through the client alone.
type bare struct {
	js     jetstream.JetStream
	stream jetstream.Stream
}

func newBare(b *testing.B, url string) bare {
	js := connect(b, url)
	stream, err := js.Stream(b.Context(), newStream(b, js))
	require.NoError(b, err)
	return bare{js, stream}
}

func (f *bare) subject(key string) string { return f.stream.CachedInfo().Config.Name + ".o.App." + key }

// update reads the last message of a subject, and writes another one if no other writer was faster.
func (f *bare) update(ctx context.Context, key string, data []byte) error {
	last, err := f.stream.GetLastMsgForSubject(ctx, f.subject(key))
	if err != nil {
		return err
	}
	m := natsgo.NewMsg(last.Subject)
	m.Data = data
	_, err = f.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(last.Sequence))
	return err
}

// BenchmarkWrite compares updates by one writer and by sixteen, each of an object of its own.
func BenchmarkWrite(b *testing.B) {
	for _, writers := range []int{1, 16} {
		b.Run(fmt.Sprintf("writers=%d/bare", writers), func(b *testing.B) {
			f := newBare(b, serve(b).ClientURL())
			for w := range writers {
				_, err := f.js.Publish(b.Context(), f.subject(strconv.Itoa(w)), nil)
				require.NoError(b, err)
			}
			dbtest.EachWrite(b, writers, func(ctx context.Context, w, i int) error {
				return f.update(ctx, strconv.Itoa(w), fmt.Appendf(nil, `{"Image":"%s%d"}`, dbtest.Image, i))
			})
		})
		b.Run(fmt.Sprintf("writers=%d/setpoint", writers), func(b *testing.B) {
			js := connect(b, serve(b).ClientURL())
			dbtest.UpdateApps(b, open(b, js, nats.Config{Stream: newStream(b, js)}), writers)
		})
	}
}

// BenchmarkHandler compares the time from the acknowledgment of a write to the handler of an informer with that to a consumer
// of the client.
func BenchmarkHandler(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		url := serve(b).ClientURL()
		f, seen := newBare(b, url), make(chan time.Time, 1)
		_, err := f.js.Publish(b.Context(), f.subject("a"), nil)
		require.NoError(b, err)
		reader, err := connect(b, url).OrderedConsumer(b.Context(), f.stream.CachedInfo().Config.Name,
			jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverNewPolicy})
		require.NoError(b, err)
		consuming, err := reader.Consume(func(jetstream.Msg) { seen <- time.Now() })
		require.NoError(b, err)
		defer consuming.Stop()
		dbtest.Latency(b, seen, func(i int) error { return f.update(b.Context(), "a", strconv.AppendInt(nil, int64(i), 10)) })
	})
	b.Run("setpoint", func(b *testing.B) {
		url := serve(b).ClientURL()
		js := connect(b, url)
		cfg := nats.Config{Stream: newStream(b, js)}
		dbtest.HandlerLatency(b, open(b, connect(b, url), cfg), open(b, js, cfg))
	})
}

var rows = flag.Int("rows", 100_000, "how many objects BenchmarkList lists; BenchmarkDrain reads a tenth as many changes")

// fill creates objects, and returns the version of the one before the last tenth of them.
func fill(b *testing.B, js jetstream.JetStream, cfg nats.Config, n int) (before informer.Version) {
	s := dbtest.Apps(b, open(b, js, cfg))
	create := func(from, to int) {
		var g sync.WaitGroup
		for w := range 16 {
			g.Go(func() { // ends after its writes
				for i := from + w; i < to; i += 16 {
					_, err := s.Create(b.Context(), store.Object[dbtest.App]{Key: fmt.Sprintf("%07d", i), Value: dbtest.App{Image: dbtest.Image}})
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		g.Wait()
	}
	create(0, n-n/10)
	stream, err := js.Stream(b.Context(), cfg.Stream)
	require.NoError(b, err)
	info, err := stream.Info(b.Context())
	require.NoError(b, err)
	create(n-n/10, n)
	return informer.Version(info.State.LastSeq)
}

// consume reads messages by a consumer of the client.
func consume(b *testing.B, js jetstream.JetStream, cfg nats.Config, from jetstream.OrderedConsumerConfig, n int) {
	from.FilterSubjects = []string{cfg.Stream + ".o.App.*"}
	consumer, err := js.OrderedConsumer(b.Context(), cfg.Stream, from)
	require.NoError(b, err)
	messages, err := consumer.Messages()
	require.NoError(b, err)
	defer messages.Stop()
	for range n {
		_, err := messages.Next()
		require.NoError(b, err)
	}
}

// BenchmarkList compares a list of objects, decoded, with the same messages read by a consumer of the client.
func BenchmarkList(b *testing.B) {
	js := connect(b, serve(b).ClientURL())
	cfg := nats.Config{Stream: newStream(b, js), Timeout: time.Minute}
	fill(b, js, cfg, *rows)
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			consume(b, js, cfg, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy}, *rows)
		}
	})
	b.Run("setpoint", func(b *testing.B) {
		s := dbtest.Apps(b, open(b, js, cfg))
		for b.Loop() {
			l, err := s.List(b.Context())
			require.NoError(b, err)
			require.Len(b, l.Items, *rows)
		}
	})
}

// BenchmarkDrain compares a watch that comes back after a pause, in which there were many changes, with the same messages read by a
// consumer of the client.
func BenchmarkDrain(b *testing.B) {
	js := connect(b, serve(b).ClientURL())
	cfg := nats.Config{Stream: newStream(b, js), History: 10_000_000, Timeout: time.Minute}
	before := fill(b, js, cfg, *rows)
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			consume(b, js, cfg, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: uint64(before) + 1}, *rows/10)
		}
	})
	b.Run("setpoint", func(b *testing.B) {
		s := dbtest.Apps(b, open(b, js, cfg))
		for b.Loop() {
			dbtest.Drain(b, s, before, *rows/10)
		}
	})
}
