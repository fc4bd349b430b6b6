package cachetest_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/cache/cachetest"
)

// thing has everything that a type can have.
type thing struct {
	name  string
	n     loud
	u     uint8
	f     float64
	c     complex64
	ok    bool
	list  []int
	array [2]string
	m     map[[2]int]*thing
	any   any
	next  *thing
	fn    func()
	ch    chan int
	at    time.Time
}

// loud panics when it is printed.
type loud int

func (loud) String() string { panic("a method of the object was called") }

func thingName(x *thing) string { return x.name }

// witness is a test whose failures are what is tested.
type witness struct {
	testing.TB
	errors  []string
	cleanup []func()
}

func (w *witness) Helper()           {}
func (w *witness) Error(args ...any) { w.errors = append(w.errors, fmt.Sprint(args...)) }
func (w *witness) Cleanup(f func())  { w.cleanup = append(w.cleanup, f) }

func newThing() *thing {
	x := &thing{name: "a", f: math.NaN(), list: []int{1, 2}, m: map[[2]int]*thing{{1, 2}: {}, {0, 3}: {}}, any: 1, fn: func() {}, ch: make(chan int)}
	x.next = x
	return x
}

func TestEveryKindOfMutationIsReported(t *testing.T) {
	for want, change := range map[string]func(*thing){
		".n is 3, was 0":                      func(x *thing) { x.n = 3 },
		".u is 3, was 0":                      func(x *thing) { x.u = 3 },
		".f is 1, was NaN":                    func(x *thing) { x.f = 1 },
		".c is (0+1i), was (0+0i)":            func(x *thing) { x.c = 1i },
		".ok is true, was false":              func(x *thing) { x.ok = true },
		".list[1] is 3, was 2":                func(x *thing) { x.list[1] = 3 },
		"len(.list) is 3, was 2":              func(x *thing) { x.list = append(x.list, 4) },
		".list[2] is 4, was not there":        func(x *thing) { x.list = append(x.list, 4) },
		".list is nil, was not there":         func(x *thing) { x.list = nil },
		`.array[1] is "b", was ""`:            func(x *thing) { x.array[1] = "b" },
		"[[0] 1 [1] 2].u is 7, was 0":         func(x *thing) { x.m[[2]int{1, 2}].u = 7 },
		"[[0] 0 [1] 3] is nil, was not there": func(x *thing) { x.m[[2]int{0, 3}] = nil },
		"len(.m) is 1, was 2":                 func(x *thing) { delete(x.m, [2]int{1, 2}) },
		"[[0] 1 [1] 2].u is missing, was 0":   func(x *thing) { delete(x.m, [2]int{1, 2}) },
		".any.(type) is int64, was int":       func(x *thing) { x.any = int64(1) },
		".next is nil, was itself":            func(x *thing) { x.next = nil },
		".fn is 0x0, was 0x":                  func(x *thing) { x.fn = nil },
		".ch is 0x0, was 0x":                  func(x *thing) { x.ch = nil },
		".at.wall is 1, was 0":                func(x *thing) { x.at = time.Time{}.Add(1) },
		`object a was changed`:                func(x *thing) { x.name = "b" },
	} {
		w := &witness{}
		x := cache.NewIndexer(thingName)
		cachetest.DetectMutations(w, x, thingName)
		obj := newThing()
		x.Upsert(obj)
		change(obj)
		for _, f := range w.cleanup {
			f()
		}
		if len(w.errors) != 1 {
			t.Fatalf("%s: len(w.errors) = %d, want 1: %q", want, len(w.errors), w.errors)
		}
		if !strings.Contains(w.errors[0], want) {
			t.Fatalf("w.errors[0] = %q, want it to contain %q", w.errors[0], want)
		}
		if !strings.Contains(w.errors[0], "object a was changed after it was cached:\n\t") {
			t.Fatalf("w.errors[0] = %q, want it to contain %q", w.errors[0], "object a was changed after it was cached:\n\t")
		}
	}
}

