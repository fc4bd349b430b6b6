package store

import (
	"fmt"
	"math"
	"reflect"
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
	// deepen turns v, a settable shallow copy, into a deep one.
	deepen func(v reflect.Value, depth int)

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
	p.deepen = func(v reflect.Value, depth int) {
		if v.IsNil() {
			return
		}
		to := reflect.New(t.Elem())
		to.Elem().Set(v.Elem())
		elem.deepenInside(to.Elem(), depth)
		v.Set(to)
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
	p.deepen = func(v reflect.Value, depth int) {
		if v.IsNil() {
			return
		}
		to := reflect.MakeSlice(t, v.Len(), v.Len())
		reflect.Copy(to, v)
		for i := 0; elem.deepen != nil && i < to.Len(); i++ {
			elem.deepenInside(to.Index(i), depth)
		}
		v.Set(to)
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
		p.deepen = func(v reflect.Value, depth int) {
			for i := range v.Len() {
				elem.deepen(v.Index(i), depth)
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
	p.deepen = func(v reflect.Value, depth int) {
		if v.IsNil() {
			return
		}
		to := reflect.MakeMapWithSize(t, v.Len())
		key, value := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		for entries := v.MapRange(); entries.Next(); {
			key.SetIterKey(entries)
			value.SetIterValue(entries)
			elem.deepenInside(value, depth)
			to.SetMapIndex(key, value)
		}
		v.Set(to)
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
	var deep []int // the fields that assignment does not copy
	for i := range fields {
		if shares(t.Field(i).Type) {
			deep = append(deep, i)
		}
	}
	if deep != nil {
		p.deepen = func(v reflect.Value, depth int) {
			for _, i := range deep {
				fields[i].deepen(v.Field(i), depth)
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

// deepenInside deepens what a pointer, a slice or a map leads to, one level further down.
func (p *plain) deepenInside(v reflect.Value, depth int) {
	if p.deepen == nil {
		return
	}
	if depth == maxDepth {
		panic(fmt.Sprintf("store: copy: a value is nested more than %d deep at a %s; it must be a tree", maxDepth, v.Type()))
	}
	p.deepen(v, depth+1)
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
