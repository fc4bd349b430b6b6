package store_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/trim"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/storetest"
)

// behind is a Memory that a store cannot recognize, so that it is a backend like any other.
type behind struct{ backend.Backend }

func TestMemoryAsBackendIsAStore(t *testing.T) {
	for name, history := range map[string]int{"with the default history": 4096, "with a short history": 40} {
		t.Run(name, func(t *testing.T) {
			storetest.RunInBubbles(t, func(t *testing.T) storetest.Database {
				db := must(store.NewMemory(store.MemoryConfig{History: history}))
				t.Cleanup(func() { assert.NoError(t, db.CheckInvariants()) })
				s := must(store.Open(behind{db}, "probe", store.Config[App]{}))
				require.False(t, store.IsDirect(s))
				return storetest.Database{
					Handles:   []backend.Backend{behind{db}, behind{db}},
					Remembers: history,
					Expire:    func(kind string) error { return trim.History(db, kind, history) },
				}
			})
		})
	}
}

// One store writes values, and the other one writes records. Both see the writes of both.
func TestDirectAndEncodedMemoryAreOneDatabase(t *testing.T) {
	db := must(store.NewMemory(store.MemoryConfig{}))
	direct := must(store.Open(db, "app", store.Config[App]{}))
	encoded := must(store.Open(behind{db}, "app", store.Config[App]{}))
	require.True(t, store.IsDirect(direct))
	a, err := direct.Create(t.Context(), object{Key: "a", Value: App{Tags: []string{"x"}}, Labels: map[string]string{"l": "1"}})
	require.NoError(t, err)
	b, err := encoded.Create(t.Context(), object{Key: "b", Finalizers: []string{"f"}})
	require.NoError(t, err)
	a.Value.Replicas, a.Labels = 1, nil
	a, err = encoded.Update(t.Context(), a)
	require.NoError(t, err)
	b, err = direct.Update(t.Context(), object{Key: "b", Version: b.Version, Value: App{Replicas: 3}})
	require.NoError(t, err)
	for name, s := range map[string]store.Store[App]{"direct": direct, "encoded": encoded} {
		l, err := s.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []object{a, b}, l.Items, name)
		n := 0
		for e, err := range s.Watch(t.Context(), 0) {
			require.NoError(t, err)
			if n++; n == 4 {
				assert.Equal(t, informer.Event[object]{Type: informer.Modified, Object: b, Version: 4}, e, name)
				break
			}
		}
	}
	require.NoError(t, db.CheckInvariants())
}
