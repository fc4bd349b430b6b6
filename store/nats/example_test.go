package nats_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/nats"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Objects are in a stream, and every client of the server has them.
func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example-")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: dir, NoSigs: true})
	check(err)
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	s.ReadyForConnections(10 * time.Second)
	type App struct{ Replicas int }

	for range 2 { // as two processes
		nc, err := natsgo.Connect(s.ClientURL())
		check(err)
		js, err := jetstream.New(nc)
		check(err)
		check(nats.Create(ctx, js, nats.Config{}))
		db, err := nats.Open(ctx, js, nats.Config{})
		check(err)
		apps, err := store.Open(db, "App", store.Config[App]{})
		check(err)
		app, err := apps.Create(ctx, store.Object[App]{Key: "shop", Value: App{Replicas: 3}})
		if err != nil {
			fmt.Println(err)
			app, err = apps.Get(ctx, "shop")
			check(err)
		}
		fmt.Println(app.Value.Replicas, "replicas, generation", app.Generation)
		nc.Close()
	}
	// Output:
	// 3 replicas, generation 1
	// store: create App "shop": object already exists
	// 3 replicas, generation 1
}
