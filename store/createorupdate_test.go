package store_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/interceptor"
)

func TestCreateOrUpdateCreatesThenUpdatesThenWritesNothing(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{})
	want := 1
	ensure := func() object {
		o, err := store.CreateOrUpdate(t.Context(), apps, nil, "web", func(o *object) error {
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
			o, err := store.CreateOrUpdate(t.Context(), s, nil, "web", func(o *object) error { o.Value.Replicas = 3; return nil })
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
	_, err := store.CreateOrUpdate(t.Context(), apps, nil, "web", refuse)
	require.True(t, err == no)
	create(t, apps, "web")
	_, err = store.CreateOrUpdate(t.Context(), apps, nil, "web", refuse)
	require.True(t, err == no)
	assert.Equal(t, 2, calls, "nothing is retried")
}

func TestCreateOrUpdateReturnsErrorAfterLostReply(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{})
	s := interceptor.New[App](apps)
	s.Inject(interceptor.Rule{Op: "create", Fault: interceptor.LoseReply()})
	change := func(o *object) error { o.Value.Replicas = 3; return nil }
	_, err := store.CreateOrUpdate(t.Context(), s, nil, "web", change)
	require.True(t, errors.Is(err, interceptor.ErrLost))
	assert.Len(t, s.Writes(), 1)
	o, err := store.CreateOrUpdate(t.Context(), s, nil, "web", change)
	require.NoError(t, err)
	assert.EqualValues(t, 1, o.Version, "it was there")
}

// seenThen lets a cache see the objects of apps, and returns it. It sees nothing of what happens afterward.
func seenThen(t *testing.T, apps store.Store[App]) *cache.Indexer[string, object] {
	t.Helper()
	seen := cache.NewIndexer(store.Key[App])
	l, err := apps.List(t.Context())
	require.NoError(t, err)
	for _, o := range l.Items {
		seen.Upsert(o)
	}
	return seen
}

func TestCreateOrUpdateReadsStoreOnlyIfCacheIsStale(t *testing.T) {
	refusal := errors.New("not yet")
	for name, c := range map[string]struct {
		before, meanwhile func(apps store.Store[App])
		change            func(o *object) error
		calls             string
		replicas          int
	}{
		"missing": {calls: "create", replicas: 1},
		"there and seen": {
			before: func(apps store.Store[App]) { create(t, apps, "web") },
			calls:  "update", replicas: 1,
		},
		"an older version was seen": {
			before:    func(apps store.Store[App]) { create(t, apps, "web") },
			meanwhile: func(apps store.Store[App]) { scale(t, apps, "web", 7) },
			calls:     "update get update", replicas: 8,
		},
		"an older version was seen, which needs no change": {
			before:    func(apps store.Store[App]) { create(t, apps, "web") },
			meanwhile: func(apps store.Store[App]) { scale(t, apps, "web", 7) },
			change:    func(o *object) error { o.Value.Replicas = 0; return nil },
			calls:     "update get update", replicas: 0,
		},
		"an older version was seen, for which change returns an error": {
			before:    func(apps store.Store[App]) { create(t, apps, "web") },
			meanwhile: func(apps store.Store[App]) { scale(t, apps, "web", 7) },
			change: func(o *object) error {
				if o.Value.Replicas == 0 {
					return refusal
				}
				o.Value.Replicas = 5
				return nil
			},
			calls: "get update", replicas: 5,
		},
		"an older version was seen, which change makes invalid": {
			before:    func(apps store.Store[App]) { create(t, apps, "web") },
			meanwhile: func(apps store.Store[App]) { scale(t, apps, "web", 7) },
			change: func(o *object) error {
				if o.Value.Replicas == 0 {
					o.Labels = map[string]string{"size": "\x00"}
				}
				return nil
			},
			calls: "update get update", replicas: 7,
		},
		"created, but not seen": {
			meanwhile: func(apps store.Store[App]) { scale(t, apps, create(t, apps, "web").Key, 7) },
			calls:     "create get update", replicas: 8,
		},
		"deleted, but still seen": {
			before:    func(apps store.Store[App]) { create(t, apps, "web"); scale(t, apps, "web", 7) },
			meanwhile: func(apps store.Store[App]) { require.NoError(t, errOf(apps.Delete(t.Context(), "web"))) },
			calls:     "update get create", replicas: 1,
		},
		"another incarnation was seen": {
			before: func(apps store.Store[App]) { create(t, apps, "web") },
			meanwhile: func(apps store.Store[App]) {
				require.NoError(t, errOf(apps.Delete(t.Context(), "web")))
				scale(t, apps, create(t, apps, "web").Key, 7)
			},
			calls: "update get update", replicas: 8,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, apps := newApps(t, store.MemoryConfig{})
			if c.before != nil {
				c.before(apps)
			}
			seen := seenThen(t, apps)
			if c.meanwhile != nil {
				c.meanwhile(apps)
			}
			if c.change == nil {
				c.change = func(o *object) error { o.Value.Replicas++; return nil }
			}
			s := interceptor.New(apps)
			o, err := store.CreateOrUpdate(t.Context(), s, seen, "web", c.change)
			require.NoError(t, err)
			assert.Equal(t, c.replicas, o.Value.Replicas)
			got, err := apps.Get(t.Context(), "web")
			require.NoError(t, err)
			assert.Equal(t, got, o)
			var calls []string
			for _, call := range s.Calls() {
				calls = append(calls, call.Op)
			}
			assert.Equal(t, c.calls, strings.Join(calls, " "))
		})
	}
}

