package store_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

func TestErrorMessages(t *testing.T) {
	db := store.NewMemory(store.MemoryConfig{History: 1})
	apps, err := store.Open(db, "app", store.Config[App]{NewUID: numbered()})
	require.NoError(t, err)
	ctx := t.Context()
	create(t, apps, "web")
	o := scale(t, apps, "web", 2)
	old := o
	old.Version--
	wrong := o
	wrong.UID = "u9"
	_, getErr := apps.Get(ctx, "app/1")
	_, createErr := apps.Create(ctx, object{Key: "web"})
	_, keyErr := apps.Create(ctx, object{})
	_, updateErr := apps.Update(ctx, old)
	_, uidErr := apps.Update(ctx, wrong)
	_, _ = apps.Update(ctx, o, store.IfTerm("lease", 7))
	_, fenceErr := apps.Delete(ctx, "web", store.IfTerm("lease", 6))
	_, openErr := store.Open[int](db, "app", store.Config[int]{})
	for _, c := range []struct {
		err  error
		want string
	}{
		{getErr, `store: get app "app/1": object not found`},
		{createErr, `store: create app "web": object already exists`},
		{keyErr, `store: create app: invalid argument: the key is empty`},
		{updateErr, `store: update app "web": object has changed: version is 2, not 1`},
		{uidErr, `store: update app "web": object has changed: UID is "u1", not "u9"`},
		{fenceErr, `store: delete app "web": a later term has written: term 6 of lease "lease" is over, 7 has written`},
		{firstOf(apps, 0), `store: watch app: version is no longer in the history of the source: ` +
			`version 0 is too old, the first to start from is 1`},
		{firstOf(apps, 9), `store: watch app: version is no longer in the history of the source: ` +
			`version 9 is not reached, the store is at 2`},
		{openErr, `store: open app: it is open with values of type store_test.App already, not int`},
	} {
		assert.EqualError(t, c.err, c.want)
	}
}

func TestFencedErrorNamesBothTerms(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{})
	o := create(t, apps, "web")
	o, err := apps.Update(t.Context(), o, store.IfTerm("lease", 7))
	require.NoError(t, err)
	_, err = apps.Update(t.Context(), o, store.IfTerm("lease", 6), store.IfTerm("other", 8))
	var e *store.Error
	require.ErrorAs(t, err, &e)
	e.Err = nil
	assert.Equal(t, &store.Error{
		Op: "update", Kind: "app", Key: "web", Lease: "lease", HaveTerm: 7, WantTerm: 6,
	}, e)
	require.ErrorAs(t, errOf(apps.Delete(t.Context(), "web", store.IfTerm("lease", 7), store.IfUID("x"))), &e)
	assert.Zero(t, e.HaveTerm, "only of a fenced write")
	assert.Zero(t, e.Lease)
	assert.Zero(t, e.WantTerm)
	assert.EqualValues(t, 1, apps.Stats().Fenced, "the other write has not the UID")
}

func TestFencedErrorNamesBothTermsOfOneWrite(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{})
	ctx := store.WithFence(t.Context(), store.Fence{Lease: "lease", Term: 3})
	var e *store.Error
	require.ErrorAs(t, errOf(apps.Create(ctx, object{Key: "web"}, store.IfTerm("lease", 5))), &e)
	require.ErrorIs(t, e, store.ErrFenced)
	assert.Equal(t, [2]uint64{5, 3}, [2]uint64{e.HaveTerm, e.WantTerm})
}

// fencing is a backend that notes the leases of each write.
type fencing struct {
	backend.Backend
	leases *[]string
}

func (f fencing) Transact(
	ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
) (backend.Record, error) {
	*f.leases = nil
	for _, one := range fences {
		*f.leases = append(*f.leases, one.Lease)
	}
	return f.Backend.Transact(ctx, kind, key, fences, decide)
}

func TestBackendReceivesFencesInOrderOfLease(t *testing.T) {
	var leases []string
	apps := must(store.Open(fencing{store.NewMemory(store.MemoryConfig{}), &leases}, "app", store.Config[App]{}))
	ctx := store.WithFence(t.Context(), store.Fence{Lease: "c", Term: 1})
	_, err := apps.Create(ctx, object{Key: "web"}, store.IfTerm("d", 1), store.IfTerm("a", 1), store.IfTerm("b", 1))
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b", "c", "d"}, leases)
}

func TestOnlyErrConflictIsAConflict(t *testing.T) {
	assert.True(t, retry.IsConflict(fmt.Errorf("fake: update: %w", store.ErrConflict)), "also without an Error, as of a fake store")
	assert.True(t, (&store.Error{Err: fmt.Errorf("%w: version", store.ErrConflict)}).Conflict())
	for _, err := range []error{store.ErrNotFound, store.ErrExists, store.ErrFenced, informer.ErrExpired} {
		assert.False(t, (&store.Error{Err: err}).Conflict(), err)
		assert.False(t, retry.IsConflict(err), err)
	}
}

func TestExpiredErrorMatchesInformers(t *testing.T) {
	assert.ErrorIs(t, &store.Error{Err: informer.ErrExpired}, informer.ErrExpired)
}

func TestZeroPreconditionHolds(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{})
	create(t, apps, "web")
	assert.NoError(t, errOf(apps.Delete(t.Context(), "web", store.Precondition{})))
}

func TestPreconditionSliceIsNotModified(t *testing.T) {
	_, apps := newApps(t, store.MemoryConfig{})
	o := create(t, apps, "web")
	backing := []store.Precondition{store.IfUID(o.UID), store.IfTerm("lease", 3), {}, {}}
	_, err := apps.Update(t.Context(), o, backing[:1]...)
	assert.NoError(t, err)
	assert.Equal(t, store.Precondition{}, backing[2])
	next := create(t, apps, "next")
	_, err = apps.Update(t.Context(), next, backing[1:2]...)
	assert.NoError(t, err)
	assert.Equal(t, store.Precondition{}, backing[2])
}
