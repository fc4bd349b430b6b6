package strictjson

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
)

// Check returns an error unless encoding/json preserves every value of type t through encoding and decoding. The error names the first
// field that would be lost, with its path from t. Fields with the tag json:"-" are allowed.
func Check(t reflect.Type) error {
	return checkType(t, t.String(), make(map[reflect.Type]bool))
}

// checkType implements Check for the type t at path. The map seen holds the types that were visited before, so that a recursive type
// ends.
func checkType(t reflect.Type, path string, seen map[reflect.Type]bool) error {
	if seen[t] {
		return nil
	}
	seen[t] = true
	if encodesItself(t) && decodesItself(t) {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return checkType(t.Elem(), path, seen)
	case reflect.Slice, reflect.Array:
		return checkType(t.Elem(), path+"[]", seen)
	case reflect.Map:
		if err := checkKey(t.Key(), path+"[key]"); err != nil {
			return err
		}
		return checkType(t.Elem(), path+"[]", seen)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			switch {
			case f.Tag.Get("json") == "-":
				continue
			case !f.IsExported() && !(f.Anonymous && f.Type.Kind() == reflect.Struct):
				return fmt.Errorf("%s.%s: an unexported field is not plain data", path, f.Name)
			}
			if err := checkType(f.Type, path+"."+f.Name, seen); err != nil {
				return err
			}
		}
		return nil
	case reflect.Chan, reflect.Func, reflect.UnsafePointer, reflect.Complex64, reflect.Complex128:
		return fmt.Errorf("%s: %s is not plain data", path, t)
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return fmt.Errorf("%s: %s is not plain data", path, t)
		}
	}
	return nil
}

// checkKey implements Check for the key of a map.
func checkKey(t reflect.Type, path string) error {
	switch t.Kind() {
	case reflect.String,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return nil
	}
	if encodesItself(t) && decodesItself(t) {
		return nil
	}
	return fmt.Errorf("%s: %s is not plain data for the key of a map", path, t)
}

// encodesItself reports whether t has a method that encodes its values.
func encodesItself(t reflect.Type) bool {
	for _, t := range []reflect.Type{t, reflect.PointerTo(t)} {
		if t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
			return true
		}
	}
	return false
}

// decodesItself reports whether t has a method that decodes its values.
func decodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}
