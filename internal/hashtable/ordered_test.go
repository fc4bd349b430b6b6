package hashtable_test

import (
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/setpoint-go/setpoint/internal/hashtable"
)

// The model is a list of the keys in order of arrival, and a map. Each seed has phases in which the map grows and shrinks.
func TestOrderedMapMatchesListAndMap(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 9))
		o := hashtable.NewOrdered[int, int](maphash.MakeSeed())
		var order []int
		values := map[int]int{}
		for step := range 400 {
			key := r.IntN(4 << (seed % 6))
			if _, present := values[key]; present && r.IntN(2+2*(step/100%2)) > 0 {
				if r.IntN(3) == 0 {
					key = order[0]
				}
				o.Remove(o.Get(key))
				order = slices.DeleteFunc(order, func(k int) bool { return k == key })
				delete(values, key)
			} else {
				e, fresh := o.Push(key, o.Hash(key))
				if want := !present; fresh != want {
					t.Fatalf("fresh = %v, want %v", fresh, want)
				}
				if e.Value != values[key] {
					t.Fatalf("e.Value = %d, want %d: a new node has no value", e.Value, values[key])
				}
				e.Value, values[key] = step, step
				if fresh {
					order = append(order, key)
				}
			}
			if r.IntN(20) == 0 {
				o.Reserve(r.IntN(20))
			}
			requireSame(t, &o, order, values)
		}
	}
}

func requireSame(t *testing.T, o *hashtable.Ordered[int, int], order []int, values map[int]int) {
	t.Helper()
	if err := o.Check(); err != nil {
		t.Fatal(err)
	}
	if got, want := o.Len(), len(order); got != want {
		t.Fatalf("o.Len() = %d, want %d", got, want)
	}
	var forward, backward []int
	for e := range o.All() {
		forward = append(forward, e.Key)
		if e.Value != values[e.Key] {
			t.Fatalf("e.Value = %d, want %d", e.Value, values[e.Key])
		}
	}
	for e := range o.Backward() {
		backward = append(backward, e.Key)
	}
	slices.Reverse(backward)
	if !slices.Equal(forward, order) {
		t.Fatalf("forward = %v, want %v", forward, order)
	}
	if !slices.Equal(backward, order) {
		t.Fatalf("backward = %v, want %v", backward, order)
	}
	if got := o.Get(-1); got != nil {
		t.Fatalf("o.Get(-1) = %+v, want nil", got)
	}
	if got := o.Search(-1, o.Hash(-1)); got != -1 {
		t.Fatalf("o.Search(-1, o.Hash(-1)) = %d, want -1", got)
	}
	if len(order) == 0 {
		if got := o.First(); got != nil {
			t.Fatalf("o.First() = %+v, want nil", got)
		}
		if got := o.Last(); got != nil {
			t.Fatalf("o.Last() = %+v, want nil", got)
		}
		return
	}
	if got := o.First().Key; got != order[0] {
		t.Fatalf("o.First().Key = %d, want %d", got, order[0])
	}
	if got, want := o.Last().Key, order[len(order)-1]; got != want {
		t.Fatalf("o.Last().Key = %d, want %d", got, want)
	}
}

// Of many millions of keys, some have the same hash.
func TestKeysWithSameHashAreDistinct(t *testing.T) {
	const hash = 7
	o := hashtable.NewOrdered[string, int](maphash.MakeSeed())
	for i, key := range []string{"a", "b", "c", "d"} {
		e, fresh := o.Push(key, hash)
		if !fresh {
			t.Fatalf("o.Push(%q, hash) is not fresh", key)
		}
		e.Value = i
	}
	for _, key := range []string{"c", "a"} { // neither the first nor the last, and the first
		o.Remove(o.Find(key, hash))
	}
	for key, want := range map[string]int{"a": -1, "b": 1, "c": -1, "d": 3} {
		got := -1
		if e := o.Find(key, hash); e != nil {
			got = e.Value
		}
		if got != want {
			t.Errorf("o.Find(%q, hash) has the value %d, want %d", key, got, want)
		}
	}
	if got := o.Len(); got != 2 {
		t.Errorf("o.Len() = %d, want 2", got)
	}
}

func TestPlacesCountFromZeroUntilANodeIsRemoved(t *testing.T) {
	o := hashtable.NewOrdered[int, int](maphash.MakeSeed())
	for key := range 100 {
		o.Push(key, o.Hash(key))
		if got := o.Search(key, o.Hash(key)); got != key {
			t.Fatalf("o.Search(%d, o.Hash(key)) = %d, want %d", key, got, key)
		}
		if got := o.At(key).Key; got != key {
			t.Fatalf("o.At(key).Key = %d, want %d", got, key)
		}
	}
}

func TestEmptiedOrderedMapReleasesMemory(t *testing.T) {
	o := hashtable.NewOrdered[int, int](maphash.MakeSeed())
	for key := range 10_000 {
		o.Push(key, o.Hash(key))
	}
	if got := o.Room(); got < 10_000 {
		t.Fatalf("o.Room() = %d, want at least 10_000", got)
	}
	for key := range 10_000 {
		o.Remove(o.Get(key))
	}
	if got := o.Room(); got > 64 {
		t.Fatalf("o.Room() = %d, want at most 64", got)
	}
	if err := o.Check(); err != nil {
		t.Fatal(err)
	}
}

// The queue is never empty, so the ring wraps around without growing.
func TestRingInUseDoesNotGrow(t *testing.T) {
	o := hashtable.NewOrdered[int, int](maphash.MakeSeed())
	for key := range 10_000 {
		o.Push(key, o.Hash(key))
		if key >= 4 {
			o.Remove(o.First())
		}
	}
	if got := o.Room(); got > 8 {
		t.Fatalf("o.Room() = %d, want at most 8", got)
	}
	for range o.All() {
		break
	}
	for range o.Backward() {
		break
	}
}
