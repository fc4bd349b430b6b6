package cache_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/setpoint-go/setpoint/cache"
)

// step pops one key, with the given result.
func step(t *testing.T, f *fifo, x *cache.Indexer[string, *pod], result error) {
	t.Helper()
	popped, err := f.TryPop(func(key string, deltas cache.Deltas[*pod], _ bool) error {
		if result == nil {
			apply(x, key, deltas)
		}
		return result
	})
	if !popped {
		t.Fatal("popped is false")
	}
	if err != result {
		t.Fatalf("err = %v, want %v", err, result)
	}
}

func TestVersionPrecedesOldestPendingChange(t *testing.T) {
	x := newPods()
	f := newFIFO(x)
	if got := f.Version(); got != 0 {
		t.Fatalf("f.Version() = %v, want 0", got)
	}
	if err := f.Add(a(1), 10); err != nil {
		t.Fatalf("f.Add(a(1), 10): %v", err)
	}
	if got := f.Version(); got != 0 {
		t.Fatalf("the state before 10 is unknown: f.Version() = %v, want 0", got)
	}
	if err := f.Add(b(1), 20); err != nil {
		t.Fatalf("f.Add(b(1), 20): %v", err)
	}
	if err := f.Update(a(2), 50); err != nil {
		t.Fatalf("f.Update(a(2), 50): %v", err)
	}
	f.Bookmark(60)
	step(t, f, x, nil)
	if got := f.Version(); got != 10 {
		t.Fatalf("a is at 50, but 20 waits: f.Version() = %v, want 10", got)
	}
	step(t, f, x, nil)
	if got := f.Version(); got != 60 {
		t.Fatalf("f.Version() = %v, want 60", got)
	}
	f.Bookmark(70)
	f.Bookmark(65)
	if got := f.Version(); got != 70 {
		t.Fatalf("f.Version() = %v, want 70", got)
	}
}

