package cache_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
)

func TestLargeReplaceKeepsPendingKeys(t *testing.T) {
	x := newPods()
	x.Upsert(b(1))
	f := newFIFO(x)
	if err := f.Add(a(1), 1); err != nil {
		t.Fatalf("f.Add(a(1), 1): %v", err)
	}
	if err := f.Update(b(2), 2); err != nil {
		t.Fatalf("f.Update(b(2), 2): %v", err)
	}
	list := []*pod{a(2)}
	for i := range 1000 {
		list = append(list, &pod{name: fmt.Sprint(i)})
	}
	if err := f.Replace(list, 3); err != nil {
		t.Fatalf("f.Replace(list, 3): %v", err)
	}
	if err := f.CheckInvariants(); err != nil {
		t.Fatalf("f.CheckInvariants(): %v", err)
	}
	if got, want := f.Len(), len(list)+1; got != want {
		t.Fatalf("f.Len() = %v, want %v", got, want)
	}
	lines := drain(t, f, x)
	if got, want := lines[:3], ([]string{"a: Replaced 2", "b: Deleted? 2", "0: Replaced 0"}); !slices.Equal(got, want) {
		t.Fatalf("lines[:3] = %q, want %q", got, want)
	}
	if got, want := x.Len(), len(list); got != want {
		t.Fatalf("x.Len() = %v, want %v", got, want)
	}
}

func TestMergedIncarnationIsNotKeptAlive(t *testing.T) {
	x := newPods()
	x.Upsert(a(1))
	f := newFIFO(x)
	unseen := a(3)
	freed := make(chan struct{})
	runtime.AddCleanup(unseen, func(freed chan struct{}) { close(freed) }, freed)
	if err := f.Delete(a(2), 1); err != nil {
		t.Fatalf("f.Delete(a(2), 1): %v", err)
	}
	if err := f.Add(unseen, 2); err != nil {
		t.Fatalf("f.Add(unseen, 2): %v", err)
	}
	unseen = nil
	if err := f.Delete(a(3), 3); err != nil {
		t.Fatalf("f.Delete(a(3), 3): %v", err)
	}
	for range 10 {
		runtime.GC()
	}
	<-freed // or else the test never ends
	if got, want := drain(t, f, x), ([]string{"a: Deleted 2"}); !slices.Equal(got, want) {
		t.Fatalf("drain(t, f, x) = %q, want %q", got, want)
	}
}

func TestRepeatedUpdatesOfOneKeyHoldOneObject(t *testing.T) {
	x := newPods()
	f := newFIFO(x)
	const updates = 1000
	freed := make(chan struct{}, updates)
	for i := range updates {
		p := a(i)
		runtime.AddCleanup(p, func(freed chan struct{}) { freed <- struct{}{} }, freed)
		if err := f.Update(p, uint64(i)); err != nil {
			t.Fatalf("f.Update(p, uint64(i)): %v", err)
		}
	}
	for range 10 {
		runtime.GC()
	}
	for range updates - 1 {
		<-freed // all but the last
	}
	if got, want := drain(t, f, x), ([]string{"a: Updated 999"}); !slices.Equal(got, want) {
		t.Fatalf("drain(t, f, x) = %q, want %q", got, want)
	}
}
