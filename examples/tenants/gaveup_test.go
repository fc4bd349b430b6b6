package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
)

const acme = "acme/web"

// refusing is a cloud that refuses every call, after it has called during.
type refusing struct{ during func() }

var errRefused = retry.Permanent(errors.New("the quota is used up"))

func (c refusing) Put(context.Context, store.Object[Resource]) (informer.Version, error) {
	c.during()
	return 0, errRefused
}

func (c refusing) Delete(context.Context, store.Object[Resource]) error {
	c.during()
	return errRefused
}

// Between a reconcile that fails and GaveUp, the row may change. Nobody has given up the new generation.
func TestTenantIsGivenUpInTheGenerationThatWasTried(t *testing.T) {
	for name, between := range map[string]struct {
		change func(t *testing.T, s store.Store[Tenant])
		parked bool // the status says so of the present generation
	}{
		"nothing has happened": {func(*testing.T, store.Store[Tenant]) {}, true},
		"the row has changed": {func(t *testing.T, s store.Store[Tenant]) {
			_, err := store.Patch(t.Context(), s, acme, func(o *store.Object[Tenant]) error { o.Value.Row.Plan = "gold"; return nil })
			require.NoError(t, err)
		}, false},
		"the row was deleted, and made again": {func(t *testing.T, s store.Store[Tenant]) {
			_, err := store.Patch(t.Context(), s, acme, func(o *store.Object[Tenant]) error { o.Finalizers = nil; return nil })
			require.NoError(t, err)
			_, err = s.Delete(t.Context(), acme)
			require.NoError(t, err)
			_, err = s.Create(t.Context(), store.Object[Tenant]{Key: acme, Value: Tenant{Row: Row{Customer: "acme", Name: "web", Plan: "gold"}}})
			require.NoError(t, err)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			objects, owned, record := emptyStores(t)
			seen, err := informer.New(owned, store.Key, informer.Config{})
			require.NoError(t, err)
			row := Row{Customer: "acme", Name: "web", Plan: "none"}
			c := &tenants{
				row:     func(context.Context, string) (Row, bool, error) { return row, true, nil },
				cached:  func(string) (Row, bool) { return row, true },
				objects: objects, owned: owned, children: owner.NewChildren(owned, seen), record: record,
			}
			_, err = c.reconcile(t.Context(), acme)
			require.ErrorContains(t, err, `there is no plan "none"`)
			require.True(t, retry.IsPermanent(err))
			between.change(t, objects)
			require.NoError(t, c.gaveUp(t.Context(), acme, err))

			now, err := objects.Get(t.Context(), acme)
			require.NoError(t, err)
			ready, _ := now.Value.Conditions.Get("Ready")
			require.Equal(t, between.parked, ready.Reason == "Parked" && ready.Generation == now.Generation, "%+v of generation %d", ready, now.Generation)
		})
	}
}

func TestResourceIsGivenUpInTheGenerationThatWasTried(t *testing.T) {
	const bucket = acme + "/bucket"
	for name, c := range map[string]struct {
		during func(t *testing.T, s store.Store[Resource])
		parked bool
	}{
		"nothing has happened": {func(*testing.T, store.Store[Resource]) {}, true},
		"it has changed during the call": {func(t *testing.T, s store.Store[Resource]) {
			_, err := store.Patch(t.Context(), s, bucket, func(o *store.Object[Resource]) error { o.Value.Region = "us"; return nil })
			require.NoError(t, err)
		}, false},
		"it was deleted during the call, and made again": {func(t *testing.T, s store.Store[Resource]) {
			_, err := store.Patch(t.Context(), s, bucket, func(o *store.Object[Resource]) error { o.Finalizers = nil; return nil })
			require.NoError(t, err)
			_, err = s.Delete(t.Context(), bucket)
			require.NoError(t, err)
			_, err = s.Create(t.Context(), store.Object[Resource]{Key: bucket, Finalizers: []string{cleanup}, Value: Resource{Kind: "bucket", Region: "us"}})
			require.NoError(t, err)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, owned, _ := emptyStores(t)
			made, err := owned.Create(t.Context(), store.Object[Resource]{
				Key: bucket, Finalizers: []string{cleanup}, Value: Resource{Kind: "bucket", Region: "eu"},
			})
			require.NoError(t, err)
			r := &resources{objects: owned, cloud: refusing{func() { c.during(t, owned) }}}
			_, why := r.reconcile(t.Context(), bucket)
			require.ErrorIs(t, why, errRefused)
			require.NoError(t, r.gaveUp(t.Context(), bucket, why))

			now, err := owned.Get(t.Context(), bucket)
			require.NoError(t, err)
			in, _ := now.Value.Conditions.Get("InCloud")
			require.Equal(t, c.parked, in.Reason == "Parked" && in.Generation == now.Generation,
				"%+v of generation %d, after %d of %s", in, now.Generation, made.Generation, made.UID)
			require.True(t, pending(now), "the cloud has to be called")
		})
	}
}

// emptyStores returns the stores of an empty database, and a recorder.
func emptyStores(t *testing.T) (store.Store[Tenant], store.Store[Resource], *events.Recorder) {
	db := store.NewMemory(store.MemoryConfig{})
	objects, err := store.Open[Tenant](db, kindTenant, store.Config[Tenant]{})
	require.NoError(t, err)
	owned, err := store.Open[Resource](db, kindResource, store.Config[Resource]{})
	require.NoError(t, err)
	record, err := events.NewRecorder(events.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return objects, owned, record
}
