package simtest

import (
	"reflect"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/internal/strictjson"
)

// maxValues is the maximum number of values of a type that are remembered.
const maxValues = 1000

// decodedValues are the values that were decoded before. The zero value has none. Its methods may be called by several goroutines concurrently.
type decodedValues struct{ byType sync.Map } // of reflect.Type and *valuesOf[T]

// valuesOf are the values of type T.
type valuesOf[T any] struct {
	mu sync.Mutex
	// mu guards the following.
	byText map[string]T
}

// codecOf returns a codec of T that remembers values in all. It returns nil if the values of T cannot be shared, or have methods: then the
// default codec has to do.
func codecOf[T any](all *decodedValues) (encode func(T) ([]byte, error), decode func([]byte) (T, error)) {
	t := reflect.TypeFor[T]()
	of, ok := all.byType.Load(t)
	if !ok {
		if !isFlat(t) {
			return nil, nil
		}
		of, _ = all.byType.LoadOrStore(t, &valuesOf[T]{byText: make(map[string]T)})
	}
	return strictjson.Encode[T], of.(*valuesOf[T]).decode
}

func (o *valuesOf[T]) decode(b []byte) (T, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if v, ok := o.byText[string(b)]; ok {
		return v, nil
	}
	v, err := strictjson.Decode[T](b)
	if err == nil {
		if len(o.byText) == maxValues {
			clear(o.byText)
		}
		o.byText[string(b)] = v
	}
	return v, err
}

// isFlat reports whether a copy of a value of type t shares no mutable memory with it, and no method encodes or decodes it.
func isFlat(t reflect.Type) bool {
	if t == reflect.TypeFor[time.Time]() {
		return true
	}
	if t.NumMethod() > 0 || reflect.PointerTo(t).NumMethod() > 0 {
		return false
	}
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	case reflect.Array:
		return isFlat(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); !f.IsExported() || !isFlat(f.Type) {
				return false
			}
		}
		return true
	}
	return false
}
