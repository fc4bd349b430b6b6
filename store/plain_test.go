package store_test

import (
	"context"
	"fmt"
	oldrand "math/rand"
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/quick"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/store"
)

// Tree leads back to itself in every way that it can.
type Tree struct {
	Name     string
	Left     *Tree
	Children []Tree
	ByName   map[string]Tree
	Pair     [2]*Tree
	Nest     Nest
}

// Nest leads back to itself from inside a struct.
type Nest []struct{ Inner Nest }

// Graph leads back to itself from inside a struct and an array that it has only through a slice and a map.
type Graph struct {
	Name  string
	Edges []Edge
	Pairs map[string][2]Graph
}

type Edge struct {
	To     Graph
	Weight int
}

// Everything has every kind of plain data.
type Everything struct {
	B     bool
	I     int64
	U     uint8
	P     uintptr
	F     float64
	C     complex64
	S     string
	T     time.Time
	A     [2]int
	AP    [2]*int
	Raw   []byte
	L     []string
	LL    [][]int
	M     map[string]int
	MM    map[string]map[string][]int
	MK    map[[2]Key]*int
	Ptr   *string
	PP    **string
	Tree  Tree
	Graph Graph
	Env   map[string]string
	Named struct {
		Args Args
		Env  Env
		Raw  Raw
	}
	Ints []int
	Embedded
}

// Types that are made from those of which most values are, with names of their own.
type (
	Args []string
	Env  map[string]string
	Raw  []byte
)

type Key struct {
	Zone string
	Rack int
}

type Embedded struct{ Note *string }

func TestPlainDataCanBeStored(t *testing.T) {
	db := must(store.NewMemory(store.MemoryConfig{}))
	check := func(name string, err error) {
		t.Helper()
		assert.NoError(t, err, name)
	}
	_, err := store.Open[int](db, "int", store.Config[int]{})
	check("int", err)
	_, err = store.Open[time.Time](db, "time", store.Config[time.Time]{})
	check("time.Time", err)
	_, err = store.Open[[]map[string]*Tree](db, "trees", store.Config[[]map[string]*Tree]{})
	check("trees", err)
	_, err = store.Open[Everything](db, "everything", store.Config[Everything]{})
	check("Everything", err)
	_, err = store.Open[struct{}](db, "nothing", store.Config[struct{}]{})
	check("struct{}", err)
}

func TestNonPlainDataIsNamed(t *testing.T) {
	type hidden struct{ Shown, hidden int }
	type timeLike time.Time
	type deep struct {
		Spec struct {
			Ports []struct{ ByName map[string]*hidden }
		}
	}
	for _, c := range []struct {
		open func(*store.Memory) error
		want string
	}{
		{opens[error], "error"},
		{opens[chan int], "chan int"},
		{opens[unsafe.Pointer], "unsafe.Pointer"},
		{opens[struct{ F func() }], ".F: func() is not plain data"},
		{opens[struct{ A []error }], ".A[]: error is not plain data"},
		{opens[hidden], "store_test.hidden.hidden: an unexported field"},
		{opens[deep], "store_test.deep.Spec.Ports[].ByName[].hidden: an unexported field"},
		{opens[struct{ hidden }], ".hidden: an unexported field"},
		{opens[timeLike], "store_test.timeLike.wall: an unexported field"},
		{opens[map[*int]int], "map[*int]int[key]: *int is not plain data for the key of a map"},
		{opens[map[float64]int], "[key]: float64"},
		{opens[map[struct{ A [1]any }]int], "[key]: struct { A [1]interface {} } is not plain data for the key of a map"},
		{opens[map[string]chan int], "[]: chan int"},
		{opens[[3]*func()], "[]: func()"},
		{opens[struct {
			Next *Tree
			Bad  func()
		}], ".Bad: func()"},
		{opens[onlyEncodes], "store_test.onlyEncodes.Done: chan int"},
		{opens[onlyDecodes], "store_test.onlyDecodes.Done: chan int"},
		{opens[map[onlyEncodes]int], "[key]: store_test.onlyEncodes is not plain data for the key of a map"},
		{opens[map[onlyDecodes]int], "[key]: store_test.onlyDecodes is not plain data for the key of a map"},
	} {
		err := c.open(must(store.NewMemory(store.MemoryConfig{})))
		var e *store.Error
		if assert.ErrorAs(t, err, &e, c.want) {
			assert.ErrorContains(t, err, c.want)
			assert.Equal(t, "open", e.Op)
		}
	}
}

// onlyEncodes and onlyDecodes know one direction each, so values do not survive a round trip.
type (
	onlyEncodes struct{ Done chan int }
	onlyDecodes struct{ Done chan int }
)

func (onlyEncodes) MarshalText() ([]byte, error) { return nil, nil }
func (*onlyDecodes) UnmarshalText([]byte) error  { return nil }

