package cache_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/cache"
)

func TestConsumerMayKeepDeltas(t *testing.T) {
	x := newPods()
	x.Upsert(a(1))
	f := newFIFO(x)
	if err := f.Delete(a(1), 1); err != nil {
		t.Fatalf("f.Delete(a(1), 1): %v", err)
	}
	if err := f.Add(a(2), 2); err != nil {
		t.Fatalf("f.Add(a(2), 2): %v", err)
	}
	if err := f.Add(b(1), 3); err != nil {
		t.Fatalf("f.Add(b(1), 3): %v", err)
	}
	var kept []cache.Deltas[*pod]
	for range 2 {
		_, err := f.TryPop(func(_ string, deltas cache.Deltas[*pod], _ bool) error {
			kept = append(kept, deltas)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := line("a", kept[0].All(), false); got != "a: Deleted 1, Added 2" {
		t.Fatalf(`line("a", kept[0].All(), false) = %q, want %q`, got, "a: Deleted 1, Added 2")
	}
	if got := line("b", kept[1].All(), false); got != "b: Added 1" {
		t.Fatalf(`line("b", kept[1].All(), false) = %q, want %q`, got, "b: Added 1")
	}
}

func TestDeltasNewestIsFinalState(t *testing.T) {
	x := newPods()
	x.Upsert(a(1))
	f := newFIFO(x)
	var newest cache.Delta[*pod]
	pop := func() {
		_, err := f.TryPop(func(_ string, deltas cache.Deltas[*pod], _ bool) error {
			newest = deltas.Newest()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Delete(a(1), 1); err != nil {
		t.Fatalf("f.Delete(a(1), 1): %v", err)
	}
	if err := f.Add(a(2), 2); err != nil {
		t.Fatalf("f.Add(a(2), 2): %v", err)
	}
	pop()
	if diff := cmp.Diff(cache.Delta[*pod]{Type: cache.Added, Object: a(2)}, newest, cmp.AllowUnexported(pod{})); diff != "" {
		t.Fatalf("newest mismatch (-want +got):\n%s", diff)
	}
	if err := f.Delete(a(2), 3); err != nil {
		t.Fatalf("f.Delete(a(2), 3): %v", err)
	}
	pop()
	if diff := cmp.Diff(cache.Delta[*pod]{Type: cache.Deleted, Object: a(2)}, newest, cmp.AllowUnexported(pod{})); diff != "" {
		t.Fatalf("newest mismatch (-want +got):\n%s", diff)
	}
}

func TestDeltasLoopMayBreak(t *testing.T) {
	x := newPods()
	x.Upsert(a(1))
	f := newFIFO(x)
	if err := f.Delete(a(1), 1); err != nil {
		t.Fatalf("f.Delete(a(1), 1): %v", err)
	}
	if err := f.Add(a(2), 2); err != nil {
		t.Fatalf("f.Add(a(2), 2): %v", err)
	}
	_, err := f.TryPop(func(_ string, deltas cache.Deltas[*pod], _ bool) error {
		for d := range deltas.All() {
			if d.Type != cache.Deleted {
				t.Fatalf("d.Type = %v, want %v", d.Type, cache.Deleted)
			}
			break
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPopDoesNotAllocate(t *testing.T) {
	x := newPods()
	f := newFIFO(x)
	object, version := a(1), uint64(0)
	process := func(string, cache.Deltas[*pod], bool) error { return nil }
	allocations := testing.AllocsPerRun(100, func() {
		version++
		_ = f.Update(object, version)
		_, _ = f.TryPop(process)
	})
	if allocations != 0 {
		t.Fatalf("allocations = %v, want 0", allocations)
	}
}
