package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

// put writes a record as is.
func put(t testing.TB, b backend.Backend, kind, key string, next backend.Record) backend.Record {
	t.Helper()
	r, err := b.Transact(patient(t), kind, key, nil, func(backend.Record) (*backend.Record, error) { return &next, nil })
	must(t, err)
	return r
}

// sameRecord fails unless two records have the same content. Empty and missing labels are the same.
func sameRecord(t testing.TB, what string, got, want backend.Record) {
	t.Helper()
	switch {
	case got.Key != want.Key:
		t.Fatalf("%s: the key is %q, want %q", what, got.Key, want.Key)
	case got.Deleted != want.Deleted:
		t.Fatalf("%s: Deleted is %t, want %t", what, got.Deleted, want.Deleted)
	case !maps.Equal(got.Labels, want.Labels):
		t.Fatalf("%s: the labels are %q, want %q", what, got.Labels, want.Labels)
	case (got.Before == nil) != (want.Before == nil) || !maps.Equal(got.Before, want.Before):
		t.Fatalf("%s: the labels before are %#v, want %#v", what, got.Before, want.Before)
	case !bytes.Equal(got.Meta, want.Meta):
		t.Fatalf("%s: Meta is %q, want %q", what, got.Meta, want.Meta)
	case !bytes.Equal(got.Value, want.Value):
		t.Fatalf("%s: Value is %q, want %q", what, got.Value, want.Value)
	case want.Version != 0 && got.Version != want.Version:
		t.Fatalf("%s: the version is %d, want %d", what, got.Version, want.Version)
	}
}

// records lists the records of a kind, and fails unless all pages have one version.
func records(t testing.TB, b backend.Backend, kind string, q backend.Query) ([]backend.Record, informer.Version) {
	t.Helper()
	var all []backend.Record
	var version informer.Version
	pages := 0
	for page, err := range b.List(patient(t), kind, q) {
		must(t, err)
		if pages++; pages > 1 && page.Version != version {
			t.Fatalf("page %d of a list is of version %d, those before of %d", pages, page.Version, version)
		}
		version = page.Version
		all = append(all, page.Records...)
	}
	if pages == 0 {
		t.Fatalf("a list has no page")
	}
	return all, version
}

// changes reads a watch until it has yielded n changes.
func changes(t testing.TB, b backend.Backend, kind string, q backend.Query, after informer.Version, n int) []backend.Change {
	t.Helper()
	var all []backend.Change
	for c, err := range b.Watch(patient(t), kind, q, after) {
		must(t, err)
		if c.Record.Key == "" {
			continue
		}
		if all = append(all, c); len(all) == n {
			break
		}
	}
	if len(all) < n {
		t.Fatalf("the watch yielded %d changes and stopped, want %d", len(all), n)
	}
	return all
}

