package dbtest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/store"
)

// benchmark runs f with b.N = 20.
func benchmark(t *testing.T, f func(b *testing.B)) testing.BenchmarkResult {
	t.Helper()
	times := flag.Lookup("test.benchtime").Value
	before := times.String()
	require.NoError(t, times.Set("20x"))
	defer func() { require.NoError(t, times.Set(before)) }()
	return testing.Benchmark(f)
}

func TestEachWriteCallsEachNumberOnce(t *testing.T) {
	var mu sync.Mutex
	var calls []int
	r := benchmark(t, func(b *testing.B) {
		calls = nil
		dbtest.EachWrite(b, 3, func(_ context.Context, writer, i int) error {
			mu.Lock()
			defer mu.Unlock()
			assert.Less(t, writer, 3)
			calls = append(calls, i)
			return nil
		})
	})
	slices.Sort(calls)
	require.Len(t, calls, r.N)
	assert.Equal(t, []int{1, 20}, []int{calls[0], calls[19]})
	assert.Len(t, slices.Compact(calls), 20)
	failed := benchmark(t, func(b *testing.B) {
		dbtest.EachWrite(b, 3, func(context.Context, int, int) error { return errors.New("the disk is full") })
	})
	assert.Zero(t, failed, "a benchmark that fails has no result")
}

func TestUpdateAppsChangesItsObjects(t *testing.T) {
	var db *store.Memory
	r := benchmark(t, func(b *testing.B) {
		db = memory(t)
		dbtest.UpdateApps(b, db, 4)
	})
	require.Equal(t, 20, r.N)
	l, err := dbtest.Apps(t, db).List(t.Context())
	require.NoError(t, err)
	require.Len(t, l.Items, 4)
	assert.EqualValues(t, 4+20, l.Version, "every update changed something")
	assert.Positive(t, r.Extra["writes/s"])
}

func TestListAndDrainReadEveryRow(t *testing.T) {
	s := dbtest.Apps(t, memory(t))
	for key := range 5 {
		_, err := s.Create(t.Context(), store.Object[dbtest.App]{Key: fmt.Sprint(key)})
		require.NoError(t, err)
	}
	for name, read := range map[string]func(b *testing.B, n int){
		"list":  func(b *testing.B, n int) { dbtest.List(b, s, n) },
		"drain": func(b *testing.B, n int) { dbtest.Drain(b, s, informer.Version(5-n), n) },
	} {
		r := benchmark(t, func(b *testing.B) { read(b, 5) })
		assert.Equal(t, 20, r.N, name)
		assert.InDelta(t, 5*20/r.T.Seconds(), r.Extra["rows/s"], 1, name)
	}
	assert.Zero(t, benchmark(t, func(b *testing.B) { dbtest.List(b, s, 4) }), "a list of other rows fails")
	failed := benchmark(t, func(b *testing.B) {
		dbtest.EachRead(b, 1, func() (int, error) { return 1, errors.New("the disk is gone") })
	})
	assert.Zero(t, failed)
}

func TestLatencyIsMeasuredFromWriteToReader(t *testing.T) {
	seen := make(chan time.Time, 1)
	writes := 0
	r := benchmark(t, func(b *testing.B) {
		writes = 0
		dbtest.Latency(b, seen, func(i int) error {
			assert.Equal(t, writes, i)
			writes++
			delay := time.Duration(i) * time.Hour
			if i == 0 {
				delay = 1000 * time.Hour // is not measured
			}
			seen <- time.Now().Add(delay)
			return nil
		})
	})
	require.Equal(t, 20+1, writes)
	for name, hours := range map[string]float64{"µs-p50": 10, "µs-p99": 20, "µs-max": 20} {
		assert.InDelta(t, hours*float64(time.Hour.Microseconds()), r.Extra[name], 1e9, name)
	}
}

func TestAppLatencyMeasuresEachUpdate(t *testing.T) {
	var db *store.Memory
	r := benchmark(t, func(b *testing.B) {
		db = memory(t)
		dbtest.AppLatency(b, db, db)
	})
	require.Equal(t, 20, r.N)
	o, err := dbtest.Apps(t, db).Get(t.Context(), "a")
	require.NoError(t, err)
	assert.Equal(t, "20", o.Value.Image)
	assert.Contains(t, r.Extra, "µs-p99")
}
