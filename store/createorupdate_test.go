package store_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/storetest"
)

func TestCreateOrUpdateCreatesThenUpdatesThenRests(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{})
	want := 1
	ensure := func() object {
		o, err := store.CreateOrUpdate(t.Context(), apps, "web", func(o *object) error {
			o.Key, o.Value.Replicas = "ignored", want
			return nil
		})
		require.NoError(t, err)
		stored, err := apps.Get(t.Context(), "web")
		require.NoError(t, err)
		require.Equal(t, stored, o)
		return o
	}
	first := ensure()
	assert.Equal(t, first, ensure(), "nothing has changed")
	want = 2
	assert.Equal(t, 2, ensure().Value.Replicas)
}

// Somebody else creates, or deletes, the object right before each write of the first attempts.
func TestCreateOrUpdateGoesOnWhenSomebodyElseIsFaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for op, meanwhile := range map[string]func(context.Context, store.Store[App]) error{
			store.OpCreate: func(ctx context.Context, apps store.Store[App]) error {
				return errOf(apps.Create(ctx, object{Key: "web", Value: App{Tags: []string{"theirs"}}}))
			},
			store.OpUpdate: func(ctx context.Context, apps store.Store[App]) error { return errOf(apps.Delete(ctx, "web")) },
		} {
			_, apps := newApps(t, store.MemoryConfig{})
			if op == store.OpUpdate {
				create(t, apps, "web")
			}
			s := storetest.NewInterceptor[App](apps)
			hit := s.Inject(storetest.Rule{Op: op, Fault: storetest.Before(func(ctx context.Context) error {
				return meanwhile(ctx, apps)
			})})
			o, err := store.CreateOrUpdate(t.Context(), s, "web", func(o *object) error { o.Value.Replicas = 3; return nil })
			require.NoError(t, err, op)
			require.Equal(t, 1, hit.Hits())
			assert.Equal(t, 3, o.Value.Replicas)
			assert.Equal(t, op == store.OpCreate, o.Value.Tags != nil, "what they have written stays")
		}
	})
}

func TestCreateOrUpdateReturnsTheErrorOfChangeAsItIs(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{})
	no, calls := store.ErrNotFound, 0 // even an error that the store has, too
	refuse := func(*object) error { calls++; return no }
	_, err := store.CreateOrUpdate(t.Context(), apps, "web", refuse)
	require.True(t, err == no)
	create(t, apps, "web")
	_, err = store.CreateOrUpdate(t.Context(), apps, "web", refuse)
	require.True(t, err == no)
	assert.Equal(t, 2, calls, "nothing is tried again")
}

func TestCreateOrUpdateDoesNotGuessAfterALostReply(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{})
	s := storetest.NewInterceptor[App](apps)
	s.Inject(storetest.Rule{Op: store.OpCreate, Fault: storetest.LoseReply()})
	change := func(o *object) error { o.Value.Replicas = 3; return nil }
	_, err := store.CreateOrUpdate(t.Context(), s, "web", change)
	require.True(t, errors.Is(err, storetest.ErrLost))
	assert.Len(t, s.Writes(), 1)
	o, err := store.CreateOrUpdate(t.Context(), s, "web", change)
	require.NoError(t, err)
	assert.EqualValues(t, 1, o.Version, "it was there")
}
