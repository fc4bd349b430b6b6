package plain_test

import (
	"fmt"
	"math"
	"reflect"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/store/internal/plain"
)

// V has the types whose equality has a rule of its own.
type V struct {
	F float64
	C complex128
	T time.Time
	L []int
	M map[string]*int
	P *int
	A [2][]string
	N []struct{ Port int }

	Args []string
	Env  Env
	Raw  []byte
	Tree *V
}

// Env is made from a type that has code of its own.
type Env map[string]string

func of[T any](t *testing.T) *plain.Values[T] {
	t.Helper()
	values, ok := plain.Of[T]()
	if !ok {
		t.Fatal("ok = false, want true")
	}
	return values
}

func plainData[T any]() bool {
	_, ok := plain.Of[T]()
	return ok
}

func TestPlainDataTypes(t *testing.T) {
	type hidden struct{ Shown, hidden int }
	type timeLike time.Time
	type graph struct {
		Edges []struct{ To graphOf[int] }
		Pairs map[string][2]*graphOf[string]
	}
	for name, ok := range map[string]bool{
		"a number": plainData[int](), "a time": plainData[time.Time](), "nothing": plainData[struct{}](), "a tree": plainData[V](),
		"a graph": plainData[graph](), "a key of an array": plainData[map[[2]struct{ Rack uint8 }]bool](),
	} {
		if !ok {
			t.Errorf("%s: ok = false, want true", name)
		}
	}
	for name, ok := range map[string]bool{
		"an interface": plainData[any](), "a channel": plainData[chan int](), "a function in a slice": plainData[[]func()](),
		"an unexported field": plainData[hidden](), "an unexported field in an element": plainData[map[string]*[2]hidden](),
		"a type made from a time": plainData[timeLike](), "a pointer in a key": plainData[map[*int]int](),
		"a float in a key": plainData[map[struct{ A [1]float64 }]int](), "a time in a key": plainData[map[time.Time]int](),
		"an unexported field in a key": plainData[map[hidden]int](), "a function beside a recursion": plainData[struct {
			Tree *V
			Bad  func()
		}](),
	} {
		if ok {
			t.Errorf("%s: ok = true, want false", name)
		}
	}
}

type graphOf[T any] struct {
	Name T
	To   []graphOf[T]
}

