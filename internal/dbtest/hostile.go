package dbtest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-go/setpoint/store/backend"
)

// Hostile returns strings that break code that treats them as anything but data.
func Hostile() []string {
	return []string{
		"'", "''", `"`, "`", `\`, `\'`, "'; DROP TABLE setpoint; --", `"; DROP TABLE setpoint; --`, "$1", "$$", "?", ":a", "%", "%%", "a%", "_",
		"*", ">", ".", "..", "a.b", "/", "//", "a/b", "/a/", "../a", "{}", "{schema}", "null", "NULL", " ", "a b", "\r\n", "é", "日本", "\u202e",
		"\x00", "a\x00b", "\x01", "\x7f", "\xff", "a\xffb", "\xed\xa0\x80", strings.Repeat("k", 64<<10),
	}
}

// HostileStrings checks that an empty database accepts any bytes as a kind, a key, a lease, a label, a value, and the prefix of a query.
// Each must be returned unchanged, or be refused with an error, and everything else must stay unchanged. The engine refuses some of these
// strings before they reach a backend.
func HostileStrings(t testing.TB, db backend.Backend) {
	t.Helper()
	ctx := t.Context()
	put := func(kind, key string, r backend.Record, fences ...backend.Fence) (backend.Record, error) {
		return db.Transact(ctx, kind, key, fences, func(backend.Record) (*backend.Record, error) { return &r, nil })
	}
	same := func(kind, key string, want backend.Record) {
		t.Helper()
		got := must[backend.Record](t)(db.Get(ctx, kind, key))
		if got.Key != key || got.Version != want.Version || string(got.Value) != string(want.Value) || !maps.Equal(got.Labels, want.Labels) {
			t.Errorf("%.40q %.40q is %.40q with labels %.40q, want %.40q with labels %.40q", kind, key, got.Value, got.Labels, want.Value, want.Labels)
		}
	}
	record := func(value string) backend.Record { return backend.Record{Meta: []byte("{}"), Value: []byte(value)} }
	witness := must[backend.Record](t)(put("app", "witness", record("1")))
	taken := map[string]backend.Record{"witness": witness} // of the kind app, by key
	for _, s := range Hostile() {
		if r, err := put("app", s, record("key "+s[:1])); err == nil {
			taken[s] = r
		}
		if r, err := put(s, "key", record("kind "+s[:1])); err == nil {
			same(s, "key", r)
		}
		if r, err := put("app", "labeled", backend.Record{Meta: []byte("{}"), Labels: map[string]string{s: s}}); err == nil {
			same("app", "labeled", r)
			taken["labeled"] = r
		}
		if r, err := put("app", "value", record(s)); err == nil {
			same("app", "value", r)
			taken["value"] = r
		}
		if r, err := put("app", "fenced", record("2"), backend.Fence{Lease: s, Term: 2}); err == nil {
			taken["fenced"] = r
			if _, err := put("app", "fenced", record("1"), backend.Fence{Lease: s, Term: 1}); !errors.Is(err, backend.ErrFenced) {
				t.Errorf("the lease %.40q refuses the term 1 after the term 2 with %v", s, err)
			}
		}
	}
	for key, r := range taken {
		same("app", key, r)
	}
	prefixes := append(Hostile(), "", "w")
	for _, prefix := range prefixes {
		var want []string
		for key := range taken {
			if strings.HasPrefix(key, prefix) {
				want = append(want, key)
			}
		}
		slices.Sort(want)
		got, err := keys(ctx, db, prefix)
		switch {
		case err == nil && !slices.Equal(got, want):
			t.Errorf("with prefix %.40q there are %.40q, want %.40q", prefix, got, want)
		case err != nil && len(want) > 0:
			t.Errorf("a list with prefix %.40q: %v", prefix, err)
		}
	}
	last := witness.Version
	for _, r := range taken {
		last = max(last, r.Version)
	}
	received := map[string]backend.Record{}
	for c, err := range db.Watch(ctx, "app", backend.Query{}, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Record.Key != "" {
			received[c.Record.Key] = c.Record
		}
		if c.Version >= last {
			break
		}
	}
	for key, r := range taken {
		if got := received[key]; got.Version != r.Version || string(got.Value) != string(r.Value) {
			t.Errorf("the watch yields %.40q of version %d of %.40q, want %.40q of version %d", got.Value, got.Version, key, r.Value, r.Version)
		}
	}
}

// keys returns the keys of the kind app that a list with a prefix shows.
func keys(ctx context.Context, db backend.Backend, prefix string) (keys []string, err error) {
	for page, err := range db.List(ctx, "app", backend.Query{Prefix: prefix}) {
		if err != nil {
			return nil, err
		}
		for _, r := range page.Records {
			keys = append(keys, r.Key)
		}
	}
	return keys, nil
}
