package store

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"
)

// maxDepth is how many pointers, slices and maps may lie inside one another in one value. It is there to end, with a
// message, on a value that contains itself.
const maxDepth = 10_000

// plain is what the store knows about a type of plain data.
//
// Invariants:
//  1. deepen is nil if and only if assignment makes a deep copy: if t shares nothing. It is set before what the type leads
//     to is looked at, which may lead back to the type itself.
//  2. A value that deepen has seen shares no memory that can be changed with any value from before.
//  3. equal of a value and its deep copy is true.
type plain struct {
	// deepen turns to, a settable shallow copy of from, into a deep one.
	deepen func(to, from reflect.Value, depth int)

	// fields are those of a struct.
	fields []*plain

	// equal says whether two addressable values are the same to the last bit. A nil slice is not an empty one. Two times
	// are the same when they name the same instant at the same offset from UTC.
	equal func(a, b reflect.Value) bool
}

var timeType = reflect.TypeFor[time.Time]()

// plainOf returns the plain of t, or an error that names the first field below path that is not plain data. It finds
// the types that it is already in the middle of in seen.
func plainOf(t reflect.Type, path string, seen map[reflect.Type]*plain) (*plain, error) {
	if p, ok := seen[t]; ok {
		return p, nil
	}
	p := &plain{}
	seen[t] = p
	if t == timeType {
		p.equal = equalTime // a time has no pointer but to its location, which nobody can change
		return p, nil
	}
	if p.known(t) {
		return p, nil
	}
	var err error
	switch t.Kind() {
	case reflect.Bool, reflect.String,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		p.equal = reflect.Value.Equal
	case reflect.Float32, reflect.Float64:
		p.equal = func(a, b reflect.Value) bool { return sameBits(a.Float(), b.Float()) }
	case reflect.Complex64, reflect.Complex128:
		p.equal = func(a, b reflect.Value) bool {
			return sameBits(real(a.Complex()), real(b.Complex())) && sameBits(imag(a.Complex()), imag(b.Complex()))
		}
	case reflect.Pointer:
		err = p.pointer(t, path, seen)
	case reflect.Slice:
		err = p.slice(t, path, seen)
	case reflect.Array:
		err = p.array(t, path, seen)
	case reflect.Map:
		err = p.mapping(t, path, seen)
	case reflect.Struct:
		err = p.structure(t, path, seen)
	default:
		err = fmt.Errorf("%s: %s is not plain data", path, t)
	}
	return p, err
}

func (p *plain) pointer(t reflect.Type, path string, seen map[reflect.Type]*plain) error {
	var elem *plain
	p.deepen = func(to, from reflect.Value, depth int) {
		if from.IsNil() {
			return
		}
		to.Set(reflect.New(t.Elem()))
		to.Elem().Set(from.Elem())
		elem.deepenInside(to.Elem(), from.Elem(), depth)
	}
	p.equal = func(a, b reflect.Value) bool {
		return a.IsNil() == b.IsNil() && (a.IsNil() || elem.equal(a.Elem(), b.Elem()))
	}
	var err error
	elem, err = plainOf(t.Elem(), path, seen)
	return err
}

func (p *plain) slice(t reflect.Type, path string, seen map[reflect.Type]*plain) error {
	var elem *plain
	p.deepen = func(to, from reflect.Value, depth int) {
		n := from.Len()
		switch {
		case from.IsNil():
			return
		case n == 0:
			to.Set(reflect.MakeSlice(t, 0, 0))
			return
		}
		to.SetZero()
		to.Grow(n) // unlike a slice that is made and set, it has no header of its own to allocate
		to.SetLen(n)
		reflect.Copy(to, from)
		for i := 0; elem.deepen != nil && i < n; i++ {
			elem.deepenInside(to.Index(i), from.Index(i), depth)
		}
	}
	p.equal = func(a, b reflect.Value) bool {
		return a.IsNil() == b.IsNil() && a.Len() == b.Len() && elem.equalAll(a, b)
	}
	var err error
	elem, err = plainOf(t.Elem(), path+"[]", seen)
	return err
}

func (p *plain) array(t reflect.Type, path string, seen map[reflect.Type]*plain) error {
	var elem *plain
	if shares(t) {
		p.deepen = func(to, from reflect.Value, depth int) {
			for i := range to.Len() {
				elem.deepen(to.Index(i), from.Index(i), depth)
			}
		}
	}
	p.equal = func(a, b reflect.Value) bool { return elem.equalAll(a, b) }
	var err error
	elem, err = plainOf(t.Elem(), path+"[]", seen)
	return err
}

func (p *plain) mapping(t reflect.Type, path string, seen map[reflect.Type]*plain) error {
	if err := checkMapKey(t.Key(), path+"[key]"); err != nil {
		return err
	}
	var elem *plain
	p.deepen = func(to, from reflect.Value, depth int) {
		if from.IsNil() {
			return
		}
		to.Set(reflect.MakeMapWithSize(t, from.Len()))
		key, value, stored := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem(), reflect.New(t.Elem()).Elem()
		for entries := from.MapRange(); entries.Next(); {
			key.SetIterKey(entries)
			stored.SetIterValue(entries)
			value.Set(stored)
			elem.deepenInside(value, stored, depth)
			to.SetMapIndex(key, value)
		}
	}
	p.equal = func(a, b reflect.Value) bool {
		if a.IsNil() != b.IsNil() || a.Len() != b.Len() {
			return false
		}
		value, other := reflect.New(t.Elem()).Elem(), reflect.New(t.Elem()).Elem()
		for entries := a.MapRange(); entries.Next(); {
			there := b.MapIndex(entries.Key())
			if !there.IsValid() {
				return false
			}
			value.SetIterValue(entries)
			other.Set(there)
			if !elem.equal(value, other) {
				return false
			}
		}
		return true
	}
	var err error
	elem, err = plainOf(t.Elem(), path+"[]", seen)
	return err
}

