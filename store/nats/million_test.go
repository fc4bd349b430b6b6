//go:build linux

package nats_test

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/nats"
)

var objects = flag.Int("objects", 2000, "how many objects the test of a large store lists; a tenth as many changes are watched")

// The test lists a large store and watches many changes, and logs the memory. The server is another process.
func TestLargeStoreIsListedAndWatched(t *testing.T) {
	js := reach(t, process(t).Addr())
	cfg := nats.Config{Timeout: time.Minute}
	require.NoError(t, nats.Create(t.Context(), js, cfg))
	db := open(t, js, cfg)
	value := []byte(`{"Image":"` + strings.Repeat("registry.example/app:", 10) + `"}`)
	write := func(n int) (last informer.Version) {
		var acks []jetstream.PubAckFuture
		for i := range n {
			r := backend.Record{Key: fmt.Sprintf("shop/%07d", i), Meta: []byte("{}"), Value: value}
			data, err := r.MarshalBinary()
			require.NoError(t, err)
			ack, err := js.PublishAsync("setpoint.o.app."+r.Key, data, jetstream.WithStallWait(time.Minute))
			require.NoError(t, err)
			if acks = append(acks, ack); len(acks) == 1000 || i == n-1 {
				for _, ack := range acks {
					select {
					case a := <-ack.Ok():
						last = informer.Version(a.Sequence)
					case err := <-ack.Err():
						t.Fatal(err)
					}
				}
				acks = acks[:0]
			}
		}
		return last
	}
	from := write(*objects)
	begin := time.Now()
	n := 0
	var most uint64
	heap := func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapInuse)
	}
	runtime.GC()
	heap()
	before := most
	for page, err := range db.List(t.Context(), "app", backend.Query{}) {
		require.NoError(t, err)
		assert.Equal(t, from, page.Version)
		if n += len(page.Records); n%100_000 == 0 || n == 1000 {
			heap()
		}
	}
	assert.Equal(t, *objects, n)
	t.Logf("%d objects listed in %v; the heap grew from %d to %d MB", n, time.Since(begin), before>>20, most>>20)

	changes := *objects / 10
	last := write(changes)
	runtime.GC()
	most = 0
	heap()
	before = most
	begin, n = time.Now(), 0
	for c, err := range db.Watch(t.Context(), "app", backend.Query{}, from) {
		require.NoError(t, err)
		if c.Record.Key != "" {
			n++
		}
		if n%10_000 == 0 {
			heap()
		}
		if c.Version >= last {
			break
		}
	}
	assert.Equal(t, changes, n)
	t.Logf("%d changes watched in %v; the heap grew from %d to %d MB", n, time.Since(begin), before>>20, most>>20)
}