func TestKeyInProcessHoldsBackVersion(t *testing.T) {
	f := newFIFO(newPods())
	if err := f.Replace([]*pod{a(1)}, 10); err != nil {
		t.Fatalf("f.Replace([]*pod{a(1)}, 10): %v", err)
	}
	_, err := f.TryPop(func(string, cache.Deltas[*pod], bool) error {
		f.Bookmark(20)
		if got := f.Version(); got != 0 {
			t.Fatalf("f.Version() = %v, want 0", got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Version(); got != 20 {
		t.Fatalf("f.Version() = %v, want 20", got)
	}
}

func TestFailureHoldsBackVersion(t *testing.T) {
	bad := errors.New("bad")
	heal := map[string]func(*fifo) error{
		"a later change":                    func(f *fifo) error { return f.Update(a(2), 30) },
		"a list with the key":               func(f *fifo) error { return f.Replace([]*pod{a(2)}, 30) },
		"a list without it":                 func(f *fifo) error { return f.Replace(nil, 30) },
		"the deletion of an unknown object": func(f *fifo) error { return f.Delete(a(1), 30) },
	}
	for what, change := range heal {
		for _, known := range []bool{true, false} {
			x := newPods()
			f := newFIFO(x)
			if known {
				x.Upsert(a(0))
			} else {
				f = newFIFO(nil)
			}
			f.Bookmark(10)
			if err := f.Add(a(1), 20); err != nil {
				t.Fatalf("f.Add(a(1), 20): %v", err)
			}
			step(t, f, x, bad)
			f.Bookmark(25)
			if got := f.Version(); got != 10 {
				t.Fatalf("%v: f.Version() = %v, want 10", what, got)
			}
			if known {
				f.Resync()
				step(t, f, x, nil)
				if got := f.Version(); got != 10 {
					t.Fatalf("a Sync brings no change: f.Version() = %v, want 10", got)
				}
			}
			if err := change(f); err != nil {
				t.Fatalf("%v: change(f): %v", what, err)
			}
			drain(t, f, x)
			if got := f.Version(); got != 30 {
				t.Fatalf("%v: f.Version() = %v, want 30", what, got)
			}
		}
	}
}

func TestFailedSyncDoesNotHoldBackVersion(t *testing.T) {
	x := newPods()
	x.Upsert(a(1))
	f := newFIFO(x)
	f.Bookmark(10)
	f.Resync()
	step(t, f, x, errors.New("bad"))
	f.Bookmark(20)
	if got := f.Version(); got != 20 {
		t.Fatalf("f.Version() = %v, want 20", got)
	}
}

func TestResyncDoesNotChangeVersion(t *testing.T) {
	x := newPods()
	f := newFIFO(x)
	if err := f.Add(a(1), 10); err != nil {
		t.Fatalf("f.Add(a(1), 10): %v", err)
	}
	drain(t, f, x)
	f.Resync()
	if got := f.Version(); got != 10 {
		t.Fatalf("f.Version() = %v, want 10", got)
	}
	if err := f.Update(b(1), 20); err != nil {
		t.Fatalf("f.Update(b(1), 20): %v", err)
	}
	if got := f.Version(); got != 10 {
		t.Fatalf("f.Version() = %v, want 10", got)
	}
}

func TestSecondChangeAtSameVersionHoldsBackVersion(t *testing.T) {
	x := newPods()
	f := newFIFO(x)
	f.Bookmark(4)
	if err := f.Add(a(1), 5); err != nil {
		t.Fatalf("f.Add(a(1), 5): %v", err)
	}
	drain(t, f, x)
	if got := f.Version(); got != 5 {
		t.Fatalf("another change at 5 is not known yet: f.Version() = %v, want 5", got)
	}
	f.Resync()
	if got := f.Version(); got != 5 {
		t.Fatalf("f.Version() = %v, want 5", got)
	}
	if err := f.Add(b(1), 5); err != nil {
		t.Fatalf("f.Add(b(1), 5): %v", err)
	}
	if got := f.Version(); got != 4 {
		t.Fatalf("despite the Sync before it: f.Version() = %v, want 4", got)
	}
	step(t, f, x, nil)
	if got := f.Version(); got != 4 {
		t.Fatalf("f.Version() = %v, want 4", got)
	}
	step(t, f, x, nil)
	if got := f.Version(); got != 5 {
		t.Fatalf("f.Version() = %v, want 5", got)
	}
}

func TestListAtOlderVersionStartsNewHistory(t *testing.T) {
	x := newPods()
	f := newFIFO(x)
	if err := f.Add(a(1), 100); err != nil {
		t.Fatalf("f.Add(a(1), 100): %v", err)
	}
	drain(t, f, x)
	if err := f.Update(a(2), 150); err != nil {
		t.Fatalf("f.Update(a(2), 150): %v", err)
	}
	if err := f.Add(&pod{name: "c"}, 160); err != nil {
		t.Fatalf(`f.Add(&pod{name: "c"}, 160): %v`, err)
	}
	step(t, f, x, errors.New("bad"))
	if got := f.Version(); got != 100 {
		t.Fatalf("f.Version() = %v, want 100", got)
	}

	if err := f.Replace([]*pod{b(1)}, 40); err != nil {
		t.Fatalf("f.Replace([]*pod{b(1)}, 40): %v", err)
	}
	for range 2 { // c, and b
		if got := f.Version(); got != 0 {
			t.Fatalf("version 100 is from another history now: f.Version() = %v, want 0", got)
		}
		if f.Len() > 1 {
			_, err := f.TryPop(func(key string, deltas cache.Deltas[*pod], _ bool) error { apply(x, key, deltas); return nil })
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	drain(t, f, x)
	if got := f.Version(); got != 40 {
		t.Fatalf("f.Version() = %v, want 40", got)
	}
	if got, want := names(x.All()), ([]string{"b"}); !slices.Equal(got, want) {
		t.Fatalf("names(x.All()) = %q, want %q", got, want)
	}
	if err := f.Update(b(2), 41); err != nil {
		t.Fatalf("f.Update(b(2), 41): %v", err)
	}
	drain(t, f, x)
	if got := f.Version(); got != 41 {
		t.Fatalf("f.Version() = %v, want 41", got)
	}
}

func TestFailureBeforeNewHistoryHoldsBackVersion(t *testing.T) {
	bad := errors.New("bad")
	t.Run("a key that failed before", func(t *testing.T) {
		x := newPods()
		f := newFIFO(x)
		f.Bookmark(100)
		if err := f.Add(a(1), 150); err != nil {
			t.Fatalf("f.Add(a(1), 150): %v", err)
		}
		step(t, f, x, bad)
		if err := f.Replace([]*pod{a(2)}, 120); err != nil {
			t.Fatalf("f.Replace([]*pod{a(2)}, 120): %v", err)
		}
		step(t, f, x, bad)
		if got := f.Version(); got != 0 {
			t.Fatalf("f.Version() = %v, want 0", got)
		}
	})
	t.Run("a key that was being processed", func(t *testing.T) {
		x := newPods()
		f := newFIFO(x)
		f.Bookmark(100)
		if err := f.Add(a(1), 150); err != nil {
			t.Fatalf("f.Add(a(1), 150): %v", err)
		}
		_, err := f.TryPop(func(string, cache.Deltas[*pod], bool) error {
			if err := f.Replace([]*pod{a(2)}, 120); err != nil {
				t.Fatalf("f.Replace([]*pod{a(2)}, 120): %v", err)
			}
			if got := f.Version(); got != 0 {
				t.Fatalf("f.Version() = %v, want 0", got)
			}
			return bad
		})
		if err != bad {
			t.Fatalf("err = %v, want %v", err, bad)
		}
		step(t, f, x, bad)
		if got := f.Version(); got != 0 {
			t.Fatalf("f.Version() = %v, want 0", got)
		}
	})
}

func TestEmptyListOfNewHistoryHoldsVersionAtZero(t *testing.T) {
	f := must(cache.NewDeltaFIFO(podName, cache.DeltaFIFOConfig[string, *pod]{}))
	pop := func() {
		_, err := f.TryPop(func(string, cache.Deltas[*pod], bool) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Add(a(1), 1); err != nil {
		t.Fatalf("f.Add(a(1), 1): %v", err)
	}
	pop()
	if err := f.Add(b(1), 5); err != nil {
		t.Fatalf("f.Add(b(1), 5): %v", err)
	}
	if err := f.Replace(nil, 3); err != nil {
		t.Fatalf("f.Replace(nil, 3): %v", err)
	}
	if got := f.Version(); got != 0 {
		t.Fatalf("the deletion of b is not processed: f.Version() = %v, want 0", got)
	}
	pop()
	if got := f.Version(); got != 3 {
		t.Fatalf("f.Version() = %v, want 3", got)
	}
}
