package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/trim"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/storetest"
)

func TestMemoryIsAStore(t *testing.T) {
	for name, history := range map[string]int{"with the default history": 4096, "with a short history": 40} {
		t.Run(name, func(t *testing.T) {
			storetest.RunInBubbles(t, func(t *testing.T) storetest.Database {
				db := store.NewMemory(store.MemoryConfig{History: history})
				t.Cleanup(func() { assert.NoError(t, db.CheckInvariants()) })
				return storetest.Database{
					Handles:   []backend.Backend{db, db},
					Remembers: history,
					Expire:    func(kind string) error { return trim.History(db, kind, history) },
				}
			})
		})
	}
}

func TestDefaultHistoryIs4096Changes(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{})
	create(t, apps, "web")
	for n := range 4095 {
		scale(t, apps, "web", n+1)
	}
	require.NoError(t, firstOf(apps, 0))
	scale(t, apps, "web", 0)
	require.ErrorIs(t, firstOf(apps, 0), informer.ErrExpired)
	require.NoError(t, firstOf(apps, 1))
}

func TestNegativeHistoryKeepsNothing(t *testing.T) {
	db, apps := newApps(t, store.MemoryConfig{History: -1})
	o := create(t, apps, "web")
	require.ErrorIs(t, firstOf(apps, 0), informer.ErrExpired)
	o2 := scale(t, apps, "web", 3)
	require.ErrorIs(t, firstOf(apps, o.Version), informer.ErrExpired)
	require.NoError(t, db.CheckInvariants())

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, err := range apps.Watch(ctx, o2.Version) {
		require.ErrorIs(t, err, context.Canceled, "from the newest version, there is nothing to miss")
	}
}

// firstOf returns the error of the first pair of a watch. There has to be something to tell.
func firstOf(s store.Store[App], after informer.Version) error {
	for _, err := range s.Watch(context.Background(), after) {
		return err
	}
	return nil
}

func TestKindMayBeReopenedOnlyWithSameType(t *testing.T) {
	db, apps := newApps(t, store.MemoryConfig{})
	o := create(t, apps, "web")

	again := open[App](t, db, "app")
	got, err := again.Get(t.Context(), "web")
	require.NoError(t, err)
	assert.Equal(t, o, got)

	type Other App
	_, err = store.Open[Other](db, "app", store.Config[Other]{})
	var e *store.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, "open", e.Op)
	assert.Equal(t, "app", e.Kind)
	assert.ErrorContains(t, err, "Other")

	_, err = open[Other](t, db, "other").Get(t.Context(), "web")
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = store.Open[App](db, "", store.Config[App]{})
	require.ErrorAs(t, err, &e)
}

func TestVersionsAreSharedByAllKinds(t *testing.T) {
	db, apps := newApps(t, store.MemoryConfig{})
	jobs := open[App](t, db, "job")
	for want := informer.Version(1); want < 10; want += 2 {
		require.Equal(t, want, create(t, apps, fmt.Sprint(want)).Version)
		require.Equal(t, want+1, create(t, jobs, fmt.Sprint(want)).Version)
		for _, s := range []store.Store[App]{apps, jobs} {
			l, err := s.List(t.Context())
			require.NoError(t, err)
			require.Equal(t, want+1, l.Version)
		}
	}
}

func TestUIDsComeFromTheConfig(t *testing.T) {
	apps := must(store.Open(store.NewMemory(store.MemoryConfig{}), "app", store.Config[App]{NewUID: numbered()}))
	assert.Equal(t, "u1", create(t, apps, "a").UID)
	assert.Equal(t, "u2", create(t, apps, "b").UID)
}

func TestUIDsDifferByDefault(t *testing.T) {
	seen := map[string]bool{}
	for range 3 {
		_, apps := newApps(t, store.MemoryConfig{})
		for key := range 100 {
			uid := create(t, apps, fmt.Sprint(key)).UID
			require.GreaterOrEqual(t, len(uid), 20)
			seen[uid] = true
		}
	}
	assert.Len(t, seen, 300, "UIDs of three databases")
}

func TestStoreSetsTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, apps := newApps(t, store.MemoryConfig{})
		start := time.Now()
		o, err := apps.Create(t.Context(), object{Key: "web", Finalizers: []string{"dns"}})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NoError(t, errOf(apps.Delete(t.Context(), "web")))
		time.Sleep(time.Minute)
		require.NoError(t, errOf(apps.Delete(t.Context(), "web")))
		got, err := apps.Get(t.Context(), "web")
		require.NoError(t, err)
		assert.True(t, o.Created.Equal(start), o.Created)
		assert.Equal(t, o.Created, got.Created)
		assert.True(t, got.Deleting.Equal(start.Add(time.Minute)), "%v: at the first request", got.Deleting)
		assert.Equal(t, time.UTC, got.Deleting.Location())
	})
}

func TestNewUIDMayUseStore(t *testing.T) {
	var apps store.Store[App]
	apps = must(store.Open(store.NewMemory(store.MemoryConfig{}), "app", store.Config[App]{NewUID: func() string {
		l, err := apps.List(context.Background()) // would wait forever if Create held the lock
		require.NoError(t, err)
		return fmt.Sprint("after", l.Version)
	}}))
	assert.Equal(t, "after0", create(t, apps, "a").UID)
}

// Writers of two kinds have short histories, and watchers fall behind and list again. Finally, every watcher holds
// the true state.
func TestWritersAndSlowWatchersConverge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writers, writes = 8, 150
		db, apps := newApps(t, store.MemoryConfig{History: 10})
		jobs := open[App](t, db, "job")
		ctx, stop := context.WithCancel(t.Context())
		var watchers, all sync.WaitGroup
		held := make([]map[string]object, 6)
		for i := range held {
			s := []store.Store[App]{apps, jobs}[i%2]
			watchers.Go(func() { held[i] = mirror(t, ctx, s) }) // ends with stop; waited for below
		}
		for w := range writers {
			all.Go(func() { // ends after its writes; waited for below
				r := rand.New(rand.NewPCG(uint64(w), 1))
				for range writes {
					randomWrite(t, []store.Store[App]{apps, jobs}[r.IntN(2)], r)
				}
			})
		}
		all.Wait()
		require.NoError(t, db.CheckInvariants())
		time.Sleep(time.Second) // until the watchers have caught up
		stop()
		watchers.Wait()
		for i, s := range []store.Store[App]{apps, jobs, apps, jobs, apps, jobs} {
			l, err := s.List(t.Context())
			require.NoError(t, err)
			want := map[string]object{}
			for _, o := range l.Items {
				want[o.Key] = o
			}
			assert.Equal(t, want, held[i], "watcher %d", i)
		}
	})
}

// mirror follows s until ctx ends, and returns what it then holds.
func mirror(t *testing.T, ctx context.Context, s store.Store[App]) map[string]object {
	for {
		held := map[string]object{}
		l, err := s.List(context.WithoutCancel(ctx))
		assert.NoError(t, err)
		for _, o := range l.Items {
			held[o.Key] = o
		}
		for e, err := range s.Watch(ctx, l.Version) {
			switch {
			case ctx.Err() != nil && err != nil:
				return held
			case err != nil:
				assert.ErrorIs(t, err, informer.ErrExpired)
			case e.Type == informer.Deleted:
				delete(held, e.Object.Key)
			case e.Type != informer.Bookmark:
				held[e.Object.Key] = e.Object
			}
		}
	}
}

func randomWrite(t *testing.T, s store.Store[App], r *rand.Rand) {
	ctx, key := context.Background(), fmt.Sprint(r.IntN(5))
	var err error
	switch o, getErr := s.Get(ctx, key); {
	case getErr != nil:
		_, err = s.Create(ctx, object{Key: key, Finalizers: []string{"f"}[:r.IntN(2)]})
	case r.IntN(4) == 0:
		_, err = s.Delete(ctx, key)
	default:
		o.Value.Replicas, o.Finalizers = r.IntN(10), nil
		_, err = s.Update(ctx, o)
	}
	var e *store.Error
	assert.True(t, err == nil || assert.ErrorAs(t, err, &e))
}