func TestUnchangedObjectsAreNotReported(t *testing.T) {
	x := cache.NewIndexer(thingName)
	x.Upsert(newThing())
	d := cachetest.DetectMutations(t, x, thingName) // t itself fails
	x.Replace([]*thing{newThing(), {name: "b"}})
	x.Upsert(newThing())
	x.Delete("b")
	d.Check()
}

func TestMapIterationOrderIsNotAMutation(t *testing.T) {
	x := cache.NewIndexer(thingName)
	obj := &thing{name: "a", m: make(map[[2]int]*thing)}
	for i := range 100 {
		obj.m[[2]int{i, -i}] = &thing{u: uint8(i)}
	}
	x.Upsert(obj)
	d := cachetest.DetectMutations(t, x, thingName) // t itself fails
	for range 10 {
		d.Check()
	}
}

func TestValueReachedByTwoPathsIsCheckedOnBoth(t *testing.T) {
	w := &witness{}
	x := cache.NewIndexer(thingName)
	shared := &thing{list: []int{1}}
	x.Upsert(&thing{name: "a", next: shared, any: shared, m: map[[2]int]*thing{{1, 2}: shared}})
	d := cachetest.DetectMutations(w, x, thingName)
	shared.list[0] = 2
	d.Check()
	if len(w.errors) != 1 {
		t.Fatalf("len(w.errors) = %d, want 1: %q", len(w.errors), w.errors)
	}
	for _, path := range []string{".next", ".any", ".m[[0] 1 [1] 2]"} {
		if want := "\t" + path + ".list[0] is 2, was 1"; !strings.Contains(w.errors[0], want) {
			t.Fatalf("w.errors[0] = %q, want it to contain %q", w.errors[0], want)
		}
	}
}

func TestMutationsAreReportedOnceInKeyOrder(t *testing.T) {
	w := &witness{}
	x := cache.NewIndexer(thingName)
	before, after := &thing{name: "before"}, &thing{name: "after"}
	x.Upsert(before)
	d := cachetest.DetectMutations(w, x, thingName)
	x.Upsert(after)
	after.u, before.u = 1, 1
	d.Check()
	d.Check()
	if len(w.errors) != 2 {
		t.Fatalf("len(w.errors) = %d, want 2: %q", len(w.errors), w.errors)
	}
	if !strings.Contains(w.errors[0], "object before was") {
		t.Fatalf(`w.errors[0] = %q, want it to contain "object before was"`, w.errors[0])
	}
	if !strings.Contains(w.errors[1], "object after was") {
		t.Fatalf(`w.errors[1] = %q, want it to contain "object after was"`, w.errors[1])
	}

	after.u = 2
	x.Upsert(after) // the change would be hidden from now on
	before.u = 2
	x.Delete("before")
	d.Check()
	if len(w.errors) != 4 {
		t.Fatalf("len(w.errors) = %d, want 4: %q", len(w.errors), w.errors)
	}
	if !strings.Contains(w.errors[2], ".u is 2, was 1") {
		t.Fatalf(`w.errors[2] = %q, want it to contain ".u is 2, was 1"`, w.errors[2])
	}
}

func TestReplacedObjectIsComparedOnceMoreAndReportedByCheck(t *testing.T) {
	w := &witness{}
	x := cache.NewIndexer(thingName)
	d := cachetest.DetectMutations(w, x, thingName)
	old := &thing{name: "a"}
	x.Upsert(old)
	old.u = 1
	x.Upsert(&thing{name: "a", u: 5})
	old.u = 2 // nobody watches it anymore
	if len(w.errors) != 0 {
		t.Fatalf("w.errors = %q, want none before Check", w.errors)
	}
	d.Check()
	if len(w.errors) != 1 || !strings.Contains(w.errors[0], ".u is 1, was 0") {
		t.Fatalf("w.errors = %q, want one that contains .u is 1, was 0", w.errors)
	}
}
