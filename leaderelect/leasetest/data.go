package leasetest

import (
	"bytes"
	"context"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// oddKeys are keys that a backend might confuse, escape wrongly, or take for something else.
var oddKeys = []string{
	"", " ", "a", "A", "a ", " a", "a/b", "a/", "/a", "/", "a%2fb", "a%b", "%", ".", "..", "../a", ".a", "a.", "a.lock",
	"a.lease", "a.tmp", "a\\b", "a:b", "a*", "a?", "a_", "a'b", `a"b`, "a;b", "a--", "$1", "{a}", "~", "a\nb", "a\x00b",
	"a\x00", "\xff\xfe", "ä", "a\u0308", "日本", strings.Repeat("k", 300), strings.Repeat("k", 300) + "l", strings.Repeat("K", 300),
}

var dataCases = []testCase{
	{"each key has its own record, for any bytes", func(t testing.TB, b Backend) {
		s := b.Store
		have := make(map[string]leaderelect.Entry)
		for _, k := range oddKeys {
			absent(t, s, k)
			have[k] = create(t, s, leaderelect.Entry{Key: k, Value: []byte("of " + k), Term: 1})
		}
		for i, k := range oddKeys {
			holds(t, s, have[k])
			if i%2 == 0 {
				have[k] = update(t, s, have[k], "again of "+k)
			}
		}
		for _, k := range oddKeys {
			holds(t, s, have[k])
		}
	}},

	{"a value is any bytes, from 0 to 64 KiB", func(t testing.TB, b Backend) {
		s := b.Store
		every := make([]byte, 256)
		for i := range every {
			every[i] = byte(i)
		}
		have := create(t, s, entry(""))
		for _, value := range []string{
			"\x00", "a\x00b\x00", "\n", "\r\n\r\n", " a ", `{"a": 1}`, `'"\`, "\xff\xfe", string(every),
			string(bytes.Repeat(every, 256)), "",
		} {
			have = update(t, s, have, value)
			holds(t, s, have)
		}
	}},

	{"a term is stored unchanged", func(t testing.TB, b Backend) {
		s := b.Store
		have := create(t, s, leaderelect.Entry{Key: key, Value: []byte("a")})
		for i, term := range []uint64{1, 2, 2, 1, math.MaxInt32 + 1, math.MaxInt64} {
			have.Term = term
			have = update(t, s, have, "a")
			holds(t, s, have)
			holds(t, s, create(t, s, leaderelect.Entry{Key: strconv.Itoa(i), Term: term}))
		}
	}},

	{"a value is copied on write and read", func(t testing.TB, b Backend) {
		s := b.Store
		scribble := func(b []byte) {
			for i := range b {
				b[i] = '#'
			}
		}
		in := entry("created")
		created, err := s.Create(context.Background(), in)
		if err != nil {
			t.Fatalf("Create of a new record: %v", err)
		}
		scribble(in.Value)
		stored(t, "Create", created, entry("created"))
		scribble(created.Value)
		want := entry("created")
		want.Version = created.Version
		holds(t, s, want)

		in = want
		in.Value = []byte("updated")
		updated, err := s.Update(context.Background(), in)
		if err != nil {
			t.Fatalf("Update of the current version: %v", err)
		}
		scribble(in.Value)
		stored(t, "Update", updated, entry("updated"))
		scribble(updated.Value)
		want = entry("updated")
		want.Version = updated.Version
		holds(t, s, want)

		got, err := s.Get(context.Background(), key)
		if err != nil {
			t.Fatalf("Get: %v", err)
		}
		scribble(got.Value)
		holds(t, s, want)

		if l, ok := s.(lister); ok {
			list, err := l.List(context.Background(), "")
			if err != nil || len(list) != 1 {
				t.Fatalf("List of a record returns %d, error %v", len(list), err)
			}
			scribble(list[0].Value)
			holds(t, s, want)
		}
		if w, ok := s.(leaderelect.Watcher); ok {
			scribble(first(t, w, key).Value)
			holds(t, s, want)
		}
	}},
}
