package dbtest_test

import (
	"context"
	"errors"
	"flag"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	assert.InDelta(t, 20*time.Hour.Microseconds(), r.Extra["µs-max"], 1e9)
	assert.InDelta(t, 10.5*float64(time.Hour.Microseconds()), r.Extra["µs-mean"], 1e9)
}

func TestHandlerLatencyMeasuresEachUpdate(t *testing.T) {
	var db *store.Memory
	r := benchmark(t, func(b *testing.B) {
		db = memory(t)
		dbtest.HandlerLatency(b, db, db)
	})
	require.Equal(t, 20, r.N)
	o, err := dbtest.Apps(t, db).Get(t.Context(), "a")
	require.NoError(t, err)
	assert.Equal(t, "20", o.Value.Image)
	assert.Contains(t, r.Extra, "µs-mean")
}