func TestEqualIsExact(t *testing.T) {
	noon := time.Date(2024, 1, 1, 12, 0, 0, 0, time.UTC)
	one, other := 1, 1
	for name, c := range map[string]struct {
		from, to V
		same     bool
	}{
		"NaN for the same NaN":         {V{F: math.NaN()}, V{F: math.NaN()}, true},
		"another NaN":                  {V{F: math.NaN()}, V{F: math.Float64frombits(math.Float64bits(math.NaN()) ^ 2)}, false},
		"minus zero":                   {V{F: 0}, V{F: math.Copysign(0, -1)}, false},
		"an imaginary part":            {V{C: 1}, V{C: 1 + 1i}, false},
		"a real part":                  {V{C: 1i}, V{C: 1 + 1i}, false},
		"an empty slice for nil":       {V{}, V{L: []int{}}, false},
		"an empty slice of structs":    {V{}, V{N: []struct{ Port int }{}}, false},
		"an empty map for nil":         {V{}, V{M: map[string]*int{}}, false},
		"an empty list for nil":        {V{}, V{Args: []string{}}, false},
		"nil for an empty list":        {V{Args: []string{}}, V{}, false},
		"another text":                 {V{Args: []string{"a", "b"}}, V{Args: []string{"a", "c"}}, false},
		"another text in an array":     {V{A: [2][]string{1: {"a"}}}, V{A: [2][]string{1: {"b"}}}, false},
		"one string fewer":             {V{Args: []string{"a", "b"}}, V{Args: []string{"a"}}, false},
		"one element fewer":            {V{N: make([]struct{ Port int }, 2)}, V{N: make([]struct{ Port int }, 1)}, false},
		"an empty table for nil":       {V{}, V{Env: Env{}}, false},
		"nil for an empty table":       {V{Env: Env{}}, V{}, false},
		"an empty string for a key":    {V{Env: Env{"a": ""}}, V{Env: Env{"b": ""}}, false},
		"the same table":               {V{Env: Env{"a": "1"}}, V{Env: Env{"a": "1"}}, true},
		"spare capacity":               {V{L: []int{1}}, V{L: []int{1, 2}[:1]}, true},
		"another key":                  {V{M: map[string]*int{"a": &one}}, V{M: map[string]*int{"b": &one}}, false},
		"a nil pointer under no key":   {V{M: map[string]*int{"a": nil}}, V{M: map[string]*int{"b": nil}}, false},
		"a pointer to an equal value":  {V{M: map[string]*int{"a": &one}}, V{M: map[string]*int{"a": &other}}, true},
		"nil for a pointer":            {V{P: &one}, V{}, false},
		"the same instant elsewhere":   {V{T: noon}, V{T: noon.In(time.FixedZone("", 3600))}, false},
		"the same offset by all names": {V{T: noon}, V{T: noon.In(time.FixedZone("X", 0))}, true},
		"a nanosecond":                 {V{T: noon}, V{T: noon.Add(1)}, false},
		"another subtree":              {V{Tree: &V{Raw: []byte{1}}}, V{Tree: &V{Raw: []byte{2}}}, false},
		"the same subtree":             {V{Tree: &V{Raw: []byte{1}}}, V{Tree: &V{Raw: []byte{1}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			same, err := of[V](t).Adopt(&c.to, &c.from)
			if err != nil {
				t.Fatal(err)
			}
			if same != c.same {
				t.Errorf("same = %v, want %v", same, c.same)
			}
		})
	}
}

// full returns a value in which nothing is empty. Two calls return values that are equal and share nothing.
func full(depth int) V {
	one := 1
	v := V{
		F: 1, C: 2i, T: time.Unix(3, 0).UTC(), L: []int{4}, M: map[string]*int{"a": &one}, P: &one, A: [2][]string{{"x"}, {"y"}},
		N: []struct{ Port int }{{80}, {443}}, Args: []string{"-v"}, Env: Env{"TIER": "front"}, Raw: []byte("raw"),
	}
	if depth > 0 {
		inner := full(depth - 1)
		v.Tree = &inner
	}
	return v
}

// memory returns the address of all mutable memory that v leads to, with its path.
func memory(v reflect.Value, path string, found map[string]uintptr) map[string]uintptr {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				memory(v.Field(i), path+"."+f.Name, found)
			}
		}
	case reflect.Array, reflect.Slice:
		if v.Kind() == reflect.Slice && v.Len() > 0 {
			found[path] = v.Pointer()
		}
		for i := range v.Len() {
			memory(v.Index(i), fmt.Sprint(path, "[", i, "]"), found)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			found[path] = v.Pointer()
			memory(v.Elem(), path, found)
		}
	case reflect.Map:
		if !v.IsNil() {
			found[path] = v.Pointer()
		}
		for entries := v.MapRange(); entries.Next(); {
			memory(entries.Value(), fmt.Sprint(path, "[", entries.Key(), "]"), found)
		}
	}
	return found
}

func memoryOf(v *V) map[string]uintptr {
	return memory(reflect.ValueOf(v).Elem(), "V", make(map[string]uintptr))
}

