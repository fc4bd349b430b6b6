// Command 07-owner has sites that own servers. When a site is deleted its servers go after it, go before it, or stay, as
// whoever deletes it says.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/wait"
)

type (
	Site   struct{ Servers int } // wanted
	Server struct{}
)

const kindSite = "Site" // in the references of its servers

func main() {
	db, err := store.NewMemory(store.MemoryConfig{})
	check(err)
	sites, err := store.Open[Site](db, kindSite, store.Config[Site]{})
	check(err)
	servers, err := store.Open[Server](db, "Server", store.Config[Server]{})
	check(err)
	siteCache, err := informer.New(sites, store.Key[Site], informer.Config{Name: "sites"})
	check(err)
	serverCache, err := informer.New(servers, store.Key[Server], informer.Config{Name: "servers"})
	check(err)

	// This controller creates the servers of a site, and carries out what is to become of them when the site is deleted.
	cascade := owner.NewCascade(sites, owner.DependentsIn(servers, nil))
	create, err := controller.New("sites", controller.Func[string](func(ctx context.Context, key string) (controller.Result, error) {
		site, ok := siteCache.Get(key)
		if !ok || !site.Deleting.IsZero() {
			_, err := cascade.Reconcile(ctx, key)
			return controller.Result{}, err
		}
		for i := range site.Value.Servers {
			server := store.Object[Server]{Key: fmt.Sprintf("%s-%d", key, i)} // so that none can be created twice
			if err := owner.SetController(&server, site.Ref(kindSite)); err != nil {
				return controller.Result{}, err
			}
			if _, err := servers.Create(ctx, server); err != nil && !errors.Is(err, store.ErrExists) {
				return controller.Result{}, err
			}
		}
		return controller.Result{}, nil
	}), controller.Config[string]{})
	check(err)
	controller.WatchKeys(create, siteCache)
	controller.WatchOwned(create, serverCache, kindSite)

	// This one deletes servers whose site is gone. It goes by UIDs: a site of the same name, created later, is another.
	collector := owner.NewCollector(servers, owner.AliveIn(sites))
	collect, err := controller.New("collector", controller.Func[string](func(ctx context.Context, key string) (controller.Result, error) {
		_, err := collector.Collect(ctx, key)
		return controller.Result{}, err
	}), controller.Config[string]{})
	check(err)
	bySite := cache.AddIndex(serverCache.Indexer(), owner.OwnerUIDs[Server])
	controller.WatchKeys(collect, serverCache)
	controller.Watch(collect, siteCache, func(_ string, site store.Object[Site]) (keys []string) {
		for key := range bySite.All(site.UID) {
			keys = append(keys, key)
		}
		return keys
	})

	manager, err := controller.NewManager(controller.ManagerConfig{})
	check(err)
	check(errors.Join(manager.AddSource(siteCache), manager.AddSource(serverCache)))
	check(errors.Join(manager.AddController(create), manager.AddController(collect)))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- manager.Run(ctx) }()

	for _, how := range []struct {
		policy owner.Policy
		text   string
	}{
		{owner.Background, "its servers go after the site"},
		{owner.Foreground, "they go before it"},
		{owner.Orphan, "they stay"},
	} {
		_, err := sites.Create(ctx, store.Object[Site]{Key: "berlin", Value: Site{Servers: 2}})
		check(err)
		check(wait.For(ctx, func(ctx context.Context) (bool, error) {
			n, err := owned(ctx, servers)
			return n == 2, err
		}))
		check(owner.Delete(ctx, sites, "berlin", how.policy))
		check(wait.For(ctx, func(ctx context.Context) (bool, error) {
			_, gone := sites.Get(ctx, "berlin")
			n, err := owned(ctx, servers)
			return errors.Is(gone, store.ErrNotFound) && n == 0, err
		}))
		list, err := servers.List(ctx)
		check(err)
		fmt.Printf("%s: %d are left\n", how.text, len(list.Items))
	}
	stop()
	check(<-ended)
}

// owned returns the number of servers that have an owner.
func owned(ctx context.Context, servers store.Store[Server]) (n int, err error) {
	list, err := servers.List(ctx)
	for _, server := range list.Items {
		n += len(server.Owners)
	}
	return n, err
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
