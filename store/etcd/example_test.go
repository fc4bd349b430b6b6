package etcd_test

import (
	"context"
	"fmt"
	"log"
	"os"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/etcd"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// startExampleServer starts a server for the example. It returns its address, and what stops it.
func startExampleServer() (addr string, stop func()) {
	dir, err := os.MkdirTemp("", "example-")
	check(err)
	e, err := embed.StartEtcd(alone(dir).config())
	check(err)
	<-e.Server.ReadyNotify()
	return e.Clients[0].Addr().String(), func() {
		e.Close()
		check(os.RemoveAll(dir))
	}
}

// Two processes share objects through a cluster. Each version is one of the cluster, so they agree on what came first.
func ExampleOpen() {
	ctx := context.Background()
	addr, stop := startExampleServer()
	defer stop()
	type App struct{ Replicas int }

	for range 2 { // as two processes, one after the other
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
		check(err)
		db, err := etcd.Open(ctx, client, etcd.Config{Prefix: "shop"})
		check(err)
		apps, err := store.Open(db, "App", store.Config[App]{})
		check(err)
		app, err := apps.Create(ctx, store.Object[App]{Key: "web", Value: App{Replicas: 3}})
		if err != nil {
			fmt.Println(err)
			app, err = apps.Get(ctx, "web")
			check(err)
		}
		fmt.Println(app.Value.Replicas, "replicas, version", app.Version)
		check(client.Close())
	}
	// Output:
	// 3 replicas, version 3
	// store: create App "web": object already exists
	// 3 replicas, version 3
}