// Many calls increment one number, each with a cache of any age. No increment is lost or counted twice.
func TestCreateOrUpdateLosesNothingWithStaleCache(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{})
	r := rand.New(rand.NewPCG(3, 4))
	seen := []*cache.Indexer[string, object]{seenThen(t, apps)}
	want, life := 0, ""
	for range 500 {
		if r.IntN(20) == 0 && want > 0 {
			require.NoError(t, errOf(apps.Delete(t.Context(), "web")))
			want = 0
		}
		o, err := store.CreateOrUpdate(t.Context(), apps, seen[r.IntN(len(seen))], "web", func(o *object) error {
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
		seen = append(seen, seenThen(t, apps))
	}
}

func TestCreateOrUpdateDoesNotMutateCache(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{})
	_, err := apps.Create(t.Context(), object{
		Key: "web", Value: App{Tags: []string{"old"}}, Labels: map[string]string{"tier": "old"}, Finalizers: []string{"old"},
	})
	require.NoError(t, err)
	seen := seenThen(t, apps)
	want, _ := seenThen(t, apps).Get("web")
	s := interceptor.New(apps)
	o, err := store.CreateOrUpdate(t.Context(), s, seen, "web", func(o *object) error {
		o.Value.Tags[0], o.Labels["tier"], o.Finalizers[0] = "new", "new", "new"
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, "new", o.Value.Tags[0])
	got, _ := seen.Get("web")
	assert.Equal(t, want, got)
	require.Len(t, s.Calls(), 1, "or change did not get the cached object")
}

func TestCreateOrUpdateRereadsUncopyableValue(t *testing.T) {
	type address struct{ IP netip.Addr } // it has unexported fields
	s := interceptor.New(open[address](t, must(store.NewMemory(store.MemoryConfig{})), "address"))
	first, err := s.Create(t.Context(), store.Object[address]{Key: "a", Value: address{netip.MustParseAddr("10.0.0.1")}})
	require.NoError(t, err)
	seen := cache.NewIndexer(store.Key[address])
	seen.Upsert(first)
	s.ForgetCalls()
	want := address{netip.MustParseAddr("10.0.0.2")}
	o, err := store.CreateOrUpdate(t.Context(), s, seen, "a", func(o *store.Object[address]) error { o.Value = want; return nil })
	require.NoError(t, err)
	assert.Equal(t, want, o.Value)
	require.Len(t, s.Calls(), 2)
	assert.Equal(t, "get", s.Calls()[0].Op)
}
