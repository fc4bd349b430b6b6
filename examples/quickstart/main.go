// Command quickstart keeps the desired number of servers running at each site, until Ctrl-C.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/store"
)

// Site is the desired state of a site.
type Site struct{ Servers int }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	db, err := store.NewMemory(store.MemoryConfig{})
	check(err)
	sites, err := store.Open(db, "Site", store.Config[Site]{})
	check(err)
	cached, err := informer.New(sites, store.Key, informer.Config{}) // mirrors the store
	check(err)
	world := map[string]int{} // stands in for an API, a database, or machines
	reconcile := func(_ context.Context, name string) (controller.Result, error) {
		site, _ := cached.Get(name) // a deleted site wants no servers
		if want, is := site.Value.Servers, world[name]; want != is {
			fmt.Printf("%s: from %d servers to %d\n", name, is, want)
			world[name] = want // if you return an error, the site is reconciled again after a backoff
		}
		return controller.Result{}, nil
	}
	c, err := controller.New("sites", reconcile, controller.Config[string]{}, controller.For(cached))
	check(err)
	_, err = sites.Create(ctx, store.Object[Site]{Key: "berlin", Value: Site{Servers: 3}})
	check(err)
	m, err := manager.New(manager.Config{}, c) // runs the controller and its informer
	check(err)
	check(m.Run(ctx))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
