package plain

import (
	"fmt"
	"math"
	"reflect"
	"time"
)

// maxDepth limits how many pointers, slices, and maps a value may nest. A value that contains itself reaches the limit, so that
// its copy ends with a message.
const maxDepth = 10_000

// plainType holds the functions that copy and compare values of one type of plain data.
//
// Invariants:
//  1. deepen is nil if and only if assignment makes a deep copy: see shares. A recursive type may lead back to itself, so deepen is
//     set before the types of the elements and the fields are visited.
//  2. After deepen(to, from), to shares no mutable memory with any other value.
//  3. equal is true for a value and its deep copy.
type plainType struct {
	// deepen turns to, a settable shallow copy of from, into a deep copy.
	deepen func(to, from reflect.Value, depth int)

	// fields are the fields of a struct; nil for any other type.
	fields []*plainType

	// equal reports whether two addressable values are the same to the last bit. A nil slice differs from an empty slice. Two
	// times are the same if they are the same instant at the same offset from UTC.
	equal func(a, b reflect.Value) bool
}

var timeType = reflect.TypeFor[time.Time]()

// typeOf returns the plainType of t, or false if t is not plain data. The map seen holds the types that were visited before, so that
// a recursive type ends.
func typeOf(t reflect.Type, seen map[reflect.Type]*plainType) (p *plainType, ok bool) {
	if p, ok := seen[t]; ok {
		return p, true
	}
	p = &plainType{}
	seen[t] = p
	if t == timeType {
		p.equal = equalTime // the only pointer of a time leads to its location, which is immutable
		return p, true
	}
	if p.known(t) {
		return p, true
	}
	ok = true
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
		ok = p.pointer(t, seen)
	case reflect.Slice:
		ok = p.slice(t, seen)
	case reflect.Array:
		ok = p.array(t, seen)
	case reflect.Map:
		ok = p.mapping(t, seen)
	case reflect.Struct:
		ok = p.structure(t, seen)
	default:
		ok = false
	}
	return p, ok
}

func (p *plainType) pointer(t reflect.Type, seen map[reflect.Type]*plainType) (ok bool) {
	var elem *plainType
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
	elem, ok = typeOf(t.Elem(), seen)
	return ok
}

func (p *plainType) slice(t reflect.Type, seen map[reflect.Type]*plainType) (ok bool) {
	var elem *plainType
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
		to.Grow(n) // reflect.MakeSlice and Set would also allocate a slice header
		to.SetLen(n)
		reflect.Copy(to, from)
		for i := 0; elem.deepen != nil && i < n; i++ {
			elem.deepenInside(to.Index(i), from.Index(i), depth)
		}
	}
	p.equal = func(a, b reflect.Value) bool {
		return a.IsNil() == b.IsNil() && a.Len() == b.Len() && elem.equalAll(a, b)
	}
	elem, ok = typeOf(t.Elem(), seen)
	return ok
}

func (p *plainType) array(t reflect.Type, seen map[reflect.Type]*plainType) (ok bool) {
	var elem *plainType
	if shares(t) {
		p.deepen = func(to, from reflect.Value, depth int) {
			for i := range to.Len() {
				elem.deepen(to.Index(i), from.Index(i), depth)
			}
		}
	}
	p.equal = func(a, b reflect.Value) bool { return elem.equalAll(a, b) }
	elem, ok = typeOf(t.Elem(), seen)
	return ok
}

func (p *plainType) mapping(t reflect.Type, seen map[reflect.Type]*plainType) (ok bool) {
	if !keepsKeys(t.Key()) {
		return false
	}
	var elem *plainType
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
	elem, ok = typeOf(t.Elem(), seen)
	return ok
}

func (p *plainType) structure(t reflect.Type, seen map[reflect.Type]*plainType) (ok bool) {
	fields := make([]*plainType, t.NumField())
	p.fields = fields
	var deep []int // indices of the fields for which assignment is not a deep copy
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
			return false
		}
		if fields[i], ok = typeOf(f.Type, seen); !ok {
			return false
		}
	}
	return true
}

// shares reports whether a value of type t and its shallow copy share mutable memory. The recursion ends: a type leads back to
// itself only through a pointer, a slice, or a map.
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

// adopt turns to, a settable shallow copy of from, into a deep copy that shares equal parts with base. It reports whether from
// and base are equal. Base must be immutable.
func (p *plainType) adopt(to, from, base reflect.Value) (same bool) {
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

// deepenInside calls deepen for an element of a pointer, a slice, or a map, one level further down.
func (p *plainType) deepenInside(to, from reflect.Value, depth int) {
	if p.deepen == nil {
		return
	}
	if depth == maxDepth {
		panic(fmt.Sprintf("store: copy: a value is nested more than %d deep at a %s; it must be a tree", maxDepth, from.Type()))
	}
	p.deepen(to, from, depth+1)
}

// equalAll compares two slices or arrays of one length, element by element.
func (p *plainType) equalAll(a, b reflect.Value) bool {
	for i := range a.Len() {
		if !p.equal(a.Index(i), b.Index(i)) {
			return false
		}
	}
	return true
}

// keepsKeys reports whether maps with keys of type t can be copied and compared. The copy of a pointer would be another key, and
// NaN does not equal itself.
func keepsKeys(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.String,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return true
	case reflect.Array:
		return keepsKeys(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); !f.IsExported() || !keepsKeys(f.Type) {
				return false
			}
		}
		return true
	}
	return false
}

func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

func equalTime(a, b reflect.Value) bool {
	x, y := a.Interface().(time.Time), b.Interface().(time.Time)
	_, east := x.Zone()
	_, eastToo := y.Zone()
	return x.Equal(y) && east == eastToo
}
