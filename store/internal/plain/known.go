package plain

import (
	"maps"
	"reflect"
	"slices"
)

// known fills p without reflection if t is one of the most common types, and reports whether it did. The general code does the
// same by reflection and takes about three times as long.
func (p *plainType) known(t reflect.Type) bool {
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

func fillSlice[E comparable](p *plainType) {
	p.deepen = func(to, _ reflect.Value, _ int) {
		s := as[[]E](to)
		*s = slices.Clone(*s)
	}
	p.equal = func(a, b reflect.Value) bool {
		x, y := *as[[]E](a), *as[[]E](b)
		return (x == nil) == (y == nil) && slices.Equal(x, y)
	}
}

func fillMap[K, E comparable](p *plainType) {
	p.deepen = func(to, _ reflect.Value, _ int) {
		m := as[map[K]E](to)
		*m = maps.Clone(*m)
	}
	p.equal = func(a, b reflect.Value) bool {
		x, y := *as[map[K]E](a), *as[map[K]E](b)
		return (x == nil) == (y == nil) && maps.Equal(x, y)
	}
}

// as returns the address of v, which is addressable, and whose type is T or has T as its underlying type.
func as[T any](v reflect.Value) *T {
	if p, ok := v.Addr().Interface().(*T); ok {
		return p
	}
	return v.Addr().Convert(reflect.TypeFor[*T]()).Interface().(*T)
}
