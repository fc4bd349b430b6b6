package backend_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/store/backend"
)

var _ backend.Backend = (*tiny)(nil)

func TestRecordRoundTrips(t *testing.T) {
	for _, r := range []backend.Record{
		{},
		{Key: "a", Version: 1, Meta: []byte("{}"), Value: []byte{0, 255}},
		{Key: "a\xff", Version: 1 << 63, Deleted: true, Labels: map[string]string{"": "", "b": "\x00", "é": "1"}},
		{Before: map[string]string{}}, // which is not nil
		{Labels: map[string]string{"a": "1"}, Before: map[string]string{"a": "2"}},
		{Key: "a", Version: 2, Deleted: true, Before: map[string]string{"a": "2"}},
	} {
		b, err := r.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var back, adopted backend.Record
		if err := adopted.Adopt(bytes.Clone(b)); err != nil {
			t.Fatalf("adopted.Adopt(b): %v", err)
		}
		value := bytes.Clone(adopted.Value)
		_ = append(adopted.Meta, "overflow"...)
		if !bytes.Equal(value, adopted.Value) {
			t.Error("the value has changed when the envelope has grown")
		}
		if err := back.UnmarshalBinary(b); err != nil {
			t.Fatalf("back.UnmarshalBinary(b): %v", err)
		}
		clear(b) // it keeps nothing of the bytes
		if !(bytes.Equal(adopted.Meta, back.Meta) && bytes.Equal(adopted.Value, back.Value)) {
			t.Error("want bytes.Equal(adopted.Meta, back.Meta) && bytes.Equal(adopted.Value, back.Value)")
		}
		if got, want := back.Before == nil, r.Before == nil; got != want {
			t.Errorf("back.Before == nil = %v, want %v", got, want)
		}
		if !(bytes.Equal(r.Meta, back.Meta) && bytes.Equal(r.Value, back.Value)) {
			t.Error("want bytes.Equal(r.Meta, back.Meta) && bytes.Equal(r.Value, back.Value)")
		}
		r.Meta, r.Value, back.Meta, back.Value = nil, nil, nil, nil
		if diff := cmp.Diff(r, back); diff != "" {
			t.Errorf("back mismatch (-want +got):\n%s", diff)
		}
	}
}

func FuzzCorruptRecordIsAnError(f *testing.F) {
	b, _ := backend.Record{
		Key: "a", Version: 300, Labels: map[string]string{"x": "y"}, Before: map[string]string{}, Meta: []byte("{}"), Value: []byte("1"),
	}.MarshalBinary()
	for n := range b {
		f.Add(b[:n])
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		r := backend.Record{Key: "untouched"}
		if err := r.UnmarshalBinary(b); err != nil {
			if diff := cmp.Diff(backend.Record{Key: "untouched"}, r); diff != "" {
				t.Errorf("r mismatch (-want +got):\n%s", diff)
			}
			return
		}
		again, err := r.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var back backend.Record
		if err := back.UnmarshalBinary(again); err != nil {
			t.Fatalf("back.UnmarshalBinary(again): %v", err)
		}
		if diff := cmp.Diff(r, back); diff != "" {
			t.Errorf("back mismatch (-want +got):\n%s", diff)
		}
	})
}

func TestTruncatedRecordIsAnError(t *testing.T) {
	b, _ := backend.Record{Key: "a", Labels: map[string]string{"x": "y"}, Meta: []byte("{}"), Value: []byte("1")}.MarshalBinary()
	for n := range b {
		if err := new(backend.Record).UnmarshalBinary(b[:n]); err == nil {
			t.Errorf("%d bytes: new(backend.Record).UnmarshalBinary(b[:n]) returned no error", n)
		}
	}
	if err := new(backend.Record).UnmarshalBinary(append(b, 0)); err == nil {
		t.Error("new(backend.Record).UnmarshalBinary(append(b, 0)) returned no error: and more")
	}
}

func TestUnknownFormIsAnError(t *testing.T) {
	for name, b := range map[string][]byte{
		"another format":            {2, 0, 1, 0, 0, 0, 0},
		"an unknown bit":            {1, 4, 1, 0, 0, 0, 0},
		"more labels than bytes":    {1, 0, 1, 0, 9, 0, 0},
		"a label without its value": {1, 0, 1, 0, 1, 0},
	} {
		if err := new(backend.Record).UnmarshalBinary(b); err == nil {
			t.Errorf("%s: UnmarshalBinary returned no error", name)
		}
	}
	if err := new(backend.Record).UnmarshalBinary([]byte{1, 0, 1, 0, 0, 0, 0}); err != nil {
		t.Error(err)
	}
}

