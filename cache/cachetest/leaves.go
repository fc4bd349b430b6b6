package cachetest

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// leaf is a value without parts, and its path.
type leaf struct{ path, value string }

// leaves returns everything that can be reached from v, in an order that depends only on v.
func leaves(v any) []leaf {
	w := walker{seen: make(map[visit]bool)}
	w.walk("", reflect.ValueOf(v))
	return w.leaves
}

// walker walks through a value. It does not enter a value that it is already inside of, because a value may contain itself.
type walker struct {
	leaves []leaf
	seen   map[visit]bool
}

type visit struct {
	at  uintptr
	len int
	of  reflect.Type
}

func (w *walker) walk(path string, v reflect.Value) {
	if !v.IsValid() {
		w.add(path, "nil")
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if v.IsNil() {
			w.add(path, "nil")
			return
		}
		at := visit{at: v.Pointer(), of: v.Type()}
		if v.Kind() == reflect.Slice {
			at.len = v.Len()
		}
		if w.seen[at] {
			w.add(path, "itself")
			return
		}
		w.seen[at] = true
		defer delete(w.seen, at)
	}
	switch v.Kind() {
	case reflect.Pointer:
		w.walk(path, v.Elem())
	case reflect.Interface:
		if v.IsNil() {
			w.add(path, "nil")
			return
		}
		w.add(path+".(type)", v.Elem().Type().String())
		w.walk(path, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			w.walk(path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice {
			w.add("len("+path+")", fmt.Sprint(v.Len()))
		}
		for i := range v.Len() {
			w.walk(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case reflect.Map:
		w.walkMap(path, v)
	case reflect.String:
		w.add(path, fmt.Sprintf("%q", v.String()))
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		w.add(path, fmt.Sprintf("%#x", v.Pointer()))
	case reflect.Bool:
		w.add(path, fmt.Sprint(v.Bool()))
	case reflect.Float32, reflect.Float64:
		w.add(path, fmt.Sprint(v.Float()))
	case reflect.Complex64, reflect.Complex128:
		w.add(path, fmt.Sprint(v.Complex()))
	default: // not v itself, which may have a method that prints it
		if v.CanInt() {
			w.add(path, fmt.Sprint(v.Int()))
		} else {
			w.add(path, fmt.Sprint(v.Uint()))
		}
	}
}

func (w *walker) walkMap(path string, m reflect.Value) {
	type pair struct {
		key string
		v   reflect.Value
	}
	var pairs []pair
	for it := m.MapRange(); it.Next(); {
		k := walker{seen: make(map[visit]bool)}
		k.walk("", it.Key())
		var parts []string
		for _, l := range k.leaves {
			parts = append(parts, strings.TrimPrefix(l.path+" "+l.value, " "))
		}
		pairs = append(pairs, pair{strings.Join(parts, " "), it.Value()})
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(a.key, b.key) })
	w.add("len("+path+")", fmt.Sprint(m.Len()))
	for _, p := range pairs {
		w.walk(path+"["+p.key+"]", p.v)
	}
}

func (w *walker) add(path, value string) { w.leaves = append(w.leaves, leaf{path, value}) }

// diff lists the differences, one line for each path.
func diff(was, is []leaf) string {
	var b strings.Builder
	before, now := byPath(was), byPath(is)
	for _, l := range was {
		if v, ok := now[l.path]; !ok {
			fmt.Fprintf(&b, "\n\t%s is missing, was %s", l.path, l.value)
		} else if v != l.value {
			fmt.Fprintf(&b, "\n\t%s is %s, was %s", l.path, v, l.value)
		}
	}
	for _, l := range is {
		if _, ok := before[l.path]; !ok {
			fmt.Fprintf(&b, "\n\t%s is %s, was not there", l.path, l.value)
		}
	}
	return b.String()
}

func byPath(leaves []leaf) map[string]string {
	m := make(map[string]string, len(leaves))
	for _, l := range leaves {
		m[l.path] = l.value
	}
	return m
}
