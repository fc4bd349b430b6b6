package cache_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/cache"
)

type fifo = cache.DeltaFIFO[string, *pod]

// a and b make the objects of the tests: a1 is the first state of a.
func a(n int) *pod { return &pod{name: "a", n: n} }
func b(n int) *pod { return &pod{name: "b", n: n} }

// apply does to x what a level consumer does.
func apply(x *cache.Indexer[string, *pod], key string, deltas cache.Deltas[*pod]) {
	for d := range deltas.All() {
		if d.Type == cache.Deleted {
			x.Delete(key)
		} else {
			x.Upsert(d.Object)
		}
	}
}

// line describes what process was called with: "a: Deleted 1, Added 2". A question mark stands for FinalStateUnknown,
// and a final star for initial.
func line(key string, deltas iter.Seq[cache.Delta[*pod]], initial bool) string {
	var words []string
	for d := range deltas {
		word := d.Type.String()
		if d.FinalStateUnknown {
			word += "?"
		}
		words = append(words, fmt.Sprint(word, " ", d.Object.n))
	}
	text := key + ": " + strings.Join(words, ", ")
	if initial {
		text += " *"
	}
	return text
}

// drain pops and applies everything that waits, and describes it.
func drain(t *testing.T, f *fifo, x *cache.Indexer[string, *pod]) []string {
	t.Helper()
	lines := []string{}
	for {
		popped, err := f.TryPop(func(key string, deltas cache.Deltas[*pod], initial bool) error {
			lines = append(lines, line(key, deltas.All(), initial))
			apply(x, key, deltas)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if !popped {
			return lines
		}
	}
}

func TestReplaceDeletesPendingKeys(t *testing.T) {
	x := newPods()
	f := newFIFO(x)
	x.Upsert(b(1))
	if err := f.Update(b(2), 1); err != nil {
		t.Fatalf("f.Update(b(2), 1): %v", err)
	} // waits and is known
	if err := f.Add(a(1), 2); err != nil {
		t.Fatalf("f.Add(a(1), 2): %v", err)
	} // only waits
	if err := f.Replace(nil, 3); err != nil {
		t.Fatalf("f.Replace(nil, 3): %v", err)
	}
	if got, want := drain(t, f, x), ([]string{"b: Deleted? 2"}); !slices.Equal(got, want) {
		t.Fatalf("and a was never seen: drain(t, f, x) = %q, want %q", got, want)
	}

	unasked := newFIFO(nil) // the queue cannot know whether the consumer has seen a
	if err := unasked.Add(a(1), 2); err != nil {
		t.Fatalf("unasked.Add(a(1), 2): %v", err)
	}
	if err := unasked.Replace(nil, 3); err != nil {
		t.Fatalf("unasked.Replace(nil, 3): %v", err)
	}
	if got, want := drain(t, unasked, x), ([]string{"a: Deleted? 1"}); !slices.Equal(got, want) {
		t.Fatalf("drain(t, unasked, x) = %q, want %q", got, want)
	}
}

func TestTombstoneHasNewestKnownState(t *testing.T) {
	for what, test := range map[string]struct {
		waits func(*fifo) error
		want  string
	}{
		"nothing is pending":         {func(f *fifo) error { return nil }, "a: Deleted? 1"},
		"a Sync waits":               {func(f *fifo) error { f.Resync(); return nil }, "a: Deleted? 1"},
		"an update waits":            {func(f *fifo) error { return f.Update(a(2), 1) }, "a: Deleted? 2"},
		"a deletion waits":           {func(f *fifo) error { return f.Delete(a(3), 1) }, "a: Deleted 3"},
		"a tombstone waits":          {func(f *fifo) error { return f.Replace(nil, 1) }, "a: Deleted? 1"},
		"another incarnation waits":  {func(f *fifo) error { return errors.Join(f.Delete(a(3), 1), f.Add(a(4), 1)) }, "a: Deleted 3"},
		"an earlier one returns too": {func(f *fifo) error { return errors.Join(f.Update(a(2), 1), f.Replace(nil, 1)) }, "a: Deleted? 2"},
	} {
		t.Run(what, func(t *testing.T) {
			x := newPods()
			x.Upsert(a(1))
			f := newFIFO(x)
			if err := test.waits(f); err != nil {
				t.Fatalf("test.waits(f): %v", err)
			}
			if err := f.Replace(nil, 2); err != nil {
				t.Fatalf("f.Replace(nil, 2): %v", err)
			}
			if err := f.Replace(nil, 3); err != nil {
				t.Fatalf("a key is not tombstoned twice: f.Replace(nil, 3): %v", err)
			}
			got := drain(t, f, x)
			if got, want := ([]string{strings.TrimSuffix(got[0], " *")}), ([]string{test.want}); !slices.Equal(got, want) {
				t.Fatalf(`[]string{strings.TrimSuffix(got[0], " *")} = %q, want %q`, got, want)
			}
			if len(got) != 1 {
				t.Fatalf("len(got) = %d, want 1: %v", len(got), got)
			}
		})
	}
}

func TestDeleteStateWinsOverTombstone(t *testing.T) {
	x := newPods()
	x.Upsert(a(1))
	f := newFIFO(x)
	if err := f.Replace(nil, 1); err != nil {
		t.Fatalf("f.Replace(nil, 1): %v", err)
	}
	if err := f.Delete(a(2), 2); err != nil {
		t.Fatalf("f.Delete(a(2), 2): %v", err)
	}
	if got, want := drain(t, f, x), ([]string{"a: Deleted 2 *"}); !slices.Equal(got, want) {
		t.Fatalf("drain(t, f, x) = %q, want %q", got, want)
	}
}

func TestResyncNeverFollowsNewerStateWithOlder(t *testing.T) {
	x := newPods()
	x.Upsert(a(1))
	x.Upsert(b(1))
	f := newFIFO(x)
	if err := f.Update(a(2), 1); err != nil {
		t.Fatalf("f.Update(a(2), 1): %v", err)
	}
	f.Resync()
	f.Resync()
	if got := f.Len(); got != 2 {
		t.Fatalf("f.Len() = %v, want 2", got)
	}
	if err := f.Update(b(2), 2); err != nil {
		t.Fatalf("f.Update(b(2), 2): %v", err)
	}
	if got, want := drain(t, f, x), ([]string{"a: Updated 2", "b: Updated 2"}); !slices.Equal(got, want) {
		t.Fatalf("drain(t, f, x) = %q, want %q", got, want)
	}

	f.Resync()
	x.Upsert(a(3)) // the consumer's state when it reaches the Sync
	x.Delete("b")
	if got, want := drain(t, f, x), ([]string{"a: Sync 3"}); !slices.Equal(got, want) {
		t.Fatalf("drain(t, f, x) = %q, want %q", got, want)
	}

	newFIFO(nil).Resync() // knows nothing
}

func TestHasSyncedAfterFirstListIsProcessed(t *testing.T) {
	x := newPods()
	x.Upsert(b(1))
	f := newFIFO(x)
	if err := f.Replace([]*pod{a(1)}, 5); err != nil {
		t.Fatalf("f.Replace([]*pod{a(1)}, 5): %v", err)
	}
	if err := f.Add(&pod{name: "c"}, 6); err != nil {
		t.Fatalf(`f.Add(&pod{name: "c"}, 6): %v`, err)
	}
	for i, want := range []string{"a: Replaced 1 *", "b: Deleted? 1 *"} {
		if f.HasSynced() {
			t.Fatal("f.HasSynced() is true")
		}
		popped, err := f.TryPop(func(key string, deltas cache.Deltas[*pod], initial bool) error {
			if f.HasSynced() {
				t.Fatal("process has not returned: f.HasSynced() is true")
			}
			if got := line(key, deltas.All(), initial); got != want {
				t.Fatalf("line(key, deltas.All(), initial) = %q, want %q", got, want)
			}
			if i == 0 {
				return errors.New("an error counts too")
			}
			return nil
		})
		if !popped {
			t.Fatal("popped is false")
		}
		if got, want := err != nil, i == 0; got != want {
			t.Fatalf("err != nil = %v, want %v", got, want)
		}
	}
	if !f.HasSynced() {
		t.Fatal("f.HasSynced() is false")
	}
	if got, want := drain(t, f, x), ([]string{"c: Added 0"}); !slices.Equal(got, want) {
		t.Fatalf("c was not in the first list: drain(t, f, x) = %q, want %q", got, want)
	}
}

func TestHasSyncedWaitsForDeletionOfPendingKey(t *testing.T) {
	x := newPods()
	x.Upsert(b(1))
	f := newFIFO(x)
	f.Resync()
	if err := f.Replace(nil, 5); err != nil {
		t.Fatalf("f.Replace(nil, 5): %v", err)
	}
	if f.HasSynced() {
		t.Fatal("f.HasSynced() is true")
	}
	if got, want := drain(t, f, x), ([]string{"b: Deleted? 1 *"}); !slices.Equal(got, want) {
		t.Fatalf("drain(t, f, x) = %q, want %q", got, want)
	}
	if !f.HasSynced() {
		t.Fatal("f.HasSynced() is false")
	}
}

func TestHasSyncedImmediatelyAfterEmptyList(t *testing.T) {
	for what, first := range map[string]func(*fifo) error{
		"an empty list": func(f *fifo) error { return f.Replace(nil, 1) },
		"Add":           func(f *fifo) error { return f.Add(a(1), 1) },
		"Update":        func(f *fifo) error { return f.Update(a(1), 1) },
		"Delete":        func(f *fifo) error { return f.Delete(a(1), 1) },
	} {
		f := newFIFO(newPods())
		f.Bookmark(1)
		f.Resync()
		if f.HasSynced() {
			t.Fatalf("%v: f.HasSynced() is true", what)
		}
		if err := first(f); err != nil {
			t.Fatalf("%v: first(f): %v", what, err)
		}
		if !f.HasSynced() {
			t.Fatalf("%v: f.HasSynced() is false", what)
		}
		<-f.Synced()
		if err := f.Replace([]*pod{a(1)}, 2); err != nil {
			t.Fatalf("%v: f.Replace([]*pod{a(1)}, 2): %v", what, err)
		}
		if !f.HasSynced() {
			t.Fatalf("%v: f.HasSynced() is false", what)
		}
	}
}

func TestDeleteOfUnknownKeyIsNotReported(t *testing.T) {
	x := newPods()
	f := newFIFO(x)
	if err := f.Delete(a(1), 1); err != nil {
		t.Fatalf("f.Delete(a(1), 1): %v", err)
	}
	if err := f.Add(b(1), 2); err != nil {
		t.Fatalf("f.Add(b(1), 2): %v", err)
	}
	if err := f.Delete(b(2), 3); err != nil {
		t.Fatalf("f.Delete(b(2), 3): %v", err)
	}
	if got := drain(t, f, x); len(got) != 0 {
		t.Fatalf("drain(t, f, x) = %v, want none", got)
	}
	if got := f.Version(); got != 3 {
		t.Fatalf("f.Version() = %v, want 3", got)
	}
	if got := f.Len(); got != 0 {
		t.Fatalf("f.Len() = %v, want 0", got)
	}

	unasked := newFIFO(nil)
	if err := unasked.Delete(a(1), 1); err != nil {
		t.Fatalf("unasked.Delete(a(1), 1): %v", err)
	}
	if got, want := drain(t, unasked, x), ([]string{"a: Deleted 1"}); !slices.Equal(got, want) {
		t.Fatalf("drain(t, unasked, x) = %q, want %q", got, want)
	}
}

func TestRepeatedChangeKeepsPlaceInQueue(t *testing.T) {
	x := newPods()
	f := newFIFO(x)
	if err := f.Add(a(1), 1); err != nil {
		t.Fatalf("f.Add(a(1), 1): %v", err)
	}
	if err := f.Add(b(1), 2); err != nil {
		t.Fatalf("f.Add(b(1), 2): %v", err)
	}
	if err := f.Update(a(2), 3); err != nil {
		t.Fatalf("f.Update(a(2), 3): %v", err)
	}
	if got, want := drain(t, f, x), ([]string{"a: Added 2", "b: Added 1"}); !slices.Equal(got, want) {
		t.Fatalf("drain(t, f, x) = %q, want %q", got, want)
	}
}

func TestPendingDeltasAreMerged(t *testing.T) {
	type change = func(*fifo, *pod) error
	add, update, del := change(func(f *fifo, p *pod) error { return f.Add(p, 1) }),
		change(func(f *fifo, p *pod) error { return f.Update(p, 1) }),
		change(func(f *fifo, p *pod) error { return f.Delete(p, 1) })
	list := change(func(f *fifo, p *pod) error { return f.Replace([]*pod{p}, 1) })
	empty := change(func(f *fifo, p *pod) error { return f.Replace(nil, 1) })
	resync := change(func(f *fifo, p *pod) error { f.Resync(); return nil })

	for want, changes := range map[string][]change{
		"a: Updated 2":             {update, update},
		"a: Added 3":               {update, add, update},
		"a: Replaced 4":            {add, list, update, add},
		"a: Updated 5":             {resync, update, resync, resync, update},
		"a: Deleted 2":             {update, del},
		"a: Deleted 3":             {add, del, del},
		"a: Deleted 1, Added 2":    {del, add},
		"a: Deleted 1, Added 3":    {del, add, update},
		"a: Deleted 1":             {del, add, del, empty},
		"a: Deleted? 0":            {empty, add, del, empty},
		"a: Deleted? 0, Added 4":   {empty, add, del, add},
		"a: Deleted 1, Replaced 2": {del, list},
	} {
		x := newPods()
		x.Upsert(a(0))
		f := newFIFO(x)
		if err := f.Add(b(0), 0); err != nil {
			t.Fatalf("f.Add(b(0), 0): %v", err)
		} // so that there is no first list
		for i, change := range changes {
			if err := change(f, a(i+1)); err != nil {
				t.Fatalf("change(f, a(i+1)): %v", err)
			}
		}
		got := drain(t, f, x)
		if !slices.Contains(got, want) {
			t.Fatalf("got = %v, want it to contain %v", got, want)
		}
	}
}

func TestTransformRunsOncePerObject(t *testing.T) {
	x := newPods()
	calls := make(map[int]int)
	bad := errors.New("bad")
	f := must(cache.NewDeltaFIFO(podName, cache.DeltaFIFOConfig[string, *pod]{
		KnownObjects: x,
		Transform: func(p *pod) (*pod, error) {
			if p.n < 0 {
				return nil, bad
			}
			calls[p.n]++
			return &pod{name: p.name, n: p.n + 100}, nil
		},
	}))
	if err := f.Replace([]*pod{a(1), b(2)}, 1); err != nil {
		t.Fatalf("f.Replace([]*pod{a(1), b(2)}, 1): %v", err)
	}
	if got, want := drain(t, f, x), ([]string{"a: Replaced 101 *", "b: Replaced 102 *"}); !slices.Equal(got, want) {
		t.Fatalf("drain(t, f, x) = %q, want %q", got, want)
	}
	f.Resync()
	if got, want := drain(t, f, x), ([]string{"a: Sync 101", "b: Sync 102"}); !slices.Equal(got, want) {
		t.Fatalf("drain(t, f, x) = %q, want %q", got, want)
	}
	if err := f.Update(a(3), 2); err != nil {
		t.Fatalf("f.Update(a(3), 2): %v", err)
	}
	if err := f.Delete(b(4), 3); err != nil {
		t.Fatalf("f.Delete(b(4), 3): %v", err)
	}
	if got, want := drain(t, f, x), ([]string{"a: Updated 103", "b: Deleted 104"}); !slices.Equal(got, want) {
		t.Fatalf("drain(t, f, x) = %q, want %q", got, want)
	}
	if err := f.Replace(nil, 4); err != nil {
		t.Fatalf("f.Replace(nil, 4): %v", err)
	}
	if got, want := drain(t, f, x), ([]string{"a: Deleted? 103"}); !slices.Equal(got, want) {
		t.Fatalf("drain(t, f, x) = %q, want %q", got, want)
	}
	if diff := cmp.Diff(map[int]int{1: 1, 2: 1, 3: 1, 4: 1}, calls); diff != "" {
		t.Fatalf("calls mismatch (-want +got):\n%s", diff)
	}

	for what, err := range map[string]error{
		"Add":     f.Add(a(-1), 5),
		"Update":  f.Update(a(-1), 5),
		"Delete":  f.Delete(a(-1), 5),
		"Replace": f.Replace([]*pod{a(1), b(-1)}, 5),
	} {
		if !errors.Is(err, bad) {
			t.Fatalf("%v: err = %v, want %v", what, err, bad)
		}
		if got := err.Error(); !strings.Contains(got, "cache: transform ") {
			t.Fatalf("%v: err.Error() = %q, want it to contain %q", what, got, "cache: transform ")
		}
	}
	if got := f.Version(); got != 4 {
		t.Fatalf("an error changes nothing: f.Version() = %v, want 4", got)
	}
	if got := drain(t, f, x); len(got) != 0 {
		t.Fatalf("drain(t, f, x) = %v, want none", got)
	}
}

func TestDeleteWhileProcessingIsNotLost(t *testing.T) {
	for what, forget := range map[string]func(*fifo) error{
		"Delete":  func(f *fifo) error { return f.Delete(a(2), 2) },
		"Replace": func(f *fifo) error { return f.Replace(nil, 2) },
	} {
		x := newPods()
		f := newFIFO(x)
		if err := f.Add(a(1), 1); err != nil {
			t.Fatalf("f.Add(a(1), 1): %v", err)
		}
		popped, err := f.TryPop(func(key string, deltas cache.Deltas[*pod], _ bool) error {
			err := forget(f) // a is neither known nor does it wait
			apply(x, key, deltas)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if !popped {
			t.Fatal("popped is false")
		}
		if got := drain(t, f, x); len(got) != 1 {
			t.Fatalf("%v: len(drain(t, f, x)) = %d, want 1: %v", what, len(got), got)
		}
		if got := x.Len(); got != 0 {
			t.Fatalf("%v: x.Len() = %v, want 0", what, got)
		}
	}
}

func TestConsumerMayAdd(t *testing.T) {
	x := newPods()
	f := newFIFO(x)
	if err := f.Add(a(1), 1); err != nil {
		t.Fatalf("f.Add(a(1), 1): %v", err)
	}
	popped, err := f.TryPop(func(string, cache.Deltas[*pod], bool) error {
		if got := f.Len(); got != 0 {
			t.Fatalf("f.Len() = %v, want 0", got)
		}
		if got := f.Version(); got != 0 {
			t.Fatalf("f.Version() = %v, want 0", got)
		}
		f.Bookmark(2)
		f.Resync()
		return errors.Join(f.Update(a(2), 3), f.Replace([]*pod{b(1)}, 4))
	})
	if !popped {
		t.Fatal("popped is false")
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, want := drain(t, f, x), ([]string{"b: Replaced 1"}); !slices.Equal(got, want) {
		t.Fatalf("drain(t, f, x) = %q, want %q", got, want)
	}
}

func TestListOfNewHistoryHoldsVersionAtZeroUntilProcessed(t *testing.T) {
	x := newPods()
	f := newFIFO(x)
	if err := f.Add(a(1), 9); err != nil {
		t.Fatalf("f.Add(a(1), 9): %v", err)
	}
	if err := f.Add(b(1), 10); err != nil {
		t.Fatalf("f.Add(b(1), 10): %v", err)
	}
	drain(t, f, x)
	if got := f.Version(); got != 10 {
		t.Fatalf("f.Version() = %v, want 10", got)
	}
	if err := f.Replace([]*pod{a(1)}, 3); err != nil {
		t.Fatalf("f.Replace([]*pod{a(1)}, 3): %v", err)
	}
	if got := f.Version(); got != 0 {
		t.Fatalf("f.Version() = %v, want 0", got)
	}
	if got, want := drain(t, f, x), ([]string{"a: Replaced 1", "b: Deleted? 1"}); !slices.Equal(got, want) {
		t.Fatalf("drain(t, f, x) = %q, want %q", got, want)
	}
	if got := f.Version(); got != 3 {
		t.Fatalf("f.Version() = %v, want 3", got)
	}
}

// interrupted is a cache that calls do after it was read and before the reader sees the result.
type interrupted struct {
	*cache.Indexer[string, *pod]
	do []func()
}

func (i *interrupted) All() iter.Seq2[string, *pod] {
	s := i.Snapshot()
	do := i.do[0]
	i.do = i.do[1:]
	do()
	return s.All()
}

func TestPanickingReplaceDoesNotHideDeletionFromAnother(t *testing.T) {
	x := &interrupted{Indexer: newPods()}
	f := newFIFO(x)
	if err := f.Add(a(1), 1); err != nil {
		t.Fatalf("f.Add(a(1), 1): %v", err)
	}
	x.do = []func(){
		func() { // the first list has read the cache, which lacks a
			if got, want := drain(t, f, x.Indexer), ([]string{"a: Added 1"}); !slices.Equal(got, want) {
				t.Fatalf("drain(t, f, x.Indexer) = %q, want %q", got, want)
			}
			if panicOf(func() { _ = f.Replace(nil, 2) }) == nil {
				t.Fatal("no panic")
			}
		},
		func() { panic("the second one") },
	}
	if err := f.Replace(nil, 3); err != nil {
		t.Fatalf("f.Replace(nil, 3): %v", err)
	}
	if got, want := drain(t, f, x.Indexer), ([]string{"a: Deleted? 1"}); !slices.Equal(got, want) {
		t.Fatalf("drain(t, f, x.Indexer) = %q, want %q", got, want)
	}
}
