// Command 07-owner has sites that own servers. When a site is deleted, its servers are deleted after it, are deleted before
// it, or stay: the caller that deletes the site chooses.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/wait"
)

type (
	Site   struct{ Servers int } // wanted
	Server struct{}
)

func main() {
	db := store.NewMemory(store.MemoryConfig{})
	sites, err := store.Open(db, "Site", store.Config[Site]{})
	check(err)
	servers, err := store.Open(db, "Server", store.Config[Server]{})
	check(err)
	c, collector, err := controllers(sites, servers)
	check(err)
	m, err := manager.New(manager.Config{}, c, collector)
	check(err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()

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

// controllers returns the controller of sites, and the collector of servers whose site is gone.
func controllers(sites store.Store[Site], servers store.Store[Server]) (c, collector *controller.Controller[string], err error) {
	seenSites, err := informer.New(sites, store.Key, informer.Config{Name: "sites"})
	if err != nil {
		return nil, nil, err
	}
	seenServers, err := informer.New(servers, store.Key, informer.Config{Name: "servers"})
	if err != nil {
		return nil, nil, err
	}
	children := owner.NewChildren(servers, seenServers)

	// A site has as many servers as it wants. When it is deleted, its policy decides about them.
	c, err = controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		// Read from the store: a cache may still show a deleted site, and the collector would delete the servers created for it.
		site, err := sites.Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			return controller.Result{}, nil
		} else if err != nil {
			return controller.Result{}, err
		}
		if !site.Deleting.IsZero() {
			_, err := owner.Cascade(ctx, sites, key, children)
			return controller.Result{}, err
		}
		want := map[string]Server{}
		for i := range site.Value.Servers {
			want[fmt.Sprintf("%s-%d", key, i)] = Server{}
		}
		_, err = children.Apply(ctx, site.Ref(), want)
		return controller.Result{}, err
	}, controller.Config[string]{}, controller.For(seenSites), controller.Owns(seenServers, "Site"))
	if err != nil {
		return nil, nil, err
	}
	// Servers whose site is gone are deleted. A later site with the same name is a different site.
	collector, err = controller.NewCollector(children, sites, seenSites, controller.Config[string]{})
	return c, collector, err
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
