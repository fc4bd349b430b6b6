package dbtest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/store"
)

// benchmark runs f with b.N = 20.
func benchmark(t *testing.T, f func(b *testing.B)) testing.BenchmarkResult {
	t.Helper()
	times := flag.Lookup("test.benchtime").Value
	before := times.String()
	if err := times.Set("20x"); err != nil {
		t.Fatalf(`times.Set("20x"): %v`, err)
	}
	defer func() {
		if err := times.Set(before); err != nil {
			t.Fatalf("times.Set(%q): %v", before, err)
		}
	}()
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
			if writer >= 3 {
				t.Errorf("writer = %d, want less than 3", writer)
			}
			calls = append(calls, i)
			return nil
		})
	})
	slices.Sort(calls)
	if len(calls) != r.N {
		t.Fatalf("len(calls) = %d, want %d: %v", len(calls), r.N, calls)
	}
	if diff := cmp.Diff([]int{1, 20}, []int{calls[0], calls[19]}); diff != "" {
		t.Errorf("[]int{calls[0], calls[19]} mismatch (-want +got):\n%s", diff)
	}
	if got := slices.Compact(calls); len(got) != 20 {
		t.Errorf("len(slices.Compact(calls)) = %d, want 20: %v", len(got), got)
	}
	failed := benchmark(t, func(b *testing.B) {
		dbtest.EachWrite(b, 3, func(context.Context, int, int) error { return errors.New("the disk is full") })
	})
	if !reflect.DeepEqual(failed, testing.BenchmarkResult{}) {
		t.Errorf("failed = %v, want the zero value: a benchmark that fails has no result", failed)
	}
}

func TestUpdateAppsChangesItsObjects(t *testing.T) {
	var db *store.Memory
	r := benchmark(t, func(b *testing.B) {
		db = memory(t)
		dbtest.UpdateApps(b, db, 4)
	})
	if r.N != 20 {
		t.Fatalf("r.N = %d, want 20", r.N)
	}
	l, err := dbtest.Apps(t, db).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Items) != 4 {
		t.Fatalf("len(l.Items) = %d, want 4: %v", len(l.Items), l.Items)
	}
	if l.Version != 4+20 {
		t.Errorf("l.Version = %v, want %v: every update changed something", l.Version, 4+20)
	}
	if r.Extra["writes/s"] <= 0 {
		t.Errorf(`r.Extra["writes/s"] = %v, want a positive number`, r.Extra["writes/s"])
	}
}

func TestListAndDrainReadEveryRow(t *testing.T) {
	s := dbtest.Apps(t, memory(t))
	for key := range 5 {
		_, err := s.Create(t.Context(), store.Object[dbtest.App]{Key: fmt.Sprint(key)})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, read := range map[string]func(b *testing.B, n int){
		"list":  func(b *testing.B, n int) { dbtest.List(b, s, n) },
		"drain": func(b *testing.B, n int) { dbtest.Drain(b, s, informer.Version(5-n), n) },
	} {
		r := benchmark(t, func(b *testing.B) { read(b, 5) })
		if r.N != 20 {
			t.Errorf("%s: r.N = %d, want 20", name, r.N)
		}
		if want := 5 * 20 / r.T.Seconds(); math.Abs(r.Extra["rows/s"]-want) > 1 {
			t.Errorf(`%s: r.Extra["rows/s"] = %v, want about %v`, name, r.Extra["rows/s"], want)
		}
	}
	if got := benchmark(t, func(b *testing.B) { dbtest.List(b, s, 4) }); !reflect.DeepEqual(got, testing.BenchmarkResult{}) {
		t.Errorf("benchmark = %v, want the zero value: a list of other rows fails", got)
	}
	failed := benchmark(t, func(b *testing.B) {
		dbtest.EachRead(b, 1, func() (int, error) { return 1, errors.New("the disk is gone") })
	})
	if !reflect.DeepEqual(failed, testing.BenchmarkResult{}) {
		t.Errorf("failed = %v, want the zero value", failed)
	}
}

func TestLatencyIsMeasuredFromWriteToReader(t *testing.T) {
	seen := make(chan time.Time, 1)
	writes := 0
	r := benchmark(t, func(b *testing.B) {
		writes = 0
		dbtest.Latency(b, seen, func(i int) error {
			if i != writes {
				t.Errorf("i = %d, want %d", i, writes)
			}
			writes++
			delay := time.Duration(i) * time.Hour
			if i == 0 {
				delay = 1000 * time.Hour // is not measured
			}
			seen <- time.Now().Add(delay)
			return nil
		})
	})
	if writes != 20+1 {
		t.Fatalf("writes = %d, want %d", writes, 20+1)
	}
	for name, hours := range map[string]float64{"µs-p50": 10, "µs-p99": 20, "µs-max": 20} {
		if want := hours * float64(time.Hour.Microseconds()); math.Abs(r.Extra[name]-want) > 1e9 {
			t.Errorf("%s: r.Extra[name] = %v, want about %v", name, r.Extra[name], want)
		}
	}
}

func TestAppLatencyMeasuresEachUpdate(t *testing.T) {
	var db *store.Memory
	r := benchmark(t, func(b *testing.B) {
		db = memory(t)
		dbtest.AppLatency(b, db, db)
	})
	if r.N != 20 {
		t.Fatalf("r.N = %d, want 20", r.N)
	}
	o, err := dbtest.Apps(t, db).Get(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if o.Value.Image != "20" {
		t.Errorf(`o.Value.Image = %q, want "20"`, o.Value.Image)
	}
	if _, ok := r.Extra["µs-p99"]; !ok {
		t.Error(`no r.Extra["µs-p99"]`)
	}
}
