package owner_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
)

func TestCleanupRunsAfterStartedApplyDespiteCrashes(t *testing.T) {
	for code := range 20 * 20 * 3 {
		f := newFixture(t)
		f.app("web")
		c := &crasher{at: code % 20, others: func(now int) {
			if now == code/20%20 {
				_, _ = f.apps.Delete(t.Context(), "web")
			}
		}}
		apps := fragile[App]{f.apps, c}
		half := code / 400 // how much of apply is done when it crashes: never, none, all
		made, begun := false, false
		fin := owner.Finalizer[App]{
			Name: "dns",
			Apply: func(context.Context, store.Object[App]) error {
				begun = true
				return c.around(func() error {
					made = half != 1
					if half == 1 {
						half = 0
						return errCrash
					}
					return nil
				})
			},
			Cleanup: func(context.Context, store.Object[App]) error {
				return c.around(func() error { made = false; return nil })
			},
		}
		gone := false
		for n := range 12 { // each time as after a restart
			if n == 6 {
				_, _ = f.apps.Delete(t.Context(), "web") // if it was not before
			}
			o, live, err := fin.Reconcile(t.Context(), apps, "web")
			now, getErr := f.apps.Get(t.Context(), "web")
			gone = errors.Is(getErr, store.ErrNotFound)
			if err == nil && c.now <= code/20%20 { // the object has not changed since
				require.Equal(t, !gone && now.Deleting.IsZero(), live, "%d", code)
			}
			if err == nil && live && c.now <= code/20%20 {
				require.Equal(t, now, o, "%d: it is the object as it was written", code)
			}
			require.False(t, gone && made, "%d: it is gone, but its resource is left (begun %v)", code, begun)
			if !gone && made {
				o, _ := f.apps.Get(t.Context(), "web")
				require.Contains(t, o.Finalizers, "dns", fmt.Sprint(code))
			}
		}
		require.True(t, gone, "%d: it is eventually deleted", code)
	}
}

func TestFailedCleanupKeepsObjectAndOtherFinalizers(t *testing.T) {
	f := newFixture(t)
	_, err := f.apps.Create(t.Context(), store.Object[App]{Key: "web", Finalizers: []string{"disk"}})
	require.NoError(t, err)
	fail := errCrash
	fin := owner.Finalizer[App]{
		Name: "dns", Apply: func(context.Context, store.Object[App]) error { return nil },
		Cleanup: func(context.Context, store.Object[App]) error { return fail },
	}
	require.NoError(t, reconciled(fin.Reconcile(t.Context(), f.apps, "web")))
	f.deleteApp("web")
	require.ErrorIs(t, reconciled(fin.Reconcile(t.Context(), f.apps, "web")), errCrash)
	o, err := f.apps.Get(t.Context(), "web")
	require.NoError(t, err)
	require.Equal(t, []string{"disk", "dns"}, o.Finalizers)
	fail = nil
	require.NoError(t, reconciled(fin.Reconcile(t.Context(), f.apps, "web")))
	o, err = f.apps.Get(t.Context(), "web")
	require.NoError(t, err)
	require.Equal(t, []string{"disk"}, o.Finalizers)
}

func TestDyingObjectWithoutFinalizerIsLeftAlone(t *testing.T) {
	f := newFixture(t)
	_, err := f.apps.Create(t.Context(), store.Object[App]{Key: "web", Finalizers: []string{"disk"}})
	require.NoError(t, err)
	f.deleteApp("web")
	never := func(context.Context, store.Object[App]) error { panic("called") }
	fin := owner.Finalizer[App]{Name: "dns", Apply: never, Cleanup: never}
	require.NoError(t, reconciled(fin.Reconcile(t.Context(), f.apps, "web")))
	require.NoError(t, reconciled(fin.Reconcile(t.Context(), f.apps, "none")))
}

// reconciled returns the error of a Reconcile.
func reconciled(_ store.Object[App], _ bool, err error) error { return err }

func TestFinalizerReturnsObjectAtWrittenVersion(t *testing.T) {
	f := newFixture(t)
	fin := owner.Finalizer[App]{
		Name:    "dns",
		Apply:   func(context.Context, store.Object[App]) error { return nil },
		Cleanup: func(context.Context, store.Object[App]) error { return nil },
	}
	created := f.app("web")
	o, live, err := fin.Reconcile(t.Context(), f.apps, "web")
	require.NoError(t, err)
	assert.True(t, live)
	assert.Greater(t, o.Version, created.Version, "the finalizer was written")
	stored, err := f.apps.Get(t.Context(), "web")
	require.NoError(t, err)
	assert.Equal(t, stored, o)

	again, live, err := fin.Reconcile(t.Context(), f.apps, "web")
	require.NoError(t, err)
	assert.True(t, live)
	assert.Equal(t, stored, again, "nothing was written")

	f.deleteApp("web")
	dying, err := f.apps.Get(t.Context(), "web")
	require.NoError(t, err)
	o, live, err = fin.Reconcile(t.Context(), f.apps, "web")
	require.NoError(t, err)
	assert.False(t, live)
	assert.Greater(t, o.Version, dying.Version, "the version of the removal")
	assert.Equal(t, created.UID, o.UID)
	assert.Empty(t, o.Finalizers)

	o, live, err = fin.Reconcile(t.Context(), f.apps, "web")
	require.NoError(t, err)
	assert.False(t, live)
	assert.Zero(t, o)
}