// backendCases are about records, without the engine.
var backendCases = []testCase{
	{"a record round-trips exactly", func(t testing.TB, db Database) {
		b := db.Handles[0]
		for i, r := range []backend.Record{
			{Value: []byte{}, Meta: []byte("{}")},
			{Value: []byte{0, 1, 0xff, 0xfe, '\\', '"', '\'', '\n', 0}, Meta: []byte(`{"a":"\u0000 \ufffd é"}`)},
			{Value: bytes.Repeat([]byte{0}, 10_000), Meta: []byte("{ }")},
			{Value: []byte("1"), Meta: []byte("{}"), Labels: map[string]string{"tier": "front", "é": "", "a b": "'%_*"}},
			{Value: []byte("1"), Meta: []byte("{}"), Labels: map[string]string{"tier": "back"}, Before: map[string]string{"tier": "front"}},
			{Value: []byte("1"), Meta: []byte("{}"), Before: map[string]string{"tier": "back"}},
			{Value: []byte("1"), Meta: []byte("{}"), Labels: map[string]string{"tier": "front"}, Before: map[string]string{}},
			{Value: []byte("last"), Meta: []byte("{}"), Deleted: true},
		} {
			_, from := records(t, b, "raw", backend.Query{})
			r.Key = "web"
			written := put(t, b, "raw", "web", r)
			if written.Version <= from {
				t.Fatalf("record %d has version %d, after a list of version %d", i, written.Version, from)
			}
			r.Version = written.Version
			sameRecord(t, fmt.Sprintf("what Transact returned of record %d", i), written, r)
			for n, h := range db.Handles {
				got, err := h.Get(patient(t), "raw", "web")
				must(t, err)
				sameRecord(t, fmt.Sprintf("what Get returned of record %d through handle %d", i, n), got, r)
				c := changes(t, h, "raw", backend.Query{}, from, 1)[0]
				sameRecord(t, fmt.Sprintf("what a watch told of record %d through handle %d", i, n), c.Record, r)
				l, _ := records(t, h, "raw", backend.Query{})
				if r.Deleted {
					if len(l) != 0 {
						t.Fatalf("a list shows the tombstone %q", l[0].Key)
					}
					continue
				}
				if len(l) != 1 {
					t.Fatalf("a list shows %d records, want 1", len(l))
				}
				sameRecord(t, fmt.Sprintf("what List returned of record %d through handle %d", i, n), l[0], r)
			}
		}
	}},

	{"decide receives nothing, the record, or its tombstone", func(t testing.TB, db Database) {
		one, two := db.Handles[0], db.Handles[len(db.Handles)-1]
		have := func(b backend.Backend) (r backend.Record) {
			_, err := b.Transact(patient(t), "raw", "web", nil, func(have backend.Record) (*backend.Record, error) {
				r = have
				return nil, nil
			})
			must(t, err)
			return r
		}
		if r := have(one); r.Version != 0 || r.Deleted || r.Value != nil {
			t.Fatalf("decide receives %+v of a key that was never written", r)
		}
		written := put(t, one, "raw", "web", backend.Record{Meta: []byte("{}"), Value: []byte("1")})
		sameRecord(t, "what decide is given", have(two), written)
		gone := put(t, two, "raw", "web", backend.Record{Meta: []byte("{}"), Value: []byte("2"), Deleted: true})
		sameRecord(t, "what decide is given of a deleted record", have(one), gone)
		put(t, one, "raw", "web", backend.Record{Meta: []byte("{}"), Value: []byte("3")})
		if r := have(two); r.Deleted || string(r.Value) != "3" {
			t.Fatalf("decide receives %+v of a key that was written again", r)
		}
		if r := have(two); r.Key != "web" {
			t.Fatalf("decide receives a record with the key %q", r.Key)
		}
	}},

	{"a watch of a query yields the records that enter it and those that leave it", func(t testing.TB, db Database) {
		b := db.Handles[0]
		if b.Capabilities().Skips {
			t.Skip("the backend may leave out what entered or left the query")
		}
		q := backend.Query{Prefix: "shop/", Labels: []backend.Requirement{{Label: "tier", Values: []string{"front"}}}}
		front, back := map[string]string{"tier": "front"}, map[string]string{"tier": "back"}
		_, from := records(t, b, "raw", backend.Query{})
		var want []backend.Record
		for i, r := range []backend.Record{
			{Key: "shop/a", Labels: front},
			{Key: "shop/b", Labels: back},
			{Key: "blog/a", Labels: front},
			{Key: "shop/b", Labels: front, Before: back},
			{Key: "shop/a", Labels: back, Before: front},
			{Key: "shop/a", Labels: back},
			{Key: "shop/b", Before: front},
			{Key: "shop/c"},
			{Key: "shop/c", Labels: front, Before: map[string]string{}},
			{Key: "shop/c", Labels: front, Deleted: true},
			{Key: "shop/d", Labels: front},
		} {
			r.Meta, r.Value = []byte("{}"), fmt.Append(nil, i)
			if written := put(t, b, "raw", r.Key, r); q.Concern(&r) {
				r.Version = written.Version
				want = append(want, r)
			}
		}
		for n, h := range db.Handles {
			left := want
			for c, err := range h.Watch(patient(t), "raw", q, from) {
				must(t, err)
				if c.Record.Key == "" || !q.Concern(&c.Record) { // a backend may yield more
					if c.Version >= left[0].Version {
						t.Fatalf("the watch through handle %d reaches version %d without yielding %q at %d",
							n, c.Version, left[0].Key, left[0].Version)
					}
					continue
				}
				sameRecord(t, fmt.Sprintf("what a watch of a query told through handle %d", n), c.Record, left[0])
				if left = left[1:]; len(left) == 0 {
					break
				}
			}
			if len(left) > 0 {
				t.Fatalf("the watch through handle %d stopped without yielding %q", n, left[0].Key)
			}
		}
	}},

	{"a failing or empty decide changes nothing, and its error is returned unwrapped", func(t testing.TB, db Database) {
		b, refuse := db.Handles[0], errors.New("refused")
		put(t, b, "raw", "web", backend.Record{Meta: []byte("{}"), Value: []byte("1")})
		before, version := records(t, b, "raw", backend.Query{})
		_, err := b.Transact(patient(t), "raw", "web", []backend.Fence{{Lease: "shop", Term: 9}},
			func(backend.Record) (*backend.Record, error) { return &backend.Record{Value: []byte("2")}, refuse })
		if err != refuse { //nolint:errorlint // must be this very error
			t.Fatalf("Transact returned %v, want the error of decide", err)
		}
		if _, now := records(t, b, "raw", backend.Query{}); now != version {
			t.Fatalf("the version was %d, and is %d though decide has failed", version, now)
		}
		r, err := b.Transact(patient(t), "raw", "web", []backend.Fence{{Lease: "shop", Term: 3}}, // 9 was not recorded
			func(backend.Record) (*backend.Record, error) { return nil, nil })
		must(t, err)
		sameRecord(t, "what a Transact returned that wrote nothing", r, before[0])
		after, now := records(t, b, "raw", backend.Query{})
		sameRecord(t, "the record", after[0], before[0])
		if now < version { // a recorded term may have its own version
			t.Fatalf("the version was %d, and is %d now", version, now)
		}
		_, err = b.Transact(patient(t), "raw", "web", []backend.Fence{{Lease: "shop", Term: 2}}, // 3 was
			func(backend.Record) (*backend.Record, error) {
				t.Fatalf("a write in an ended term was decided")
				return nil, nil
			})
		var fenced *backend.FencedError
		if !errors.As(err, &fenced) || fenced.Have != 3 || fenced.Fence != (backend.Fence{Lease: "shop", Term: 2}) {
			t.Fatalf("the error is %v, want a *FencedError: term 2 of shop is over, 3 has written", err)
		}
	}},

	{"all fences of a write must hold, or none is recorded", func(t testing.TB, db Database) {
		b := db.Handles[0]
		write := func(fences ...backend.Fence) error {
			_, err := b.Transact(patient(t), "raw", "web", fences, func(backend.Record) (*backend.Record, error) { return nil, nil })
			return err
		}
		must(t, write(backend.Fence{Lease: "a", Term: 5}, backend.Fence{Lease: "b", Term: 5}))
		if err := write(backend.Fence{Lease: "a", Term: 9}, backend.Fence{Lease: "b", Term: 4}); !errors.Is(err, backend.ErrFenced) {
			t.Fatalf("a write with one ended fence returned %v", err)
		}
		must(t, write(backend.Fence{Lease: "a", Term: 6}))
		must(t, write(backend.Fence{Lease: "a", Term: 1<<63 - 1}))
		if err := write(backend.Fence{Lease: "a", Term: 1<<63 - 2}); !errors.Is(err, backend.ErrFenced) {
			t.Fatalf("a write of the term before the greatest returned %v", err)
		}
	}},

	{"the end of the context ends every call with its cause", func(t testing.TB, db Database) {
		b, enough := db.Handles[0], errors.New("enough")
		put(t, b, "raw", "web", backend.Record{Meta: []byte("{}")})
		_, from := records(t, b, "raw", backend.Query{})
		ctx, cancel := context.WithCancelCause(patient(t))
		cancel(enough)
		_, errGet := b.Get(ctx, "raw", "web")
		_, errTransact := b.Transact(ctx, "raw", "web", nil, func(backend.Record) (*backend.Record, error) {
			return &backend.Record{Meta: []byte("{}"), Value: []byte("never")}, nil
		})
		var errList, errWatch error
		for _, errList = range b.List(ctx, "raw", backend.Query{}) {
			continue
		}
		for _, errWatch = range b.Watch(ctx, "raw", backend.Query{}, from) {
			continue
		}
		for what, err := range map[string]error{"Get": errGet, "Transact": errTransact, "List": errList, "Watch": errWatch} {
			if !errors.Is(err, enough) {
				t.Fatalf("%s with an ended context returned %v, want its cause", what, err)
			}
		}
		if r, err := b.Get(patient(t), "raw", "web"); err != nil || len(r.Value) > 0 {
			t.Fatalf("a Transact with an ended context wrote %q, %v", r.Value, err)
		}
	}},

	{"a record that is too large is rejected", func(t testing.TB, db Database) {
		most := db.Handles[0].Capabilities().MaxBytes
		if most == 0 {
			t.Skip("the backend has no limit")
		}
		s := db.open("thing")
		o := create(t, s, "web")
		large := o
		large.Value.Name = string(bytes.Repeat([]byte("x"), most+1))
		_, err := s.Update(patient(t), large)
		refused(t, err, backend.ErrTooLarge, opUpdate, s, "web")
		same(t, "what is stored", get(t, s, "web"), o)
		large.Value.Name = string(bytes.Repeat([]byte("x"), most/2))
		update(t, s, large)
	}},

	{"a kind has one type", func(t testing.TB, db Database) {
		db.open("thing")
		_, err := store.Open(db.Handles[0], "thing", store.Config[int]{})
		if err == nil {
			t.Fatalf("a kind was opened with two types")
		}
		db.open("thing")
	}},
}
