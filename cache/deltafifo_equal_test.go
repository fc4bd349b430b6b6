package cache_test

import (
	"errors"
	"iter"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/cache"
)

// hooked is what a queue knows, with something that happens after all of it was read.
type hooked struct {
	*cache.Indexer[string, *pod]
	after func()
}

func (h *hooked) All() iter.Seq2[string, *pod] {
	return func(yield func(string, *pod) bool) {
		h.Indexer.All()(yield)
		if h.after != nil {
			h.after()
		}
	}
}

// newComparing returns a queue that compares states, and a cache with a1 and b1.
func newComparing() (*fifo, *hooked) {
	x := &hooked{Indexer: newPods()}
	x.Upsert(a(1))
	x.Upsert(b(1))
	return must(cache.NewDeltaFIFO(podName, cache.DeltaFIFOConfig[string, *pod]{
		KnownObjects: x,
		Equal:        func(known, listed *pod) bool { return known.n == listed.n },
	})), x
}

func TestReplaceWithUnchangedObjectsReportsNothing(t *testing.T) {
	f, x := newComparing()
	if err := f.Replace([]*pod{a(1), b(1)}, 10); err != nil {
		t.Fatalf("f.Replace([]*pod{a(1), b(1)}, 10): %v", err)
	}
	if !f.HasSynced() {
		t.Fatal("nothing is pending: f.HasSynced() is false")
	}
	if got := f.Version(); got != 10 {
		t.Fatalf("f.Version() = %v, want 10", got)
	}
	if got := drain(t, f, x.Indexer); len(got) != 0 {
		t.Fatalf("drain(t, f, x.Indexer) = %v, want none", got)
	}

	if err := f.Replace([]*pod{a(2), b(1)}, 20); err != nil {
		t.Fatalf("f.Replace([]*pod{a(2), b(1)}, 20): %v", err)
	}
	if got := f.Version(); got != 10 {
		t.Fatalf("f.Version() = %v, want 10", got)
	}
	if got, want := drain(t, f, x.Indexer), ([]string{"a: Replaced 2"}); !slices.Equal(got, want) {
		t.Fatalf("drain(t, f, x.Indexer) = %q, want %q", got, want)
	}
	if err := f.Replace([]*pod{b(1)}, 30); err != nil {
		t.Fatalf("f.Replace([]*pod{b(1)}, 30): %v", err)
	}
	if got, want := drain(t, f, x.Indexer), ([]string{"a: Deleted? 2"}); !slices.Equal(got, want) {
		t.Fatalf("drain(t, f, x.Indexer) = %q, want %q", got, want)
	}
	if got := f.Version(); got != 30 {
		t.Fatalf("f.Version() = %v, want 30", got)
	}
}

func TestReplaceComparesLastObjectOfDuplicateKey(t *testing.T) {
	f, x := newComparing()
	if err := f.Replace([]*pod{a(2), b(1), a(1)}, 10); err != nil {
		t.Fatalf("f.Replace([]*pod{a(2), b(1), a(1)}, 10): %v", err)
	}
	if got := drain(t, f, x.Indexer); len(got) != 0 {
		t.Fatalf("drain(t, f, x.Indexer) = %v, want none", got)
	}
	if err := f.Replace([]*pod{a(1), b(1), a(2)}, 20); err != nil {
		t.Fatalf("f.Replace([]*pod{a(1), b(1), a(2)}, 20): %v", err)
	}
	if got, want := drain(t, f, x.Indexer), ([]string{"a: Replaced 2"}); !slices.Equal(got, want) {
		t.Fatalf("drain(t, f, x.Indexer) = %q, want %q", got, want)
	}
}

