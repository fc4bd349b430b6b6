package nats_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/store/nats"
)

// Tenant is the value of a key of the bucket "tenants", as JSON. The programs that write it do not know this library.
type Tenant struct {
	Name    string `json:"-"` // the key
	Servers int    `json:"servers"`
	Running int    `json:"running"`

	Revision uint64 `json:"-"` // of the state, for the next Update
}

// decodeTenant returns the name with every error: then a value that does not decode is not a deletion.
func decodeTenant(e jetstream.KeyValueEntry) (Tenant, error) {
	var t Tenant
	err := json.Unmarshal(e.Value(), &t)
	t.Name, t.Revision = e.Key(), e.Revision()
	return t, err
}

// startExampleServer starts a server for an example. It returns a connection, and what stops both.
func startExampleServer() (js jetstream.JetStream, stop func()) {
	dir, err := os.MkdirTemp("", "example-")
	check(err)
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: dir, NoSigs: true})
	check(err)
	s.Start()
	s.ReadyForConnections(10 * time.Second)
	nc, err := natsgo.Connect(s.ClientURL())
	check(err)
	js, err = jetstream.New(nc)
	check(err)
	return js, func() {
		nc.Close()
		s.Shutdown()
		s.WaitForShutdown()
		check(os.RemoveAll(dir))
	}
}

// Keys that other programs write become a cache that follows them.
func ExampleNewBucket() {
	ctx := context.Background()
	js, stop := startExampleServer()
	defer stop()
	kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "tenants"})
	check(err)
	for _, t := range [][2]string{{"acme", `{"servers": 2}`}, {"globex", `{"servers": 3}`}, {"initech", `{"servers": "many"}`}} {
		_, err := kv.PutString(ctx, t[0], t[1])
		check(err)
	}

	source, err := nats.NewBucket(ctx, js, decodeTenant, nats.BucketConfig{Bucket: "tenants"})
	check(err)
	cached, err := informer.New(source, func(t Tenant) string { return t.Name }, informer.Config{Logger: slog.New(slog.DiscardHandler)})
	check(err)
	running, cancel := context.WithCancel(ctx)
	done := make(chan error)
	go func() { done <- cached.Run(running) }() // ends with running
	check(cached.CatchUp(ctx))
	check(kv.Delete(ctx, "acme"))
	check(cached.CatchUp(ctx))

	_, ok := cached.Get("acme")
	fmt.Println("acme is there:", ok)
	globex, _ := cached.Get("globex")
	fmt.Println("globex:", globex.Servers, "servers")
	fmt.Println("initech:", cached.Unread("initech"))
	cancel()
	check(<-done)
	// Output:
	// acme is there: false
	// globex: 3 servers
	// initech: the value of "initech" of version 3: json: cannot unmarshal string into Go struct field Tenant.servers of type int
}

// putTenant writes a tenant if no other program has changed it since it was read.
func putTenant(ctx context.Context, kv jetstream.KeyValue, source *nats.Bucket[Tenant], t Tenant) error {
	value, err := json.Marshal(t)
	if err != nil {
		return err
	}
	revision, err := kv.Update(ctx, t.Name, value, t.Revision)
	if err != nil {
		return err // another program was faster, perhaps: the next attempt sees its state
	}
	source.Wrote(ctx, revision) // reconcile the tenant again only when the cache shows this
	return nil
}

// A reconcile writes the status into the value that it was called for, and does not see a state from before.
func ExampleBucket_Wrote() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	js, stop := startExampleServer()
	defer stop()
	kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "tenants"})
	check(err)
	_, err = kv.PutString(ctx, "acme", `{"servers": 3}`)
	check(err)

	source, err := nats.NewBucket(ctx, js, decodeTenant, nats.BucketConfig{Bucket: "tenants"})
	check(err)
	cached, err := informer.New(source, func(t Tenant) string { return t.Name }, informer.Config{})
	check(err)
	var out strings.Builder
	reconcile := func(ctx context.Context, name string) (controller.Result, error) {
		t, ok := cached.Get(name)
		switch {
		case !ok:
			fmt.Fprintf(&out, "%s: remove its servers\n", name)
			return controller.Result{}, nil
		case t.Running == t.Servers:
			cancel()
			return controller.Result{}, nil
		}
		fmt.Fprintf(&out, "%s: from %d servers to %d\n", name, t.Running, t.Servers)
		t.Running = t.Servers
		return controller.Result{}, putTenant(ctx, kv, source, t)
	}
	c, err := controller.New("tenants", reconcile, controller.Config[string]{}, controller.For(cached))
	check(err)
	m, err := manager.New(manager.Config{}, c)
	check(err)
	check(m.Run(ctx))
	fmt.Print(out.String())
	found, err := kv.Get(context.Background(), "acme")
	check(err)
	fmt.Println(string(found.Value()))
	// Output:
	// acme: from 0 servers to 3
	// {"servers":3,"running":3}
}
