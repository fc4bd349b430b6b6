package store_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/interceptor"
)

// contested returns an interceptor in front of apps, in which another writer changes "web" before each of the first writes.
func contested(apps store.Store[App], times int) *interceptor.Store[App] {
	s := interceptor.New[App](apps)
	s.Inject(interceptor.Rule{Op: "update", Times: times, Fault: interceptor.Before(func(ctx context.Context) error {
		now, err := apps.Get(ctx, "web")
		if err == nil {
			now.Value.Tags = append(now.Value.Tags, "other")
			_, err = apps.Update(ctx, now)
		}
		return err
	})})
	return s
}

func raise(o *object) error { o.Value.Replicas++; return nil }

func TestPatchReadsChangesAndWrites(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{})
	before := create(t, apps, "web")
	after, err := store.Patch(t.Context(), apps, "web", raise)
	require.NoError(t, err)
	assert.Equal(t, 1, after.Value.Replicas)
	assert.Equal(t, before.UID, after.UID)
	got, err := apps.Get(t.Context(), "web")
	require.NoError(t, err)
	assert.Equal(t, got, after)
}

func TestPatchRetriesWithFreshDataAfterConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, apps := newApps(t, store.MemoryConfig{})
		create(t, apps, "web")
		c := contested(apps, 3)
		start := time.Now()
		after, err := store.Patch(t.Context(), c, "web", raise)
		require.NoError(t, err)
		assert.Equal(t, App{Replicas: 1, Tags: []string{"other", "other", "other"}}, after.Value)
		assert.Len(t, c.Writes(), 4)
		assert.GreaterOrEqual(t, time.Since(start), 7*time.Millisecond)
		assert.LessOrEqual(t, time.Since(start), 14*time.Millisecond)
	})
}

func TestPatchGivesUpAfterTenConflicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, apps := newApps(t, store.MemoryConfig{})
		create(t, apps, "web")
		c := contested(apps, -1)
		start := time.Now()
		after, err := store.Patch(t.Context(), c, "web", raise)
		require.ErrorIs(t, err, store.ErrConflict)
		assert.True(t, retry.IsConflict(err), "a caller that retries Patch can tell")
		assert.Len(t, c.Writes(), 10)
		assert.Zero(t, after)
		assert.Less(t, time.Since(start), time.Second)
	})
}

func TestConcurrentPatchesLoseNoUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, apps := newApps(t, store.MemoryConfig{})
		create(t, apps, "web")
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() { // ends with the patch; waited for below
				_, err := store.Patch(context.Background(), apps, "web", raise)
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		got, err := apps.Get(t.Context(), "web")
		require.NoError(t, err)
		assert.Equal(t, 32, got.Value.Replicas)
	})
}

func TestNoOpPatchWritesNothing(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{})
	before := create(t, apps, "web")
	after, err := store.Patch(t.Context(), apps, "web", func(o *object) error { o.Created = time.Now(); return nil })
	require.NoError(t, err)
	assert.Equal(t, before, after)
}

func TestPatchWritesNothingWhenChangeFails(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{})
	before := create(t, apps, "web")
	failure := errors.New("no")
	for _, want := range []error{failure, &store.Error{Err: store.ErrConflict}} {
		calls := 0
		_, err := store.Patch(t.Context(), apps, "web", func(o *object) error {
			calls++
			o.Value.Replicas = 9
			o.Value.Tags = append(o.Value.Tags, "x")
			return want
		})
		assert.Equal(t, want, err, "the very error")
		assert.Equal(t, 1, calls, "one that looks like a conflict is not retried either")
	}
	got, err := apps.Get(t.Context(), "web")
	require.NoError(t, err)
	assert.Equal(t, before, got)
}

func TestPatchCannotTargetAnotherObject(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{})
	other := create(t, apps, "other")
	web := create(t, apps, "web")
	after, err := store.Patch(t.Context(), apps, "web", func(o *object) error {
		o.Key, o.UID, o.Version, o.Value.Replicas = other.Key, other.UID, other.Version, 5
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, "web", after.Key)
	assert.Equal(t, web.UID, after.UID)
	got, err := apps.Get(t.Context(), "other")
	require.NoError(t, err)
	assert.Equal(t, other, got)
}

func TestPatchReturnsPermanentErrorsImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, apps := newApps(t, store.MemoryConfig{})
		create(t, apps, "web")
		first := create(t, apps, "old")
		now := scale(t, apps, "old", 3)
		_, err := apps.Create(t.Context(), object{Key: "led"}, store.IfTerm("lease", 4))
		require.NoError(t, err)
		for _, c := range []struct {
			key  string
			pre  store.Precondition
			want error
		}{
			{"gone", store.Precondition{}, store.ErrNotFound},
			{"old", store.IfVersion(first.Version), store.ErrConflict},
			{"old", store.IfUID("x"), store.ErrConflict},
			{"old", store.IfTerm("lease", 3), store.ErrFenced},
		} {
			start := time.Now()
			_, err := store.Patch(t.Context(), apps, c.key, raise, c.pre)
			require.ErrorIs(t, err, c.want)
			assert.Zero(t, time.Since(start))
		}
		after, err := store.Patch(t.Context(), apps, "old", raise,
			store.IfVersion(now.Version), store.IfUID(now.UID), store.IfTerm("lease", 4))
		require.NoError(t, err)
		assert.Equal(t, 4, after.Value.Replicas)
	})
}

func TestPatchEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, apps := newApps(t, store.MemoryConfig{})
		create(t, apps, "web")
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(5*time.Millisecond, func() { cancel(cause) })
		start := time.Now()
		_, err := store.Patch(ctx, contested(apps, -1), "web", raise)
		require.ErrorIs(t, err, cause)
		assert.Equal(t, 5*time.Millisecond, time.Since(start))
	})
}

func TestAmbiguousPatchIsNotRetried(t *testing.T) {
	for applied, fault := range []interceptor.Fault{interceptor.LoseRequest(), interceptor.LoseReply()} {
		_, apps := newApps(t, store.MemoryConfig{})
		create(t, apps, "web")
		s := interceptor.New[App](apps)
		s.Inject(interceptor.Rule{Op: "update", Fault: fault})
		_, err := store.Patch(t.Context(), s, "web", raise)
		require.ErrorIs(t, err, interceptor.ErrLost)
		assert.Len(t, s.Writes(), 1, "Patch does not guess")
		got, err := apps.Get(t.Context(), "web")
		require.NoError(t, err)
		assert.Equal(t, applied, got.Value.Replicas)
	}
}

func TestFailedReadInPatchWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, apps := newApps(t, store.MemoryConfig{})
		create(t, apps, "web")
		s := interceptor.New[App](apps)
		down := errors.New("down")
		s.Inject(interceptor.Rule{Op: "get", Fault: interceptor.Fail(down)})
		_, err := store.Patch(t.Context(), s, "web", raise)
		require.ErrorIs(t, err, down)
		s.Inject(interceptor.Rule{Op: "get", Fault: interceptor.Hang()})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = store.Patch(ctx, s, "web", raise)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Empty(t, s.Writes())
	})
}

// A change that the write ignores is lost. If there is no other change, the caller has taken the wrong function.
func TestPatchRefusesChangeThatItCannotWrite(t *testing.T) {
	type site struct {
		Servers int
		Running int    `store:"status"`
		Problem string `store:"status"`
	}
	type patch func(context.Context, store.Store[site], string, func(*store.Object[site]) error, ...store.Precondition) (store.Object[site], error)
	for name, test := range map[string]struct {
		patch  patch
		change func(*site)
		says   string
	}{
		"Patch of status":                         {store.Patch[site], func(s *site) { s.Running = 2 }, "only the status (Running) changed, which update does not write: use PatchStatus"},
		"Patch of both":                           {store.Patch[site], func(s *site) { s.Servers, s.Running = 2, 2 }, ""},
		"Patch without a change":                  {store.Patch[site], func(*site) {}, ""},
		"Patch with the value that it wants":      {store.Patch[site], func(s *site) { *s = site{Servers: 1} }, ""},
		"PatchStatus of what is not status":       {store.PatchStatus[site], func(s *site) { s.Servers = 2 }, "only what is not status changed, which update status does not write: use Patch"},
		"PatchStatus of both":                     {store.PatchStatus[site], func(s *site) { s.Servers, s.Running = 2, 2 }, ""},
		"PatchStatus without a change":            {store.PatchStatus[site], func(*site) {}, ""},
		"CreateOrUpdate keeps a status it had":    {createOrUpdate[site], func(s *site) { *s = site{Servers: 1} }, ""},
		"CreateOrUpdate of status":                {createOrUpdate[site], func(s *site) { s.Problem = "none" }, "only the status (Problem) changed, which update does not write: use PatchStatus"},
		"PatchStatus to the status that is there": {store.PatchStatus[site], func(s *site) { s.Running = 1 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			sites := open[site](t, store.NewMemory(store.MemoryConfig{}), "Site")
			_, err := sites.Create(t.Context(), store.Object[site]{Key: "berlin", Value: site{1, 1, "slow"}})
			require.NoError(t, err)
			_, err = test.patch(t.Context(), sites, "berlin", func(o *store.Object[site]) error { test.change(&o.Value); return nil })
			if test.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, store.ErrInvalid)
			require.ErrorContains(t, err, test.says)
			require.ErrorContains(t, err, "berlin")
		})
	}
}

func createOrUpdate[T any](
	ctx context.Context, s store.Store[T], key string, change func(*store.Object[T]) error, _ ...store.Precondition,
) (store.Object[T], error) {
	return store.CreateOrUpdate(ctx, s, key, change)
}