func TestReplaceReportsUnchangedObjectWithPendingDeltas(t *testing.T) {
	list := func(f *fifo) error { return f.Replace([]*pod{a(1), b(1)}, 20) }
	want := func(t *testing.T, f *fifo, x *hooked) {
		t.Helper()
		drain(t, f, x.Indexer)
		if diff := cmp.Diff(map[string]int{"a": 1, "b": 1}, states(x)); diff != "" {
			t.Fatalf("states(x) mismatch (-want +got):\n%s", diff)
		}
		if got := f.Version(); got != 20 {
			t.Fatalf("f.Version() = %v, want 20", got)
		}
	}
	t.Run("an update waits", func(t *testing.T) {
		f, x := newComparing()
		if err := f.Update(a(2), 10); err != nil {
			t.Fatalf("f.Update(a(2), 10): %v", err)
		}
		if err := list(f); err != nil {
			t.Fatalf("list(f): %v", err)
		}
		want(t, f, x)
	})
	t.Run("a deletion waits", func(t *testing.T) {
		f, x := newComparing()
		if err := f.Delete(a(2), 10); err != nil {
			t.Fatalf("f.Delete(a(2), 10): %v", err)
		}
		if err := list(f); err != nil {
			t.Fatalf("list(f): %v", err)
		}
		want(t, f, x)
	})
	t.Run("an update is being processed", func(t *testing.T) {
		f, x := newComparing()
		if err := f.Update(a(2), 10); err != nil {
			t.Fatalf("f.Update(a(2), 10): %v", err)
		}
		_, err := f.TryPop(func(key string, deltas cache.Deltas[*pod], _ bool) error {
			err := list(f)
			apply(x.Indexer, key, deltas)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		want(t, f, x)
	})
	t.Run("an update is processed after the cache is read", func(t *testing.T) {
		f, x := newComparing()
		if err := f.Update(a(2), 10); err != nil {
			t.Fatalf("f.Update(a(2), 10): %v", err)
		}
		x.after = func() {
			x.after = nil
			if got := drain(t, f, x.Indexer); len(got) != 1 {
				t.Fatalf("len(drain(t, f, x.Indexer)) = %d, want 1: %v", len(got), got)
			}
		}
		if err := list(f); err != nil {
			t.Fatalf("list(f): %v", err)
		}
		want(t, f, x)
	})
	t.Run("an update has failed", func(t *testing.T) {
		f, x := newComparing()
		if err := f.Update(a(2), 10); err != nil {
			t.Fatalf("f.Update(a(2), 10): %v", err)
		}
		step(t, f, x.Indexer, errors.New("bad"))
		if err := list(f); err != nil {
			t.Fatalf("list(f): %v", err)
		}
		want(t, f, x)
	})
}

func states(x *hooked) map[string]int {
	states := make(map[string]int)
	for key, p := range x.Indexer.All() {
		states[key] = p.n
	}
	return states
}

// TestMergedDeltasEqualIndividualDeltas compares a consumer that pops once with one that pops after every call.
func TestMergedDeltasEqualIndividualDeltas(t *testing.T) {
	t.Parallel()
	calls := []func(f *fifo, n int) error{
		func(f *fifo, n int) error { return f.Add(a(n), uint64(n)) },
		func(f *fifo, n int) error { return f.Update(a(n), uint64(n)) },
		func(f *fifo, n int) error { return f.Delete(a(n), uint64(n)) },
		func(f *fifo, n int) error { return f.Replace([]*pod{a(n)}, uint64(n)) },
		func(f *fifo, n int) error { return f.Replace(nil, uint64(n)) },
		func(f *fifo, n int) error { f.Resync(); return nil },
	}
	run := func(history []int, warm, every bool) (map[string]*pod, uint64) {
		x := newPods()
		if warm {
			x.Upsert(a(0))
		}
		f := newFIFO(x)
		for i, call := range history {
			if err := calls[call](f, i+1); err != nil {
				t.Fatalf("calls[call](f, i+1): %v", err)
			}
			if every {
				drain(t, f, x)
			}
		}
		if got := f.Len(); got > 1 {
			t.Fatalf("f.Len() = %v, want at most 1", got)
		}
		drain(t, f, x)
		return maps.Collect(x.All()), f.Version()
	}
	var extend func(history []int)
	extend = func(history []int) {
		for _, warm := range []bool{false, true} {
			states, version := run(history, warm, true)
			merged, at := run(history, warm, false)
			if diff := cmp.Diff(states, merged, cmp.AllowUnexported(pod{})); diff != "" {
				t.Fatalf("%v, warm: %v: merged mismatch (-want +got):\n%s", history, warm, diff)
			}
			if at != version {
				t.Fatalf("%v, warm: %v: at = %v, want %v", history, warm, at, version)
			}
		}
		if len(history) < 4 {
			for call := range calls {
				extend(append(history[:len(history):len(history)], call))
			}
		}
	}
	extend(nil)
}
