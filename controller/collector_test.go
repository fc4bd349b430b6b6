package controller_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	ownership "github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
)

func TestCollectorDeletesChildrenOfDeletedOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type site struct{}
		type server struct{}
		db := must(store.NewMemory(store.MemoryConfig{}))
		sites := must(store.Open(db, "Site", store.Config[site]{}))
		servers := must(store.Open(db, "Server", store.Config[server]{}))
		seenSites := must(informer.New(sites, store.Key, informer.Config{}))
		seenServers := must(informer.New(servers, store.Key, informer.Config{}))
		children := ownership.NewChildren(servers, seenServers)
		ctx, stop := context.WithCancel(t.Context())
		before, err := children.Apply(ctx, store.Ref{Kind: "Site", Key: "ulm", UID: "gone"}, map[string]server{"ulm-0": {}})
		require.NoError(t, err)
		require.Len(t, before, 1)

		c, err := controller.NewCollector(children, sites, seenSites, controller.Config[string]{})
		require.NoError(t, err)
		assert.Equal(t, "Server collector", c.Name())
		ended := make(chan error, 3)
		for _, run := range []func(context.Context) error{seenSites.Run, seenServers.Run, c.Run} {
			go func() { ended <- run(ctx) }() // ends with ctx, and is waited for below
		}
		synctest.Wait()
		list := func() int { return len(must(servers.List(ctx)).Items) }
		assert.Zero(t, list(), "keys left before it started")

		berlin := must(sites.Create(ctx, store.Object[site]{Key: "berlin"}))
		_, err = children.Apply(ctx, berlin.Ref(), map[string]server{"berlin-0": {}, "berlin-1": {}})
		require.NoError(t, err)
		must(servers.Create(ctx, store.Object[server]{Key: "free"}))
		synctest.Wait()
		assert.Equal(t, 3, list())
		must(sites.Delete(ctx, "berlin"))
		synctest.Wait()
		assert.Equal(t, 1, list(), "only the one that has no owner is left")
		stop()
		for range 3 {
			require.NoError(t, <-ended)
		}
	})
}
