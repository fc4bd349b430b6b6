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
	"a\x00", "\xff\xfe", "\xff\xff", "ä", "Ä", "a\u0308", "日本",
	"a//b", "a+b", "a b",
	"Aa", "BB", "plumless", "buckeroo", "costarring", "liquid", // pairs with one hash: Java's, CRC-32, FNV-1a
	"a\n", "a\t", "1", "01", "1.0", "1e0", strings.Repeat("k", 300), strings.Repeat("k", 300) + "l", strings.Repeat("K", 300),
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

	{"long keys have their own records, or are refused", func(t testing.TB, b Backend) {
		for _, size := range []int{500, 1000, 2000, 5000} {
			var have []leaderelect.Entry
			long := strings.Repeat("0123456789", size/10)
			for _, k := range []string{long, long + "a", long + "b"} {
				e := leaderelect.Entry{Key: k, Value: []byte(k[size:]), Term: 1}
				got, err := b.Store.Create(context.Background(), e)
				if err != nil { // the store has a limit, and says so
					refused(t, "Create with a long key", err)
					continue
				}
				stored(t, "Create", got, e)
				have = append(have, got)
			}
			for _, e := range have {
				holds(t, b.Store, e)
			}
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
			"\ufeffa", "a\u0308", "\x00", "a\x00b\x00", "\n", "\r\n\r\n", " a ", `{"a": 1}`, `'"\`, "\xff\xfe", string(every),
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

	{"a large value is stored whole, or not at all", func(t testing.TB, b Backend) {
		whole := func(size int, have leaderelect.Entry) leaderelect.Entry {
			t.Helper()
			next := have
			next.Value = bytes.Repeat([]byte("0123456789abcdef"), size/16)
			ctx, cancel := context.WithTimeout(context.Background(), Patience)
			defer cancel()
			got, err := b.Store.Update(ctx, next)
			if err != nil { // the store has a limit, and says so
				refused(t, "Update to a large value", err)
				return oldOrNew(t, b.Store, have, next)
			}
			stored(t, "Update", got, next)
			holds(t, b.Store, got)
			return got
		}
		have := create(t, b.Store, entry("a"))
		for _, size := range []int{128 << 10, 256 << 10, 2 << 20} {
			have = whole(size, have)
		}
	}},

	{"a term above 2^63-1 is stored unchanged, or not at all", func(t testing.TB, b Backend) {
		for _, term := range []uint64{math.MaxInt64 + 1, math.MaxInt64 + 7, math.MaxUint64} {
			e := leaderelect.Entry{Key: strconv.FormatUint(term, 10), Value: []byte("a"), Term: term}
			got, err := b.Store.Create(context.Background(), e)
			if err != nil { // the store has a limit, and says so
				refused(t, "Create with a great term", err)
				absent(t, b.Store, e.Key)
				continue
			}
			stored(t, "Create", got, e)
			holds(t, b.Store, got)
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