func opens[T any](db *store.Memory) error {
	_, err := store.Open[T](db, "kind", store.Config[T]{})
	return err
}

// some returns a random value with everything in it.
func some(t *testing.T, r *rand.Rand) Everything {
	t.Helper()
	var random func(v reflect.Value, depth int)
	random = func(v reflect.Value, depth int) {
		switch {
		case v.Type() == reflect.TypeFor[time.Time]():
			v.Set(reflect.ValueOf(time.Unix(r.Int64N(1e9), r.Int64N(1e9)).UTC()))
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				random(v.Field(i), depth)
			}
		case v.Kind() == reflect.Array:
			for i := range v.Len() {
				random(v.Index(i), depth)
			}
		case v.Kind() == reflect.Pointer && depth < 5:
			v.Set(reflect.New(v.Type().Elem()))
			random(v.Elem(), depth+2)
		case v.Kind() == reflect.Slice && depth < 5:
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			random(v.Index(0), depth+3)
			random(v.Index(1), depth+3)
		case v.Kind() == reflect.Map && depth < 5:
			v.Set(reflect.MakeMap(v.Type()))
			key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			random(key, depth)
			random(elem, depth+3)
			v.SetMapIndex(key, elem)
		case v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice || v.Kind() == reflect.Map:
		default:
			basic, ok := quick.Value(v.Type(), testRand(r))
			require.True(t, ok, v.Type())
			v.Set(basic)
		}
	}
	var e Everything
	random(reflect.ValueOf(&e).Elem(), 0)
	return e
}

// testRand is r for package quick, which knows only the elder package.
func testRand(r *rand.Rand) *oldrand.Rand { return oldrand.New(oldrand.NewSource(r.Int64())) }

// spoil changes, in turn, each thing that can be changed through v without assigning to v, and calls check after each.
func spoil(v reflect.Value, path string, check func(path string)) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			spoil(v.Field(i), path+"."+v.Type().Field(i).Name, check)
		}
	case reflect.Array:
		for i := range v.Len() {
			spoil(v.Index(i), fmt.Sprint(path, "[", i, "]"), check)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			spoil(v.Elem(), path+"*", check)
			v.Elem().SetZero()
			check(path + "*")
		}
	case reflect.Slice:
		for i := range v.Len() {
			spoil(v.Index(i), fmt.Sprint(path, "[", i, "]"), check)
			v.Index(i).SetZero()
			check(fmt.Sprint(path, "[", i, "]"))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			spoil(v.MapIndex(key), fmt.Sprint(path, "[", key, "]"), check)
		}
		v.Clear()
		check(path)
	}
}

func TestStoredValuesAreNotShared(t *testing.T) {
	everythings := open[Everything](t, must(store.NewMemory(store.MemoryConfig{})), "everything")
	for n := range effort(1, 3) {
		key := fmt.Sprint(n)
		given := some(t, rand.New(rand.NewPCG(uint64(n), 2)))
		want := some(t, rand.New(rand.NewPCG(uint64(n), 2))) // made anew: it shares nothing, whatever the store does
		created, err := everythings.Create(t.Context(), store.Object[Everything]{Key: key, Value: given})
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(given, created.Value))
		spoiled := 0
		intact := func(path string) {
			spoiled++
			got, err := everythings.Get(context.Background(), key)
			require.NoError(t, err)
			if !reflect.DeepEqual(want, got.Value) {
				t.Fatalf("%s was changed: %s", path, cmp.Diff(want, got.Value))
			}
			if !reflect.DeepEqual(want, created.Value) {
				t.Fatalf("%s was changed in the result of Create: %s", path, cmp.Diff(want, created.Value))
			}
		}
		spoil(reflect.ValueOf(&given).Elem(), "given", intact)
		got, err := everythings.Get(t.Context(), key)
		require.NoError(t, err)
		spoil(reflect.ValueOf(&got.Value).Elem(), "got", intact)
		require.Greater(t, spoiled, 50, "a test that changes nothing proves nothing")
	}
}

func TestEmptySliceStaysNonNilWithoutSpareCapacity(t *testing.T) {
	type V struct {
		Names  []string
		Places []struct{ N int }
	}
	vs := open[V](t, must(store.NewMemory(store.MemoryConfig{})), "v")
	created, err := vs.Create(t.Context(), store.Object[V]{Key: "a", Value: V{make([]string, 0, 4), make([]struct{ N int }, 0, 4)}})
	require.NoError(t, err)
	a, err := vs.Get(t.Context(), "a")
	require.NoError(t, err)
	for _, o := range []store.Object[V]{created, a} {
		require.NotNil(t, o.Value.Names)
		require.NotNil(t, o.Value.Places)
	}
	first, second := append(created.Value.Places, struct{ N int }{1}), append(a.Value.Places, struct{ N int }{2})
	assert.Equal(t, []int{1, 2}, []int{first[0].N, second[0].N})
	names, others := append(created.Value.Names, "x"), append(a.Value.Names, "y")
	assert.Equal(t, []string{"x", "y"}, []string{names[0], others[0]})
}

