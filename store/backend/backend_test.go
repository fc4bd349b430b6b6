package backend_test

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	} {
		b, err := r.MarshalBinary()
		require.NoError(t, err)
		var back backend.Record
		require.NoError(t, back.UnmarshalBinary(b))
		clear(b) // it keeps nothing of the bytes
		assert.Equal(t, r.Before == nil, back.Before == nil)
		assert.True(t, bytes.Equal(r.Meta, back.Meta) && bytes.Equal(r.Value, back.Value))
		r.Meta, r.Value, back.Meta, back.Value = nil, nil, nil, nil
		assert.Equal(t, r, back)
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
			assert.Equal(t, backend.Record{Key: "untouched"}, r)
			return
		}
		again, err := r.MarshalBinary()
		require.NoError(t, err)
		var back backend.Record
		require.NoError(t, back.UnmarshalBinary(again))
		assert.Equal(t, r, back)
	})
}

func TestTruncatedRecordIsAnError(t *testing.T) {
	b, _ := backend.Record{Key: "a", Labels: map[string]string{"x": "y"}, Meta: []byte("{}"), Value: []byte("1")}.MarshalBinary()
	for n := range b {
		assert.Error(t, new(backend.Record).UnmarshalBinary(b[:n]), "%d bytes", n)
	}
	assert.Error(t, new(backend.Record).UnmarshalBinary(append(b, 0)), "and more")
}

func TestKindHasOneType(t *testing.T) {
	var kinds backend.Kinds
	require.NoError(t, kinds.Claim("app", reflect.TypeFor[int]()))
	require.NoError(t, kinds.Claim("app", reflect.TypeFor[int]()))
	require.NoError(t, kinds.Claim("job", reflect.TypeFor[string]()))
	assert.EqualError(t, kinds.Claim("app", reflect.TypeFor[string]()), "it is open with values of type int already, not string")
	require.NoError(t, kinds.Claim("app", reflect.TypeFor[int]()), "the first type stays")
}

func TestTermEndsWhenGreaterOneIsRecorded(t *testing.T) {
	f := backend.Fence{Lease: "shop", Term: 7}
	assert.NoError(t, f.Check(0))
	assert.NoError(t, f.Check(7))
	var fenced *backend.FencedError
	require.ErrorAs(t, f.Check(8), &fenced)
	assert.Equal(t, backend.FencedError{Fence: f, Have: 8}, *fenced)
	assert.ErrorIs(t, fenced, backend.ErrFenced)
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
		assert.Equal(t, c.matches, q.Matches(c.key, c.labels), c)
		assert.Equal(t, c.want, q.Concern(&backend.Record{Key: c.key, Labels: c.labels, Before: c.before}), c)
	}
}
