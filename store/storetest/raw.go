package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/wait"
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

// reports fails unless a watch of q yields the records of want. It may yield more.
func reports(t testing.TB, what string, watch iter.Seq2[backend.Change, error], q backend.Query, want []backend.Record) {
	t.Helper()
	for c, err := range watch {
		must(t, err)
		if c.Record.Key == "" || !q.Concern(&c.Record) {
			if c.Version >= want[0].Version {
				t.Fatalf("a watch %s reaches version %d without yielding %q at %d", what, c.Version, want[0].Key, want[0].Version)
			}
			continue
		}
		sameRecord(t, "what is reported by a watch "+what, c.Record, want[0])
		if want = want[1:]; len(want) == 0 {
			return
		}
	}
	t.Fatalf("a watch %s stopped without yielding %q", what, want[0].Key)
}

// matching returns the records of a list of asked that match q.
func matching(t testing.TB, b backend.Backend, asked, q backend.Query) []backend.Record {
	t.Helper()
	l, _ := records(t, b, "raw", asked)
	return slices.DeleteFunc(l, func(r backend.Record) bool { return !q.Matches(r.Key, r.Labels) })
}

// backendCases are about records, without the engine.
var backendCases = []testCase{
	{"a record round-trips exactly", func(t testing.TB, db Database) {
		b, size, huge, name := db.Handles[0], 100_000, 3<<20, strings.Repeat("l", 300)
		if most := b.Capabilities().MaxBytes; most > 0 {
			size, huge = min(size, most/4), most/2
		}
		for i, r := range []backend.Record{
			{Value: []byte{}, Meta: []byte("{}")},
			{Value: []byte{0, 1, 0xff, 0xfe, '\\', '"', '\'', '\n', 0}, Meta: []byte(`{"a":"\u0000 \ufffd é"}`)},
			{Value: bytes.Repeat([]byte{0}, 10_000), Meta: []byte("{ }")},
			{Value: []byte("1"), Meta: []byte("{}"), Labels: map[string]string{"tier": "front", "é": "", "a b": "'%_*"}},
			{Value: []byte("1"), Meta: []byte("{}"), Labels: map[string]string{"tier": "back"}, Before: map[string]string{"tier": "front"}},
			{Value: []byte("1"), Meta: []byte("{}"), Before: map[string]string{"tier": "back"}},
			{Value: []byte("1"), Meta: []byte("{}"), Labels: map[string]string{"tier": "front"}, Before: map[string]string{}},
			{
				Value: bytes.Repeat([]byte("v"), size), Meta: fmt.Appendf(nil, "%q", bytes.Repeat([]byte("m"), size)),
				Labels: map[string]string{name: name + "1"}, Before: map[string]string{name: name + "2"},
			},
			{Value: bytes.Repeat([]byte("h"), huge), Meta: []byte("{}")},
			{Value: []byte("last"), Meta: []byte("{}"), Labels: map[string]string{"tier": "back"}, Before: map[string]string{"tier": "front"}, Deleted: true},
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
				sameRecord(t, fmt.Sprintf("what a watch reported of record %d through handle %d", i, n), c.Record, r)
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

	{"a list has every record, however many", func(t testing.TB, db Database) {
		const n = 1100
		ctx, step := steady(t)
		written := make([]backend.Record, n)
		must(t, wait.Parallelize(ctx, 16, n, func(ctx context.Context, i int) (err error) {
			h, next := db.Handles[i%len(db.Handles)], &backend.Record{Meta: []byte("{}")}
			written[i], err = h.Transact(ctx, "raw", fmt.Sprintf("%04d", i), nil, func(backend.Record) (*backend.Record, error) { return next, nil })
			step()
			return err
		}))
		for _, h := range db.Handles {
			l, _ := records(t, h, "raw", backend.Query{})
			if len(l) != n {
				t.Fatalf("a list shows %d records, want %d", len(l), n)
			}
			for i, r := range l {
				sameRecord(t, "what a long list shows", r, written[i])
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
		front, back := map[string]string{"tier": "front"}, map[string]string{"tier": "back"}
		_, from := records(t, b, "raw", backend.Query{})
		var written []backend.Record
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
			{Key: "shop/d", Labels: back, Before: front, Deleted: true},
			{Key: "shop/e", Labels: back},
			{Key: "shop/e", Labels: front, Before: back, Deleted: true},
			{Key: "_/a"}, {Key: "%/a"}, {Key: "*.a"}, {Key: ">"}, {Key: `\a`}, {Key: "[a]"}, {Key: "'a"},
		} {
			r.Meta, r.Value = []byte("{}"), fmt.Append(nil, i)
			r.Version = put(t, b, "raw", r.Key, r).Version
			written = append(written, r)
		}
		for _, q := range []backend.Query{
			{Prefix: "shop/", Labels: []backend.Requirement{{Label: "tier", Values: []string{"front"}}}},
			{Labels: []backend.Requirement{{Label: "tier"}}},
			{Labels: []backend.Requirement{{Label: "tier", Not: true}}},
			{Labels: []backend.Requirement{{Label: "tier", Values: []string{"front"}, Not: true}}},
			{Prefix: "_"}, {Prefix: "%"}, {Prefix: "*"}, {Prefix: ">"}, {Prefix: `\`}, {Prefix: "["}, {Prefix: "'"},
		} {
			for n, h := range db.Handles {
				what := fmt.Sprintf("of %+v through handle %d", q, n)
				concerned := slices.DeleteFunc(slices.Clone(written), func(r backend.Record) bool { return !q.Concern(&r) })
				reports(t, what, h.Watch(patient(t), "raw", q, from), q, concerned)
				if got, want := matching(t, h, q, q), matching(t, h, backend.Query{}, q); len(got) != len(want) {
					t.Fatalf("a list %s shows %d records, want %d", what, len(got), len(want))
				}
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
		// A greater term is recorded or refused, but never mistaken for another one.
		if err := write(backend.Fence{Lease: "a", Term: 1<<63 + 9}); err == nil {
			var fenced *backend.FencedError
			if err := write(backend.Fence{Lease: "a", Term: 1<<63 + 8}); !errors.As(err, &fenced) || fenced.Have != 1<<63+9 {
				t.Fatalf("a write of term %d after that of term %d returned %v", uint64(1<<63+8), uint64(1<<63+9), err)
			}
		} else if errors.Is(err, backend.ErrFenced) {
			t.Fatalf("a write of term %d returned %v, though it is greater than that", uint64(1<<63+9), err)
		} else {
			must(t, write(backend.Fence{Lease: "a", Term: 1<<63 - 1})) // what was refused has recorded nothing
		}
	}},

	{"a watch yields what is written under fences", func(t testing.TB, db Database) {
		one, two := backend.Fence{Lease: "a", Term: 5}, backend.Fence{Lease: "b", Term: 5}
		_, from := records(t, db.Handles[0], "raw", backend.Query{})
		var written []backend.Record
		for i, fences := range [][]backend.Fence{{one}, {one}, {one, two}, nil, {two}, {one, two}} {
			next := backend.Record{Key: fmt.Sprint("f", i%4), Meta: []byte("{}"), Value: fmt.Append(nil, i), Deleted: i > 3}
			b := db.Handles[i%len(db.Handles)]
			r, err := b.Transact(patient(t), "raw", next.Key, fences, func(backend.Record) (*backend.Record, error) { return &next, nil })
			must(t, err)
			next.Version = r.Version
			written = append(written, next)
		}
		for n, h := range db.Handles {
			what := fmt.Sprintf("through handle %d", n)
			reports(t, what, h.Watch(patient(t), "raw", backend.Query{}, from), backend.Query{}, written)
			reports(t, what, h.Watch(patient(t), "raw", backend.Query{}, written[1].Version), backend.Query{}, written[2:])
			if l, _ := records(t, h, "raw", backend.Query{}); len(l) != 2 {
				t.Fatalf("a list %s shows %d records, want 2", what, len(l))
			}
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
