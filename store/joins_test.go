package store_test

import (
	"context"
	"iter"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

// joining notes the transaction of the caller that each call finds in its context, as a backend on SQL would use it.
type joining struct {
	backend.Backend
	found *[]string
}

type txKey struct{}

func (j joining) note(ctx context.Context, call string) {
	tx, _ := ctx.Value(txKey{}).(string)
	*j.found = append(*j.found, call+" "+tx)
}

func (j joining) Get(ctx context.Context, kind, key string) (backend.Record, error) {
	j.note(ctx, "get")
	return j.Backend.Get(ctx, kind, key)
}

func (j joining) List(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
	j.note(ctx, "list")
	return j.Backend.List(ctx, kind, q)
}

func (j joining) Watch(ctx context.Context, kind string, q backend.Query, after informer.Version) iter.Seq2[backend.Change, error] {
	j.note(ctx, "watch")
	return j.Backend.Watch(ctx, kind, q, after)
}

func (j joining) Transact(ctx context.Context, kind, key string, fences []store.Fence, decide backend.Decide) (backend.Record, error) {
	j.note(ctx, "transact")
	return j.Backend.Transact(ctx, kind, key, fences, decide)
}

func TestBackendReceivesTransactionFromContext(t *testing.T) {
	var found []string
	apps := must(store.Open(joining{store.NewMemory(store.MemoryConfig{}), &found}, "app", store.Config[App]{}))
	ctx := context.WithValue(t.Context(), txKey{}, "tx1")
	ctx = store.WithFence(ctx, store.Fence{Lease: "shop", Term: 1})
	_, err := apps.Create(ctx, object{Key: "web"})
	require.NoError(t, err)
	_, err = store.Patch(ctx, apps, "web", raise)
	require.NoError(t, err)
	_, err = store.CreateOrUpdate(ctx, apps, "web", raise)
	require.NoError(t, err)
	_, err = apps.List(ctx)
	require.NoError(t, err)
	for range apps.Watch(ctx, 0) {
		break
	}
	require.NoError(t, errOf(apps.Delete(ctx, "web")))
	assert.Equal(t, []string{
		"transact tx1", "get tx1", "transact tx1", "get tx1", "transact tx1", "list tx1", "watch tx1", "transact tx1",
	}, found)
}