func TestCopySharesNothing(t *testing.T) {
	values, v := of[V](t), full(2)
	given := memoryOf(&v)
	if got := len(given); got <= 30 {
		t.Fatalf("len(given) = %d, want more than 30", got)
	}
	copied := values.Copy(&v)
	adopted := v
	_, err := values.Adopt(&adopted, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*V{"Copy": &copied, "Adopt": &adopted} {
		if diff := cmp.Diff(full(2), *c); diff != "" {
			t.Fatalf("%s: *c mismatch (-want +got):\n%s", name, diff)
		}
		at := memoryOf(c)
		if len(at) != len(given) {
			t.Fatalf("len(at) = %d, want %d: %v", len(at), len(given), at)
		}
		for path, address := range at {
			if address == given[path] {
				t.Errorf("%s: %s is shared: address = %d, want another value than %d", name, path, address, given[path])
			}
		}
	}
	if diff := cmp.Diff(full(2), v); diff != "" {
		t.Fatalf("v mismatch (-want +got):\n%s", diff)
	}
}

func TestAdoptSharesEqualPartsAndCopiesTheRest(t *testing.T) {
	values, base := of[V](t), full(1)
	stored := memoryOf(&base)
	v := full(1)
	v.N[1].Port, v.Env["TIER"] = 8443, "back"
	given, want := memoryOf(&v), full(1)
	want.N[1].Port, want.Env["TIER"] = 8443, "back"
	same, err := values.Adopt(&v, &base)
	if err != nil {
		t.Fatal(err)
	}
	if same {
		t.Error("same = true, want false")
	}
	if diff := cmp.Diff(want, v); diff != "" {
		t.Errorf("v mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(full(1), base); diff != "" {
		t.Errorf("base mismatch (-want +got):\n%s", diff)
	}
	for path, address := range memoryOf(&v) {
		if address == given[path] {
			t.Errorf("%s is shared with the caller: address = %d, want another value than %d", path, address, given[path])
		}
		if got, want := stored[path] == address, path != "V.N" && path != "V.Env"; got != want {
			t.Errorf("%s: stored[path] == address = %v, want %v", path, got, want)
		}
	}
}

func TestEmptySliceStaysEmptyWithoutSpareCapacity(t *testing.T) {
	v := V{L: make([]int, 0, 4), N: make([]struct{ Port int }, 0, 4), Args: make([]string, 0, 4)}
	c := of[V](t).Copy(&v)
	if c.L == nil {
		t.Fatal("c.L = nil")
	}
	if c.N == nil {
		t.Fatal("c.N = nil")
	}
	if c.Args == nil {
		t.Fatal("c.Args = nil")
	}
	_, _, _ = append(c.L, 1), append(c.N, struct{ Port int }{1}), append(c.Args, "1")
	if got := v.L[:1][0]; got != 0 {
		t.Errorf("v.L[:1][0] = %d, want 0", got)
	}
	if got := v.N[:1][0]; got != (struct{ Port int }{}) {
		t.Errorf("v.N[:1][0] = %+v, want the zero value", got)
	}
	if got := v.Args[:1][0]; got != "" {
		t.Errorf(`v.Args[:1][0] = %q, want ""`, got)
	}
}

func TestCyclicValuePanics(t *testing.T) {
	values := of[V](t)
	var loop V
	loop.Tree = &loop
	const message = "store: copy: a value is nested more than 10000 deep at a plain_test.V; it must be a tree"
	panics := func(f func()) (why any) {
		defer func() { why = recover() }()
		f()
		return nil
	}
	if got := panics(func() { values.Copy(&loop) }); got != message {
		t.Errorf("Copy of a loop panics with %v, want %q", got, message)
	}
	adopted := loop
	if got := panics(func() { _, _ = values.Adopt(&adopted, nil) }); got != message {
		t.Errorf("Adopt of a loop panics with %v, want %q", got, message)
	}
	long := new(V)
	for range 10_000 {
		long = &V{Tree: long}
	}
	if got := panics(func() { values.Copy(long) }); got != nil {
		t.Errorf("Copy at the maximum depth panics with %v", got)
	}
	if got := panics(func() { values.Copy(&V{Tree: long}) }); got != message {
		t.Errorf("Copy beyond the maximum depth panics with %v, want %q", got, message)
	}
}

func TestAdoptedValueIsNotKeptAlive(t *testing.T) {
	values, given := of[V](t), full(1)
	tree := weak.Make(given.Tree)
	adopted := given
	_, err := values.Adopt(&adopted, nil)
	if err != nil {
		t.Fatal(err)
	}
	given = V{}
	runtime.GC() // one collection does not yet empty a sync.Pool
	if got := tree.Value(); got != nil {
		t.Errorf("tree.Value() = %+v, want nil", got)
	}
	runtime.KeepAlive(&given)
	runtime.KeepAlive(values)
}

func TestCopyAllocatesOnlyItsResult(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	numbers, lists := of[[4]int](t), of[struct{ Args, Env []string }](t)
	n, l := [4]int{1}, struct{ Args, Env []string }{[]string{"a"}, []string{"b"}}
	if got := testing.AllocsPerRun(100, func() { numbers.Copy(&n) }); got != 0 {
		t.Errorf("testing.AllocsPerRun = %v, want 0", got)
	}
	if got := testing.AllocsPerRun(100, func() { lists.Copy(&l) }); got > 2.0 {
		t.Errorf("testing.AllocsPerRun = %v, want at most 2.0: two slices", got)
	}
	next := l
	if got := testing.AllocsPerRun(100, func() { _, _ = lists.Adopt(&next, &l) }); got != 0 {
		t.Errorf("testing.AllocsPerRun = %v, want 0: all is shared", got)
	}
}
