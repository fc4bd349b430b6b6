package plain

import (
	"reflect"
	"sync"
)

// Values copies and compares values of type T, which is plain data. All methods are safe for concurrent use.
type Values[T any] struct {
	typ   *plainType
	spare sync.Pool // of *T, zero: room for shallow copies, which would be allocated each time
}

// Of returns the Values of T, or false if T is not plain data.
func Of[T any]() (values *Values[T], ok bool) {
	typ, ok := typeOf(reflect.TypeFor[T](), make(map[reflect.Type]*plainType))
	if !ok {
		return nil, false
	}
	return &Values[T]{typ: typ, spare: sync.Pool{New: func() any { return new(T) }}}, true
}

// Copy returns a deep copy of v. It panics if v contains itself.
func (c *Values[T]) Copy(v *T) T {
	if c.typ.deepen == nil {
		return *v
	}
	to := c.shallow(v)
	c.typ.deepen(reflect.ValueOf(to).Elem(), reflect.ValueOf(v).Elem(), 0)
	deep := *to
	c.release(to)
	return deep
}

// Adopt makes v a deep copy of itself, so that the caller's value and v share no mutable memory. Fields that equal those of base are
// shared with base, which must be immutable. Adopt reports whether v equals base. If base is nil, Adopt shares nothing and
// reports false. It panics if v contains itself. The error, always nil, is for codecs, which have the same method.
func (c *Values[T]) Adopt(v, base *T) (same bool, err error) {
	if c.typ.deepen == nil {
		return base != nil && c.equal(v, base), nil
	}
	from := c.shallow(v)
	to := reflect.ValueOf(v).Elem()
	if base == nil {
		c.typ.deepen(to, reflect.ValueOf(from).Elem(), 0)
	} else {
		same = c.typ.adopt(to, reflect.ValueOf(from).Elem(), reflect.ValueOf(base).Elem())
	}
	c.release(from)
	return same, nil
}

func (c *Values[T]) equal(a, b *T) bool {
	return c.typ.equal(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem())
}

func (c *Values[T]) shallow(v *T) *T {
	spare := c.spare.Get().(*T)
	*spare = *v
	return spare
}

// release clears spare, so that it keeps nothing alive, and puts it back into the pool.
func (c *Values[T]) release(spare *T) {
	var zero T
	*spare = zero
	c.spare.Put(spare)
}
