package store_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

// traceKey is the key of the trace context in a context.
type traceKey struct{}

func TestInvalidTraceContextIsDropped(t *testing.T) {
	for given, kept := range map[string]string{
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		" ~":                      " ~",
		strings.Repeat("x", 1024): strings.Repeat("x", 1024),
		strings.Repeat("x", 1025): "",
		"a\x00b":                  "",
		"a\nb":                    "",
		"\x7f":                    "",
		"é":                       "",
	} {
		db := store.NewMemory(store.MemoryConfig{})
		s := must(store.Open(db, "app", store.Config[App]{Trace: func(context.Context) string { return given }}))
		o, err := s.Create(t.Context(), object{Key: "a"})
		require.NoError(t, err)
		assert.Equal(t, kept, o.Trace)
		assert.Equal(t, kept, o.TraceContext())
	}
}

func TestTraceContextIsReadOncePerWrite(t *testing.T) {
	var asked []string
	db := store.NewMemory(store.MemoryConfig{})
	for _, name := range []string{"a", "b"} {
		s := must(store.Open(db, "app", store.Config[App]{Trace: func(ctx context.Context) string {
			trace, _ := ctx.Value(traceKey{}).(string)
			asked = append(asked, trace)
			return trace
		}}))
		o, err := s.Create(context.WithValue(t.Context(), traceKey{}, "1"), object{Key: name})
		require.NoError(t, err)
		o.Value.Replicas++
		o, err = s.Update(context.WithValue(t.Context(), traceKey{}, "2"), o)
		require.NoError(t, err)
		require.Equal(t, "2", o.Trace)
		_, err = s.Get(t.Context(), name)
		require.NoError(t, err)
		assert.Equal(t, []string{"1", "2"}, asked, name)
		asked = nil
	}
}

// A record from before there were trace contexts, and one that another program has written, are the same for a store.
func TestRecordWithoutTraceContext(t *testing.T) {
	db := store.NewMemory(store.MemoryConfig{})
	s := must(store.Open(db, "app", store.Config[App]{}))
	_, err := db.Transact(t.Context(), "app", "a", nil, func(backend.Record) (*backend.Record, error) {
		return &backend.Record{
			Key: "a", Meta: []byte(`{"uid":"u1","generation":1,"created":"2026-01-02T03:04:05Z"}`), Value: []byte(`{"Replicas":3}`),
		}, nil
	})
	require.NoError(t, err)
	o, err := s.Get(t.Context(), "a")
	require.NoError(t, err)
	assert.Equal(t, 3, o.Value.Replicas)
	assert.Empty(t, o.Trace)
	o.Trace = "ignored"
	same, err := s.Update(t.Context(), o)
	require.NoError(t, err)
	assert.Equal(t, o.Version, same.Version, "Trace is not a change")
	assert.Empty(t, same.Trace)
	o.Value.Replicas++
	_, err = s.Update(t.Context(), o)
	require.NoError(t, err)
	now, err := db.Get(t.Context(), "app", "a")
	require.NoError(t, err)
	assert.Equal(t, `{"uid":"u1","generation":2,"created":"2026-01-02T03:04:05Z"}`, string(now.Meta), "the envelope is as before")
}