func TestFinalizerReturnsObjectKeptByOtherFinalizers(t *testing.T) {
	f := newFixture(t)
	_, err := f.apps.Create(t.Context(), store.Object[App]{Key: "web", Finalizers: []string{"disk"}})
	require.NoError(t, err)
	nothing := func(context.Context, store.Object[App]) error { return nil }
	fin := owner.Finalizer[App]{Name: "dns", Apply: nothing, Cleanup: nothing}
	require.NoError(t, reconciled(fin.Reconcile(t.Context(), f.apps, "web")))
	f.deleteApp("web")
	for range 2 {
		o, live, err := fin.Reconcile(t.Context(), f.apps, "web")
		require.NoError(t, err)
		assert.False(t, live)
		stored, err := f.apps.Get(t.Context(), "web")
		require.NoError(t, err)
		assert.Equal(t, stored, o)
	}
}

func TestApplyAndCleanupMayRequestRetry(t *testing.T) {
	f := newFixture(t)
	pending := errors.New("the record is not published yet")
	notYet := retry.NotYet(pending, time.Minute)
	calls := ""
	fin := owner.Finalizer[App]{
		Name:    "dns",
		Apply:   func(context.Context, store.Object[App]) error { calls += "a"; return notYet },
		Cleanup: func(context.Context, store.Object[App]) error { calls += "c"; return notYet },
	}
	created := f.app("web")
	later := func(err error) {
		t.Helper()
		require.ErrorIs(t, err, pending)
		require.True(t, retry.IsNotYet(err), "a controller does not count it as a failure")
		after, ok := retry.Delay(err)
		require.True(t, ok)
		assert.Equal(t, time.Minute, after)
	}
	o, live, err := fin.Reconcile(t.Context(), f.apps, "web")
	later(err)
	assert.EqualError(t, err, `owner: apply "dns" to app "web": the record is not published yet`)
	assert.True(t, live)
	assert.Greater(t, o.Version, created.Version, "the written objects are known despite the error")

	f.deleteApp("web")
	for range 2 {
		o, live, err = fin.Reconcile(t.Context(), f.apps, "web")
		later(err)
		assert.EqualError(t, err, `owner: clean up "dns" of app "web": the record is not published yet`)
		assert.False(t, live)
		stored, err := f.apps.Get(t.Context(), "web")
		require.NoError(t, err, "the object stays")
		assert.Equal(t, stored, o)
	}
	notYet = nil
	require.NoError(t, reconciled(fin.Reconcile(t.Context(), f.apps, "web")))
	assert.False(t, f.hasApp("web"))
	assert.Equal(t, "accc", calls)
}

func TestFinalizerWithoutRequiredFieldPanics(t *testing.T) {
	f := newFixture(t)
	nothing := func(context.Context, store.Object[App]) error { return nil }
	for message, fin := range map[string]owner.Finalizer[App]{
		"owner: reconcile a finalizer: Name: is empty":  {Apply: nothing, Cleanup: nothing},
		"owner: reconcile a finalizer: Apply: is nil":   {Name: "dns", Cleanup: nothing},
		"owner: reconcile a finalizer: Cleanup: is nil": {Name: "dns", Apply: nothing},
	} {
		assert.PanicsWithValue(t, message, func() { _, _, _ = fin.Reconcile(t.Context(), f.apps, "none") })
	}
}

func TestFinalizerRemovedDuringCleanupIsNoError(t *testing.T) {
	f := newFixture(t)
	must(f.apps.Create(t.Context(), store.Object[App]{Key: "web", Finalizers: []string{"dns"}}))
	f.deleteApp("web")
	fin := owner.Finalizer[App]{
		Name:  "dns",
		Apply: func(context.Context, store.Object[App]) error { t.Error("applied"); return nil },
		Cleanup: func(context.Context, store.Object[App]) error {
			return errOf(store.Patch(t.Context(), f.apps, "web", func(o *store.Object[App]) error { o.Finalizers = nil; return nil }))
		},
	}
	_, live, err := fin.Reconcile(t.Context(), f.apps, "web")
	require.NoError(t, err)
	require.False(t, live)
	require.False(t, f.hasApp("web"))
}
