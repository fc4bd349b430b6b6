package store_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/interceptor"
)

func TestCreateOrUpdateCreatesThenUpdatesThenWritesNothing(t *testing.T) {
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

// Another writer creates or deletes the object right before each write of the first attempts.
func TestCreateOrUpdateRetriesAfterConcurrentWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for op, meanwhile := range map[string]func(context.Context, store.Store[App]) error{
			"create": func(ctx context.Context, apps store.Store[App]) error {
				return errOf(apps.Create(ctx, object{Key: "web", Value: App{Tags: []string{"theirs"}}}))
			},
			"update": func(ctx context.Context, apps store.Store[App]) error { return errOf(apps.Delete(ctx, "web")) },
		} {
			_, apps := newApps(t, store.MemoryConfig{})
			if op == "update" {
				create(t, apps, "web")
			}
			s := interceptor.New[App](apps)
			hit := s.Inject(interceptor.Rule{Op: op, Fault: interceptor.Before(func(ctx context.Context) error {
				return meanwhile(ctx, apps)
			})})
			o, err := store.CreateOrUpdate(t.Context(), s, "web", func(o *object) error { o.Value.Replicas = 3; return nil })
			require.NoError(t, err, op)
			require.Equal(t, 1, hit.Hits())
			assert.Equal(t, 3, o.Value.Replicas)
			assert.Equal(t, op == "create", o.Value.Tags != nil, "their writes stay")
		}
	})
}

func TestCreateOrUpdateReturnsChangeErrorUnwrapped(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{})
	no, calls := store.ErrNotFound, 0 // even an error that the store has, too
	refuse := func(*object) error { calls++; return no }
	_, err := store.CreateOrUpdate(t.Context(), apps, "web", refuse)
	require.True(t, err == no)
	create(t, apps, "web")
	_, err = store.CreateOrUpdate(t.Context(), apps, "web", refuse)
	require.True(t, err == no)
	assert.Equal(t, 2, calls, "nothing is retried")
}

func TestCreateOrUpdateReturnsErrorAfterLostReply(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{})
	s := interceptor.New[App](apps)
	s.Inject(interceptor.Rule{Op: "create", Fault: interceptor.LoseReply()})
	change := func(o *object) error { o.Value.Replicas = 3; return nil }
	_, err := store.CreateOrUpdate(t.Context(), s, "web", change)
	require.True(t, errors.Is(err, interceptor.ErrLost))
	assert.Len(t, s.Writes(), 1)
	o, err := store.CreateOrUpdate(t.Context(), s, "web", change)
	require.NoError(t, err)
	assert.EqualValues(t, 1, o.Version, "it was there")
}

// Many calls increment one number, whatever change does to the key, the UID, and the version. A deletion begins another life.
func TestCreateOrUpdateIgnoresChangesOfIdentity(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{})
	r := rand.New(rand.NewPCG(3, 4))
	want, life := 0, ""
	for range 500 {
		if r.IntN(20) == 0 && want > 0 {
			require.NoError(t, errOf(apps.Delete(t.Context(), "web")))
			want = 0
		}
		o, err := store.CreateOrUpdate(t.Context(), apps, "web", func(o *object) error {
			o.Key, o.UID, o.Version = "other", "other", 1
			o.Value.Replicas++
			o.Labels = map[string]string{"by": "test"}
			return nil
		})
		require.NoError(t, err)
		if want++; want > 1 {
			require.Equal(t, life, o.UID)
		}
		life = o.UID
		require.Equal(t, want, o.Value.Replicas)
	}
}