func (p *plain) structure(t reflect.Type, path string, seen map[reflect.Type]*plain) error {
	fields := make([]*plain, t.NumField())
	p.fields = fields
	var deep []int // the fields that assignment does not copy
	for i := range fields {
		if shares(t.Field(i).Type) {
			deep = append(deep, i)
		}
	}
	if deep != nil {
		p.deepen = func(to, from reflect.Value, depth int) {
			for _, i := range deep {
				fields[i].deepen(to.Field(i), from.Field(i), depth)
			}
		}
	}
	p.equal = func(a, b reflect.Value) bool {
		for i, f := range fields {
			if !f.equal(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	}
	for i := range fields {
		f := t.Field(i)
		if !f.IsExported() {
			return fmt.Errorf("%s.%s: an unexported field is not plain data", path, f.Name)
		}
		var err error
		if fields[i], err = plainOf(f.Type, path+"."+f.Name, seen); err != nil {
			return err
		}
	}
	return nil
}

// shares says whether a value of type t and its shallow copy share memory that can be changed. It ends, because a type leads
// back to itself only through a pointer, a slice or a map.
func shares(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return true
	case reflect.Array:
		return shares(t.Elem())
	case reflect.Struct:
		for i := 0; t != timeType && i < t.NumField(); i++ {
			if shares(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}

// adopt makes to, a settable shallow copy of from, share with base what is equal, and nothing with any other value. It returns
// whether all is equal. Base must never change.
func (p *plain) adopt(to, from, base reflect.Value) (same bool) {
	if p.fields != nil {
		same = true
		for i, f := range p.fields {
			same = f.adopt(to.Field(i), from.Field(i), base.Field(i)) && same
		}
		return same
	}
	same = p.equal(from, base)
	switch {
	case p.deepen == nil:
	case same:
		to.Set(base)
	default:
		p.deepen(to, from, 0)
	}
	return same
}

// deepenInside deepens what a pointer, a slice or a map leads to, one level further down.
func (p *plain) deepenInside(to, from reflect.Value, depth int) {
	if p.deepen == nil {
		return
	}
	if depth == maxDepth {
		panic(fmt.Sprintf("store: copy: a value is nested more than %d deep at a %s; it must be a tree", maxDepth, from.Type()))
	}
	p.deepen(to, from, depth+1)
}

// equalAll compares two slices or arrays of the same length.
func (p *plain) equalAll(a, b reflect.Value) bool {
	for i := range a.Len() {
		if !p.equal(a.Index(i), b.Index(i)) {
			return false
		}
	}
	return true
}

// checkMapKey returns an error unless two equal keys are always found as one: a pointer would not survive a copy, and a
// NaN is not equal to itself.
func checkMapKey(t reflect.Type, path string) error {
	switch t.Kind() {
	case reflect.Bool, reflect.String,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return nil
	case reflect.Array:
		return checkMapKey(t.Elem(), path+"[]")
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() {
				return fmt.Errorf("%s.%s: an unexported field is not plain data", path, f.Name)
			}
			if err := checkMapKey(f.Type, path+"."+f.Name); err != nil {
				return err
			}
		}
		return nil
	default:
		return fmt.Errorf("%s: %s is not plain data for the key of a map", path, t)
	}
}

func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

func equalTime(a, b reflect.Value) bool {
	x, y := a.Interface().(time.Time), b.Interface().(time.Time)
	_, east := x.Zone()
	_, eastToo := y.Zone()
	return x.Equal(y) && east == eastToo
}

// known fills p for the types that values are most often made of, and says whether t is one of them. The code for all types
// does the same by reflection, about three times as slow.
func (p *plain) known(t reflect.Type) bool {
	switch {
	case t.Kind() == reflect.Slice && t.Elem() == reflect.TypeFor[string]():
		fillSlice[string](p)
	case t.Kind() == reflect.Slice && t.Elem() == reflect.TypeFor[byte]():
		fillSlice[byte](p)
	case t.Kind() == reflect.Slice && t.Elem() == reflect.TypeFor[int]():
		fillSlice[int](p)
	case t.Kind() == reflect.Map && t.Key() == reflect.TypeFor[string]() && t.Elem() == reflect.TypeFor[string]():
		fillMap[string, string](p)
	default:
		return false
	}
	return true
}

func fillSlice[E comparable](p *plain) {
	p.deepen = func(to, _ reflect.Value, _ int) {
		s := as[[]E](to)
		*s = slices.Clone(*s)
	}
	p.equal = func(a, b reflect.Value) bool {
		x, y := *as[[]E](a), *as[[]E](b)
		return (x == nil) == (y == nil) && slices.Equal(x, y)
	}
}

func fillMap[K, E comparable](p *plain) {
	p.deepen = func(to, _ reflect.Value, _ int) {
		m := as[map[K]E](to)
		*m = maps.Clone(*m)
	}
	p.equal = func(a, b reflect.Value) bool {
		x, y := *as[map[K]E](a), *as[map[K]E](b)
		return (x == nil) == (y == nil) && maps.Equal(x, y)
	}
}

// as returns v, an addressable value whose type is or is made from T, as what it is.
func as[T any](v reflect.Value) *T {
	if p, ok := v.Addr().Interface().(*T); ok {
		return p
	}
	return v.Addr().Convert(reflect.TypeFor[*T]()).Interface().(*T)
}
