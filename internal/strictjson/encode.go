package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"unicode/utf8"
)

var errNotUTF8 = errors.New("a string is not UTF-8")

// Encode returns the JSON of v. If v cannot be encoded, or contains a string that is not UTF-8, the error names the innermost part
// at fault, such as "main.Rates.ByZone[a][1].PerSecond".
func Encode[T any](v T) ([]byte, error) {
	b, err := json.Marshal(v)
	switch {
	case err != nil:
		return nil, badPart(&v, marshalError)
	case bytes.Contains(b, []byte(`\ufffd`)): // stands for a byte that is not UTF-8, or for U+FFFD in v
		if err := badPart(&v, textError); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Decode returns the value whose JSON is b.
func Decode[T any](b []byte) (v T, err error) {
	err = json.Unmarshal(b, &v)
	return v, err
}

// badPart finds the innermost part of v for which check returns an error. It returns that error with the path of the part.
func badPart[T any](v *T, check func(reflect.Value) error) error {
	part, path := reflect.ValueOf(v).Elem(), reflect.TypeFor[T]().String()
	err := check(part)
	for deeper := err != nil; deeper; {
		deeper = false
		for inner, at := range partsOf(part) {
			if e := check(inner); e != nil {
				part, path, err, deeper = inner, path+at, e, len(path) < 1000 // ends if a value contains itself
				break
			}
		}
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", path, err)
}

func marshalError(v reflect.Value) error {
	_, err := json.Marshal(v.Interface())
	return err
}

// textError returns an error if a string in v is not UTF-8.
func textError(v reflect.Value) error {
	if v.Kind() == reflect.String && !utf8.ValidString(v.String()) {
		return errNotUTF8
	}
	for inner := range partsOf(v) {
		if err := textError(inner); err != nil {
			return err
		}
	}
	return nil
}

// partsOf yields the parts of v that encoding/json encodes, and the path of each from v. A value with a method that encodes it has
// no parts.
func partsOf(v reflect.Value) iter.Seq2[reflect.Value, string] {
	return func(yield func(reflect.Value, string) bool) {
		if v.Kind() != reflect.Interface && v.IsValid() && encodesItself(v.Type()) {
			return
		}
		switch v.Kind() {
		case reflect.Pointer, reflect.Interface:
			if !v.IsNil() {
				yield(v.Elem(), "")
			}
		case reflect.Struct:
			for i := range v.NumField() {
				f := v.Type().Field(i)
				switch {
				case f.Tag.Get("json") == "-":
				case f.IsExported():
					if !yield(v.Field(i), "."+f.Name) {
						return
					}
				case f.Anonymous && f.Type.Kind() == reflect.Struct: // its exported fields are encoded, but it has no Interface
					for part, at := range partsOf(v.Field(i)) {
						if !yield(part, "."+f.Name+at) {
							return
						}
					}
				}
			}
		case reflect.Slice, reflect.Array:
			for i := range v.Len() {
				if !yield(v.Index(i), fmt.Sprintf("[%d]", i)) {
					return
				}
			}
		case reflect.Map:
			for entries := v.MapRange(); entries.Next(); {
				at := fmt.Sprintf("[%v]", entries.Key())
				if !yield(entries.Value(), at) || entries.Key().Kind() == reflect.String && !yield(entries.Key(), at) {
					return
				}
			}
		}
	}
}
