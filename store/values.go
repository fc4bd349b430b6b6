package store

import (
	"reflect"
	"sync"
)

// values copies and compares values of one type.
type values[T any] struct {
	plain *plain
	spare *sync.Pool // of *T, zero: places for a shallow copy, which would be allocated each time
}

func newValues[T any](p *plain) values[T] {
	return values[T]{p, &sync.Pool{New: func() any { return new(T) }}}
}

// copyOf returns a deep copy of a value that is stored.
func (c values[T]) copyOf(stored *T) T {
	if c.plain.deepen == nil {
		return *stored
	}
	to := c.shallow(stored)
	c.plain.deepen(reflect.ValueOf(to).Elem(), reflect.ValueOf(stored).Elem(), 0)
	v := *to
	c.release(to)
	return v
}

// deepen makes a deep copy of v, a shallow one that is to be stored.
func (c values[T]) deepen(v *T) {
	if c.plain.deepen == nil {
		return
	}
	from := c.shallow(v)
	c.plain.deepen(reflect.ValueOf(v).Elem(), reflect.ValueOf(from).Elem(), 0)
	c.release(from)
}

// adopt is deepen that shares with base, which is stored, what is equal. It returns whether all is.
func (c values[T]) adopt(v, base *T) (same bool) {
	if c.plain.deepen == nil {
		return c.equal(v, base)
	}
	from := c.shallow(v)
	same = c.plain.adopt(reflect.ValueOf(v).Elem(), reflect.ValueOf(from).Elem(), reflect.ValueOf(base).Elem())
	c.release(from)
	return same
}

func (c values[T]) equal(a, b *T) bool {
	return c.plain.equal(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem())
}

func (c values[T]) shallow(v *T) *T {
	spare := c.spare.Get().(*T)
	*spare = *v
	return spare
}

// release gives a place back. It holds nothing from then on.
func (c values[T]) release(spare *T) {
	var zero T
	*spare = zero
	c.spare.Put(spare)
}