func TestKindHasOneType(t *testing.T) {
	var kinds backend.Kinds
	if err := kinds.Claim("app", reflect.TypeFor[int]()); err != nil {
		t.Fatalf(`kinds.Claim("app", reflect.TypeFor[int]()): %v`, err)
	}
	if err := kinds.Claim("app", reflect.TypeFor[int]()); err != nil {
		t.Fatalf(`kinds.Claim("app", reflect.TypeFor[int]()): %v`, err)
	}
	if err := kinds.Claim("job", reflect.TypeFor[string]()); err != nil {
		t.Fatalf(`kinds.Claim("job", reflect.TypeFor[string]()): %v`, err)
	}
	const want = "it is open with values of type int already, not string"
	if err := kinds.Claim("app", reflect.TypeFor[string]()); err == nil || err.Error() != want {
		t.Errorf(`kinds.Claim("app", reflect.TypeFor[string]()) = %v, want the error %q`, err, want)
	}
	if err := kinds.Claim("app", reflect.TypeFor[int]()); err != nil {
		t.Fatalf("the first type stays: %v", err)
	}
}

func TestTermEndsWhenGreaterOneIsRecorded(t *testing.T) {
	f := backend.Fence{Lease: "shop", Term: 7}
	if err := f.Check(0); err != nil {
		t.Error(err)
	}
	if err := f.Check(7); err != nil {
		t.Error(err)
	}
	var fenced *backend.FencedError
	if err := f.Check(8); !errors.As(err, &fenced) {
		t.Fatalf("f.Check(8) = %v, want a FencedError", err)
	}
	if want := (backend.FencedError{Fence: f, Have: 8}); *fenced != want {
		t.Errorf("*fenced = %+v, want %+v", *fenced, want)
	}
	if !errors.Is(fenced, backend.ErrFenced) {
		t.Errorf("fenced = %v, want %v", fenced, backend.ErrFenced)
	}
}

func TestQueryIncludesEnteringAndLeavingRecords(t *testing.T) {
	front, back := map[string]string{"tier": "front"}, map[string]string{"tier": "back"}
	q := backend.Query{Prefix: "shop/", Labels: []backend.Requirement{{Label: "tier", Values: []string{"front"}}}}
	for _, c := range []struct {
		key            string
		labels, before map[string]string
		matches, want  bool
	}{
		{"shop/a", front, nil, true, true},
		{"shop/a", front, back, true, true},
		{"shop/a", back, front, false, true},
		{"shop/a", back, nil, false, false},
		{"shop/a", nil, map[string]string{}, false, false},
		{"blog/a", front, nil, false, false},
	} {
		if got := q.Matches(c.key, c.labels); got != c.matches {
			t.Errorf("%+v: q.Matches(%q, c.labels) = %v, want %v", c, c.key, got, c.matches)
		}
		if got := q.Concern(&backend.Record{Key: c.key, Labels: c.labels, Before: c.before}); got != c.want {
			t.Errorf("%+v: q.Concern = %v, want %v", c, got, c.want)
		}
	}
}

func TestRequirementsOfLabels(t *testing.T) {
	front, back := map[string]string{"tier": "front"}, map[string]string{"tier": "back"}
	for _, c := range []struct {
		rule              backend.Requirement
		front, back, none bool // whether it holds
	}{
		{backend.Requirement{Label: "tier"}, true, true, false},
		{backend.Requirement{Label: "tier", Not: true}, false, false, true},
		{backend.Requirement{Label: "tier", Values: []string{"front", "side"}}, true, false, false},
		{backend.Requirement{Label: "tier", Values: []string{"front"}, Not: true}, false, true, true},
		{backend.Requirement{Label: "tier", Values: []string{""}}, false, false, false},
	} {
		q := backend.Query{Labels: []backend.Requirement{c.rule}}
		if got, want := [3]bool{q.Matches("a", front), q.Matches("a", back), q.Matches("a", nil)}, [3]bool{c.front, c.back, c.none}; got != want {
			t.Errorf("%+v: got %v, want %v", c.rule, got, want)
		}
	}
	q := backend.Query{Labels: []backend.Requirement{{Label: "tier", Not: true}}}
	if q.Concern(&backend.Record{Key: "a", Labels: front}) {
		t.Error("q concerns a record whose labels did not change")
	}
	if !q.Concern(&backend.Record{Key: "a", Labels: front, Before: map[string]string{}}) {
		t.Error("q does not concern a record that had no label before")
	}
}