func TestUpdatedValuesAreNotShared(t *testing.T) {
	everythings := open[Everything](t, must(store.NewMemory(store.MemoryConfig{})), "everything")
	for n := range effort(2, 4) {
		key := fmt.Sprint(n)
		value := func(seed uint64) Everything { return some(t, rand.New(rand.NewPCG(uint64(n), seed))) }
		created, err := everythings.Create(t.Context(), store.Object[Everything]{Key: key, Value: value(5)})
		require.NoError(t, err)
		given, want := value(6), value(6) // all differs
		if n%2 == 0 {
			given, want = created.Value, value(5) // one number does
		}
		given.I, want.I = given.I+1, want.I+1
		before, err := everythings.Get(t.Context(), key)
		require.NoError(t, err)
		next := created
		next.Value = given
		updated, err := everythings.Update(t.Context(), next)
		require.NoError(t, err)
		spoiled := 0
		intact := func(path string) {
			spoiled++
			got, err := everythings.Get(context.Background(), key)
			require.NoError(t, err)
			if !reflect.DeepEqual(want, got.Value) {
				t.Fatalf("%s was changed: %s", path, cmp.Diff(want, got.Value))
			}
		}
		spoil(reflect.ValueOf(&given).Elem(), "given", intact)
		spoil(reflect.ValueOf(&before.Value).Elem(), "read before", intact)
		require.Empty(t, cmp.Diff(want, updated.Value))
		spoil(reflect.ValueOf(&updated.Value).Elem(), "returned", intact)
		require.Greater(t, spoiled, 50)
	}
}

func TestUpdateIsWrittenOnlyIfChanged(t *testing.T) {
	everythings := open[Everything](t, must(store.NewMemory(store.MemoryConfig{})), "everything")
	r := rand.New(rand.NewPCG(3, 4))
	stored, err := everythings.Create(t.Context(), store.Object[Everything]{Key: "x", Value: some(t, r)})
	require.NoError(t, err)
	again, err := everythings.Update(t.Context(), stored)
	require.NoError(t, err)
	require.Equal(t, stored.Version, again.Version)

	changes := 0
	next, err := everythings.Get(t.Context(), "x")
	require.NoError(t, err)
	spoil(reflect.ValueOf(&next.Value).Elem(), "x", func(path string) {
		want := next.Version
		if !reflect.DeepEqual(stored.Value, next.Value) { // what is cleared may have been clear
			want++
			changes++
		}
		got, err := everythings.Update(context.Background(), next)
		require.NoError(t, err)
		require.Equal(t, want, got.Version, path)
		next.Version = got.Version
		stored, err = everythings.Get(context.Background(), "x")
		require.NoError(t, err)
	})
	require.Greater(t, changes, 30)
}

func TestEmptyOwnersAndFinalizersAreNil(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{})
	o, err := apps.Create(t.Context(), object{Key: "web", Owners: []store.OwnerRef{}, Finalizers: []string{}})
	require.NoError(t, err)
	assert.Nil(t, o.Owners)
	assert.Nil(t, o.Finalizers)
	o.Owners, o.Finalizers = []store.OwnerRef{}, []string{}
	after, err := apps.Update(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, o.Version, after.Version)
}

func TestCyclicValuePanicsAndWritesNothing(t *testing.T) {
	db := must(store.NewMemory(store.MemoryConfig{}))
	trees := open[Tree](t, db, "tree")
	loop := Tree{Name: "loop"}
	loop.Left = &loop
	assert.PanicsWithValue(t, "store: copy: a value is nested more than 10000 deep at a store_test.Tree; it must be a tree",
		func() { _, _ = trees.Create(t.Context(), store.Object[Tree]{Key: "x", Value: loop}) })
	l, err := trees.List(t.Context())
	require.NoError(t, err)
	assert.Empty(t, l.Items)

	type Maps map[string]Maps
	self := Maps{}
	self["self"] = self
	assert.Panics(t, func() {
		_, _ = open[Maps](t, db, "maps").Create(t.Context(), store.Object[Maps]{Key: "x", Value: self})
	})

	var long *Tree
	for range 9000 {
		long = &Tree{Left: long}
	}
	o, err := trees.Create(t.Context(), store.Object[Tree]{Key: "long", Value: *long})
	require.NoError(t, err)
	n := 0
	for at := &o.Value; at != nil; at = at.Left {
		n++
	}
	assert.Equal(t, 9000, n)
}
