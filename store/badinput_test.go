package store_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

// small is a backend that takes records of 400 bytes at most.
type small struct{ backend.Backend }

func (small) Capabilities() backend.Capabilities { return backend.Capabilities{MaxBytes: 400} }

func TestOversizedRecordIsRejected(t *testing.T) {
	db := store.NewMemory(store.MemoryConfig{})
	apps := must(store.Open(small{db}, "app", store.Config[App]{}))
	o := create(t, apps, "web")
	o.Value.Tags = []string{strings.Repeat("x", 400)}
	_, err := apps.Update(t.Context(), o)
	require.ErrorIs(t, err, backend.ErrTooLarge)
	require.ErrorIs(t, err, store.ErrInvalid, "an unstorable value is the caller's mistake")
	require.ErrorIs(t, errOf(apps.Create(t.Context(), object{Key: "big", Value: o.Value})), backend.ErrTooLarge)
	require.ErrorIs(t, errOf(apps.Create(t.Context(), object{Key: "big", Labels: map[string]string{"l": o.Value.Tags[0]}})), backend.ErrTooLarge)
	l, err := apps.List(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 1, l.Version)
	for err == nil { // byte by byte
		o = l.Items[0]
		o.Value.Tags = []string{"x" + strings.Join(o.Value.Tags, "")}
		l.Items[0], err = apps.Update(t.Context(), o)
	}
	require.ErrorContains(t, err, "it has 401 bytes, 400 are allowed")
}

// Rates cannot be encoded if one of them is no number.
type Rates struct {
	ByZone map[string][]*Rate
	Note   any
	Secret string `json:"-"`
}

type Rate struct{ PerSecond float64 }

func TestUnencodableValueIsTheLastReasonToRejectAWrite(t *testing.T) {
	rates := must(store.Open(store.NewMemory(store.MemoryConfig{}), "rates", store.Config[Rates]{}))
	o, err := rates.Create(t.Context(), store.Object[Rates]{Key: "a"}, store.IfTerm("lease", 7))
	require.NoError(t, err)
	o.Value.Note = "\xff"
	require.ErrorIs(t, errOf(rates.Update(t.Context(), o, store.IfTerm("lease", 6))), store.ErrFenced)
	require.ErrorIs(t, errOf(rates.Create(t.Context(), o)), store.ErrExists)
	require.ErrorIs(t, errOf(rates.Update(t.Context(), o, store.IfUID("another"))), store.ErrConflict)
	require.ErrorIs(t, errOf(rates.Update(t.Context(), o)), store.ErrInvalid)
}

func TestUnencodableValueIsRejectedWithFieldPath(t *testing.T) {
	db := store.NewMemory(store.MemoryConfig{})
	rates := must(store.Open(db, "rates", store.Config[Rates]{}))
	for _, c := range []struct {
		value Rates
		want  string
	}{
		{Rates{ByZone: map[string][]*Rate{"a": {{1}, {math.NaN()}}}}, "store_test.Rates.ByZone[a][1].PerSecond: json: unsupported value: NaN"},
		{Rates{Note: map[string]any{"f": func() {}}}, "store_test.Rates.Note[f]: json: unsupported type: func()"},
		{Rates{Note: []string{"fine", "\xff"}}, "store_test.Rates.Note[1]: a string is not UTF-8"},
		{Rates{ByZone: map[string][]*Rate{"\xff": nil}}, "a string is not UTF-8"},
	} {
		_, err := rates.Create(t.Context(), store.Object[Rates]{Key: "a", Value: c.value})
		require.ErrorIs(t, err, store.ErrInvalid)
		assert.ErrorContains(t, err, c.want)
	}
	o, err := rates.Create(t.Context(), store.Object[Rates]{Key: "a", Value: Rates{Note: "\ufffd \\ufffd \x00 is text", Secret: "\xff"}})
	require.NoError(t, err)
	assert.Equal(t, Rates{Note: "\ufffd \\ufffd \x00 is text"}, o.Value, "the returned object is the stored one")
	assert.EqualValues(t, 1, o.Version, "nothing else was written")
}

func TestNonPortableNamesAreRejected(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{})
	for name, bad := range map[string]string{
		"the key is empty": "", "contains NUL": "a\x00b", "is not UTF-8": "a\xffb", "has 1025 bytes, 1024 are allowed": strings.Repeat("k", 1025),
	} {
		for _, err := range []error{
			errOf(apps.Get(t.Context(), bad)), errOf(apps.Create(t.Context(), object{Key: bad})),
			errOf(apps.Update(t.Context(), object{Key: bad})), errOf(apps.Delete(t.Context(), bad)),
		} {
			require.ErrorIs(t, err, store.ErrInvalid, name)
			require.ErrorContains(t, err, name)
		}
	}
	for _, o := range []object{
		{Labels: map[string]string{"": "x"}}, {Labels: map[string]string{"a\x00": "x"}}, {Labels: map[string]string{"a": "\xff"}},
		{Finalizers: []string{"\xff"}}, {Owners: []store.OwnerRef{{Ref: store.Ref{Kind: "k", Key: "\x00"}}}},
	} {
		o.Key = "web"
		require.ErrorIs(t, errOf(apps.Create(t.Context(), o)), store.ErrInvalid)
	}
	require.ErrorIs(t, errOf(apps.Create(t.Context(), object{Key: "web"}, store.IfTerm("", 1))), store.ErrInvalid)
	_, err := apps.Select(t.Context(), store.Selector{Prefix: "\xff"})
	require.ErrorIs(t, err, store.ErrInvalid)
	l, err := apps.List(t.Context())
	require.NoError(t, err)
	assert.Zero(t, l.Version)
	for _, good := range []string{strings.Repeat("k", 1024), "a/b.c d%*>é\n", "."} {
		require.NoError(t, errOf(apps.Create(t.Context(), object{Key: good})))
	}
}

