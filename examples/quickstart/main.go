// Command quickstart keeps the servers of some sites at the wanted number.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

type Site struct{ Servers int } // what somebody wants

func main() {
	db, err := store.NewMemory(store.MemoryConfig{})
	check(err)
	sites, err := store.Open[Site](db, "Site", store.Config[Site]{})
	check(err)
	cache, err := informer.New(sites, store.Key[Site], informer.Config{}) // mirrors the store
	check(err)
	world := map[string]int{} // the servers that run: stands for an API, a database, some machines
	changed := make(chan string)
	c, err := controller.New("sites", controller.Func[string](func(_ context.Context, name string) (controller.Result, error) {
		site, _ := cache.Get(name) // a site that was deleted is one that wants no servers
		if want, is := site.Value.Servers, world[name]; want != is {
			world[name] = want // an error here would come back after a backoff
			changed <- fmt.Sprintf("%s: from %d servers to %d", name, is, want)
		}
		return controller.Result{}, nil
	}), controller.Config[string]{})
	check(err)
	controller.WatchKeys(c, cache) // a site that changes is reconciled
	manager, err := controller.NewManager(controller.ManagerConfig{})
	check(err)
	manager.AddSource(cache)
	manager.AddController(c)
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- manager.Run(ctx) }()
	berlin, err := sites.Create(ctx, store.Object[Site]{Key: "berlin", Value: Site{Servers: 3}})
	check(err)
	fmt.Println(<-changed)
	berlin.Value.Servers = 5
	_, err = sites.Update(ctx, berlin)
	check(err)
	fmt.Println(<-changed)
	_, err = sites.Delete(ctx, "berlin")
	check(err)
	fmt.Println(<-changed)
	stop()
	check(<-stopped)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
