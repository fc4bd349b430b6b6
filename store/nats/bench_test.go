//go:build linux

package nats_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
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

// BenchmarkLatency compares the time from a commit to the handler of an informer with that to a consumer of the client.
func BenchmarkLatency(b *testing.B) {
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
		dbtest.AppLatency(b, open(b, connect(b, url), cfg), open(b, js, cfg))
	})
}

var rows = dbtest.Rows()

// filled is a server in another process, whose streams have the same values: one as the bare client writes them, the other as objects.
type filled struct {
	js         jetstream.JetStream
	cfg        nats.Config // of the objects
	bare       string      // the name of the other stream
	before     informer.Version
	beforeBare uint64 // both are versions before the last tenth of the values
}

func fill(b *testing.B, n int) *filled {
	js := reach(b, process(b).Addr())
	f := &filled{js: js, bare: newStream(b, js)}
	f.cfg = nats.Config{Stream: newStream(b, js), History: 10_000_000, Timeout: time.Minute}
	s := dbtest.Apps(b, open(b, js, f.cfg))
	model, err := s.Create(b.Context(), store.Object[dbtest.App]{Key: "model", Value: dbtest.App{Image: dbtest.Image}})
	require.NoError(b, err)
	stream, err := js.Stream(b.Context(), f.cfg.Stream)
	require.NoError(b, err)
	object, err := stream.GetMsg(b.Context(), uint64(model.Version))
	require.NoError(b, err)
	_, err = s.Delete(b.Context(), model.Key)
	require.NoError(b, err)
	publish := func(stream string, data []byte) (before uint64) {
		for i := range n {
			if i == n-n/10 {
				<-js.PublishAsyncComplete()
				before = state(b, js, stream).LastSeq
			}
			_, err := js.PublishAsync(fmt.Sprintf("%s.o.App.%07d", stream, i), data, jetstream.WithStallWait(time.Minute))
			require.NoError(b, err)
		}
		<-js.PublishAsyncComplete()
		return before
	}
	f.beforeBare = publish(f.bare, fmt.Appendf(nil, `{"Image":"%s"}`, dbtest.Image))
	f.before = informer.Version(publish(f.cfg.Stream, object.Data))
	return f
}

// consume reads n values by a consumer of the client, and encoding/json decodes them.
func (f *filled) consume(ctx context.Context, from jetstream.OrderedConsumerConfig, n int) (apps []dbtest.App, err error) {
	from.FilterSubjects = []string{f.bare + ".o.App.*"}
	consumer, err := f.js.OrderedConsumer(ctx, f.bare, from)
	if err != nil {
		return nil, err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return nil, err
	}
	defer messages.Stop()
	for range n {
		m, err := messages.Next()
		if err != nil {
			return apps, err
		}
		var app dbtest.App
		if err := json.Unmarshal(m.Data(), &app); err != nil {
			return apps, err
		}
		apps = append(apps, app)
	}
	return apps, nil
}

// BenchmarkList compares a list of objects, decoded, with as many values that a consumer of the client reads and encoding/json decodes. The
// server is another process.
func BenchmarkList(b *testing.B) {
	f := fill(b, *rows)
	b.Run("bare", func(b *testing.B) {
		dbtest.EachRead(b, *rows, func() (int, error) {
			apps, err := f.consume(b.Context(), jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy}, *rows)
			return len(apps), err
		})
	})
	b.Run("setpoint", func(b *testing.B) { dbtest.List(b, dbtest.Apps(b, open(b, f.js, f.cfg)), *rows) })
}

// BenchmarkDrain compares a watch that comes back after a pause, in which there were many changes, with as many changes that a consumer of
// the client reads and encoding/json decodes. The server is another process.
func BenchmarkDrain(b *testing.B) {
	changes := *rows / 10
	f := fill(b, *rows)
	b.Run("bare", func(b *testing.B) {
		dbtest.EachRead(b, changes, func() (int, error) {
			from := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: f.beforeBare + 1}
			apps, err := f.consume(b.Context(), from, changes)
			return len(apps), err
		})
	})
	b.Run("setpoint", func(b *testing.B) { dbtest.Drain(b, dbtest.Apps(b, open(b, f.js, f.cfg)), f.before, changes) })
}
