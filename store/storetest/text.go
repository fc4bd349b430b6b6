package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

// odd returns distinct valid names. Databases may mistake some of them for patterns, paths, or equal names.
func odd(limit int) []string {
	long := strings.Repeat("k", limit-1)
	return []string{
		"a", "A", "a ", " a", "a\t", "á", "a\u0301", "ａ", "ß", "ss", "İ", "i", "ı", "日本", "\U0001f600", "\ufffd", "\uffff", "\U0010ffff",
		"a/b", "a//b", "/", "/a", "a/", ".", "..", "../a", "a.b", "a.*", "*", ">", "a.>", "%", "_", "a%", "a_b", "%2F", "?", "#", "&",
		"'", "''", `"`, "`", `\`, `\'`, `\x00`, "$1", "?1", ":a", "'; DROP TABLE setpoint; --", "{}", "[]", "null", "NULL", "0", "00", "-1",
		"\x01", "\x7f", "\n", "\r\n", "\u2028", "\u200b", "\ufeff", "a\u200b", "__proto__", "<b>", "${a}",
		long + "1", long + "2",
	}
}

var textCases = []testCase{
	{"every valid key round-trips and is distinct", func(t testing.TB, db Database) {
		s, two := db.open("thing"), db.through(1, "thing")
		all := odd(backend.MaxKey)
		ctx, step := steady(t)
		w := watch(t, ctx, two, list(t, s).Version)
		for i, key := range all {
			step()
			if _, err := s.Create(patient(t), object{Key: key, Value: Thing{Size: i + 1}}); err != nil {
				t.Fatalf("create %.40q: %v", key, err)
			}
			e := w.next()
			if e.Type != informer.Added || e.Object.Key != key || e.Object.Value.Size != i+1 {
				t.Fatalf("the watch yields %v of %.40q, want Added of %.40q", e.Type, e.Object.Key, key)
			}
			if o := get(t, two, key); o.Key != key || o.Value.Size != i+1 {
				t.Fatalf("under %.40q is %.40q of size %d, want size %d", key, o.Key, o.Value.Size, i+1)
			}
		}
		keys(t, list(t, two), slices.Sorted(slices.Values(all))...)
		for _, key := range all {
			step()
			remove(t, s, key)
			if e := w.next(); e.Type != informer.Deleted || e.Object.Key != key {
				t.Fatalf("the watch yields %v of %.40q, want Deleted of %.40q", e.Type, e.Object.Key, key)
			}
		}
		keys(t, list(t, s))
	}},

	{"every valid kind is separate", func(t testing.TB, db Database) {
		for i, kind := range odd(backend.MaxKind) {
			o := create(t, db.open(kind), "web")
			o.Value.Size = i + 1
			update(t, db.open(kind), o)
		}
		for i, kind := range odd(backend.MaxKind) {
			if got := get(t, db.through(1, kind), "web").Value.Size; got != i+1 {
				t.Fatalf("kind %.40q holds what was written to kind number %d, and is number %d", kind, got, i+1)
			}
			keys(t, list(t, db.open(kind)), "web")
		}
	}},

	{"every string round-trips", func(t testing.TB, db Database) {
		s := db.open("thing")
		for i, text := range odd(64) {
			given := object{Key: fmt.Sprint(i), Value: Thing{Name: text, Tags: []string{text}, Labels: map[string]string{text: text}},
				Labels: map[string]string{text: text}, Finalizers: []string{text}, Owners: []store.OwnerRef{{Ref: store.Ref{Kind: text, Key: text, UID: text}}}}
			o, err := s.Create(patient(t), given)
			must(t, err)
			sameContent(t, "what Create returned", o, given)
			sameContent(t, "what Get returned", get(t, db.through(1, "thing"), o.Key), given)
			l, err := s.Select(patient(t), store.Selector{Labels: []store.Requirement{{Label: text, Values: []string{text}}}})
			must(t, err)
			keys(t, l, o.Key)
			o.Finalizers = nil
			remove(t, s, update(t, s, o).Key)
		}
	}},

	{"a key that cannot be stored is rejected by every call", func(t testing.TB, db Database) {
		s := db.open("thing")
		for what, key := range map[string]string{
			"empty": "", "not UTF-8": "a\xff", "NUL": "a\x00", "bytes": strings.Repeat("k", backend.MaxKey+1),
		} {
			_, errGet := s.Get(patient(t), key)
			_, errCreate := s.Create(patient(t), object{Key: key})
			_, errUpdate := s.Update(patient(t), object{Key: key})
			for op, err := range map[string]error{
				opGet: errGet, opCreate: errCreate, opUpdate: errUpdate, opDelete: errOf(s.Delete(patient(t), key)),
			} {
				refused(t, err, store.ErrInvalid, op, s, key)
				if !strings.Contains(err.Error(), what) {
					t.Fatalf("%s of a bad key: the error %q does not say %q", op, err, what)
				}
			}
		}
		keys(t, list(t, s))
	}},

	{"an invalid UTF-8 string is rejected or round-trips", func(t testing.TB, db Database) {
		s := db.open("thing")
		for i, given := range []object{
			{Value: Thing{Name: "a\xff"}}, {Value: Thing{Tags: []string{"ok", "\xc3"}}}, {Value: Thing{Labels: map[string]string{"a": "\x80"}}},
			{Value: Thing{Parts: []Part{{Name: "\xed\xa0\x80"}}}}, {Value: Thing{Name: "NUL \x00 is text"}},
			{Labels: map[string]string{"a": "\xff"}}, {Finalizers: []string{"\xff"}}, {Owners: []store.OwnerRef{{Ref: store.Ref{Kind: "\xff"}}}},
		} {
			given.Key = fmt.Sprint(i)
			o, err := s.Create(patient(t), given)
			if err != nil {
				refused(t, err, store.ErrInvalid, opCreate, s, given.Key)
				if _, err := s.Get(patient(t), given.Key); err == nil {
					t.Fatalf("a rejected object is stored")
				}
				continue
			}
			for _, got := range []object{o, get(t, db.through(1, "thing"), given.Key)} {
				if show := func(o object) string { return fmt.Sprintf("%+v %q %q %+v", o.Value, o.Labels, o.Finalizers, o.Owners) }; show(got) != show(given) {
					t.Fatalf("%q was stored as %q", show(given), show(got))
				}
			}
		}
	}},

	{"an empty kind cannot be opened", func(t testing.TB, db Database) {
		for _, kind := range []string{"", "a\xff", "a\x00", strings.Repeat("k", backend.MaxKind+1)} {
			if _, err := store.Open(db.Handles[0], kind, store.Config[Thing]{}); err == nil {
				t.Fatalf("the kind %.20q was opened", kind)
			}
		}
	}},
}
