package store

import (
	"reflect"
	"sync"
)

// plainValues copies and compares values of one type of plain data. It implements [values].
type plainValues[T any] struct {
	plain *plain
	spare sync.Pool // of *T, zero: places for a shallow copy, which would be allocated each time
}

func newPlainValues[T any](p *plain) *plainValues[T] {
	return &plainValues[T]{plain: p, spare: sync.Pool{New: func() any { return new(T) }}}
}

// copyOf returns a deep copy of a value that is stored.
func (c *plainValues[T]) copyOf(stored *T) T {
	if c.plain.deepen == nil {
		return *stored
	}
	to := c.shallow(stored)
	c.plain.deepen(reflect.ValueOf(to).Elem(), reflect.ValueOf(stored).Elem(), 0)
	v := *to
	c.release(to)
	return v
}

// adopt makes v, a shallow copy, a deep one, that shares with base, which is stored, what is equal. It reports whether all
// is. It never fails: a type of plain data can be copied.
func (c *plainValues[T]) adopt(v, base *T) (same bool, err error) {
	if c.plain.deepen == nil {
		return base != nil && c.equal(v, base), nil
	}
	from := c.shallow(v)
	to := reflect.ValueOf(v).Elem()
	if base == nil {
		c.plain.deepen(to, reflect.ValueOf(from).Elem(), 0)
	} else {
		same = c.plain.adopt(to, reflect.ValueOf(from).Elem(), reflect.ValueOf(base).Elem())
	}
	c.release(from)
	return same, nil
}

func (c *plainValues[T]) equal(a, b *T) bool {
	return c.plain.equal(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem())
}

func (c *plainValues[T]) shallow(v *T) *T {
	spare := c.spare.Get().(*T)
	*spare = *v
	return spare
}

// release gives a place back. It holds nothing from then on.
func (c *plainValues[T]) release(spare *T) {
	var zero T
	*spare = zero
	c.spare.Put(spare)
}
