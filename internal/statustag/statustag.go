package statustag

import (
	"fmt"
	"reflect"
	"strings"
)

// Fields are the fields of a type that the tag marks: the path of each, for reflect's FieldByIndex. Nil means that the type has no
// status.
type Fields [][]int

// Of returns the status fields of t. The error names a field whose tag would be ignored.
func Of(t reflect.Type) (Fields, error) {
	inner := t
	for inner.Kind() == reflect.Pointer {
		inner = inner.Elem()
	}
	if inner.Kind() != reflect.Struct {
		return nil, nil
	}
	var fields Fields
	if err := fields.find(inner, inner.String(), nil, make(map[reflect.Type]bool)); err != nil {
		return nil, err
	}
	if len(fields) > 0 && inner != t {
		return nil, fmt.Errorf(`%s.%s: the tag store:"status" needs a kind of %s, not of %s`,
			inner, inner.FieldByIndex(fields[0]).Name, inner, t)
	}
	return fields, nil
}

// find appends the tagged fields of t, a struct at the given index below path, and of the structs that t embeds. seen has the types that it
// has visited behind embedded pointers.
func (s *Fields) find(t reflect.Type, path string, index []int, seen map[reflect.Type]bool) error {
	for i := range t.NumField() {
		f := t.Field(i)
		name, at := path+"."+f.Name, append(index[:len(index):len(index)], i)
		tagged, err := hasStatusTag(f.Tag)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		case tagged && !f.IsExported():
			return fmt.Errorf(`%s: the tag store:"status" is on an unexported field`, name)
		case tagged:
			*s = append(*s, at)
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			if err := s.find(f.Type, name, at, seen); err != nil {
				return err
			}
		case f.Anonymous && f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct && !seen[f.Type]:
			seen[f.Type] = true // a type may embed a pointer to itself
			var lost Fields
			if err := lost.find(f.Type.Elem(), name, nil, seen); err != nil {
				return err
			}
			if len(lost) > 0 {
				return fmt.Errorf(`%s.%s: the tag store:"status" is in a struct that is embedded by a pointer`,
					name, f.Type.Elem().FieldByIndex(lost[0]).Name)
			}
		}
	}
	return nil
}

// hasStatusTag reports whether a tag says `store:"status"`. It returns an error if the tag says anything else to the store, or would if it
// were well-formed.
func hasStatusTag(tag reflect.StructTag) (bool, error) {
	switch value, ok := tag.Lookup("store"); {
	case ok && value == "status":
		return true, nil
	case ok:
		return false, fmt.Errorf(`the tag is store:%q, and only store:"status" has a meaning`, value)
	case strings.Contains(string(tag), `store:"`), strings.Contains(string(tag), "store:status"):
		return false, fmt.Errorf("the tag %q is malformed", string(tag))
	}
	return false, nil
}

// Set copies the status of the value that from points to into the value that to points to. Both then share everything that the fields refer
// to.
func (s Fields) Set(to, from reflect.Value) {
	to, from = to.Elem(), from.Elem()
	for _, at := range s {
		to.FieldByIndex(at).Set(from.FieldByIndex(at))
	}
}