func TestOpenErrorsNameTheReason(t *testing.T) {
	db := store.NewMemory(store.MemoryConfig{})
	encode := func(int) ([]byte, error) { return nil, nil }
	for want, open := range map[string]func() error{
		"store: open: invalid argument: the kind is empty": func() error { _, err := store.Open(db, "", store.Config[int]{}); return err },
		"the kind has 129 bytes":                           func() error { _, err := store.Open(db, strings.Repeat("k", 129), store.Config[int]{}); return err },
		"store: open int: the backend is nil":              func() error { _, err := store.Open(nil, "int", store.Config[int]{}); return err },
		"Config.Encode is set without Config.Decode":       func() error { _, err := store.Open(db, "int", store.Config[int]{Encode: encode}); return err },
		"int.hidden: an unexported field": func() error {
			_, err := store.Open(db, "int", store.Config[struct{ hidden int }]{})
			return err
		},
	} {
		err := open()
		var e *store.Error
		require.ErrorAs(t, err, &e, want)
		assert.ErrorContains(t, err, strings.TrimPrefix(want, "int"))
	}
	_, err := store.Open(db, "int", store.Config[int]{})
	require.NoError(t, err, "a failed Open has claimed nothing")
	_, err = store.Open(struct{ backend.Backend }{db}, "int", store.Config[string]{})
	require.ErrorContains(t, err, "it is open with values of type int already, not string", "through any handle")
}

func TestCustomCodecIsUsed(t *testing.T) {
	db := store.NewMemory(store.MemoryConfig{})
	cfg := store.Config[int]{
		Encode: func(n int) ([]byte, error) {
			if n < 0 {
				return nil, errCodec
			}
			return fmt.Appendf(nil, "%04d", n), nil
		},
		Decode: func(b []byte) (n int, err error) {
			if n, err := fmt.Sscanf(string(b), "%d", new(int)); n != 1 {
				return 0, err
			}
			_, err = fmt.Sscanf(string(b), "%d", &n)
			return n, err
		},
	}
	numbers := must(store.Open(db, "number", cfg))
	o, err := numbers.Create(t.Context(), store.Object[int]{Key: "a", Value: 7})
	require.NoError(t, err)
	r, err := db.Get(t.Context(), "number", "a")
	require.NoError(t, err)
	assert.Equal(t, "0007", string(r.Value))
	o.Value = -1
	_, err = numbers.Update(t.Context(), o)
	require.ErrorIs(t, err, errCodec)
	require.ErrorIs(t, err, store.ErrInvalid)
	got, err := numbers.Get(t.Context(), "a")
	require.NoError(t, err)
	assert.Equal(t, 7, got.Value)

	// An older program has written the same in another way: that is no change.
	_, err = db.Transact(t.Context(), "number", "a", nil, func(have backend.Record) (*backend.Record, error) {
		have.Value = []byte("7")
		return &have, nil
	})
	require.NoError(t, err)
	got, err = numbers.Get(t.Context(), "a")
	require.NoError(t, err)
	again, err := numbers.Update(t.Context(), got)
	require.NoError(t, err)
	assert.Equal(t, got, again)
}

func opens[T any](db *store.Memory) error {
	_, err := store.Open[T](db, "kind", store.Config[T]{})
	return err
}

func TestEmptyOwnersAndFinalizersAreNil(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{})
	o, err := apps.Create(t.Context(), object{Key: "web", Owners: []store.OwnerRef{}, Finalizers: []string{}})
	require.NoError(t, err)
	assert.Nil(t, o.Owners)
	assert.Nil(t, o.Finalizers)
	o.Owners, o.Finalizers = []store.OwnerRef{}, []string{}
	after, err := apps.Update(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, o.Version, after.Version)
}

func TestCyclicValueIsInvalid(t *testing.T) {
	type tree struct{ Left *tree }
	trees := open[tree](t, store.NewMemory(store.MemoryConfig{}), "tree")
	loop := tree{}
	loop.Left = &loop
	require.ErrorIs(t, errOf(trees.Create(t.Context(), store.Object[tree]{Key: "x", Value: loop})), store.ErrInvalid)
	l, err := trees.List(t.Context())
	require.NoError(t, err)
	assert.Empty(t, l.Items)

	var long *tree
	for range 3000 {
		long = &tree{Left: long}
	}
	o, err := trees.Create(t.Context(), store.Object[tree]{Key: "long", Value: *long})
	require.NoError(t, err)
	n := 0
	for at := &o.Value; at != nil; at = at.Left {
		n++
	}
	assert.Equal(t, 3000, n)
}
