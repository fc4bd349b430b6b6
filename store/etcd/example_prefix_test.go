package etcd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/etcd"
)

// Site is the value of a key "sites/NAME", as JSON. The programs that write it do not know this library.
type Site struct {
	Name    string `json:"-"` // from the key
	Servers int    `json:"servers"`
	Running int    `json:"running"`

	Revision int64 `json:"-"` // of the state, for a comparison in a transaction
}

const sites = "sites/"

// decodeSite returns the name with every error: then a value that does not decode is not a deletion.
func decodeSite(kv *mvccpb.KeyValue) (Site, error) {
	var s Site
	err := json.Unmarshal(kv.Value, &s)
	s.Name, s.Revision = strings.TrimPrefix(string(kv.Key), sites), kv.ModRevision
	return s, err
}

// Keys that other programs write become a cache that follows them.
func ExampleNewPrefix() {
	ctx := context.Background()
	addr, stop := startExampleServer()
	defer stop()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	check(err)
	defer client.Close()
	for _, site := range [][2]string{{"bonn", `{"servers": 2}`}, {"ulm", `{"servers": 3}`}, {"rome", `{"servers": "many"}`}} {
		_, err := client.Put(ctx, sites+site[0], site[1])
		check(err)
	}

	source, err := etcd.NewPrefix(ctx, client, decodeSite, etcd.PrefixConfig{Prefix: sites})
	check(err)
	cached, err := informer.New(source, func(s Site) string { return s.Name }, informer.Config{Logger: slog.New(slog.DiscardHandler)})
	check(err)
	running, cancel := context.WithCancel(ctx)
	done := make(chan error)
	go func() { done <- cached.Run(running) }() // ends with running
	check(cached.CatchUp(ctx))
	_, err = client.Delete(ctx, sites+"bonn")
	check(err)
	check(cached.CatchUp(ctx))

	_, ok := cached.Get("bonn")
	fmt.Println("bonn is there:", ok)
	ulm, _ := cached.Get("ulm")
	fmt.Println("ulm:", ulm.Servers, "servers")
	fmt.Println("rome:", cached.Unread("rome"))
	cancel()
	check(<-done)
	// Output:
	// bonn is there: false
	// ulm: 3 servers
	// rome: the value of "sites/rome" of version 4: json: cannot unmarshal string into Go struct field Site.servers of type int
}

// runSites reconciles all sites while this process leads, until ctx ends. It calls idle when a site is as it should be.
func runSites(ctx context.Context, client *clientv3.Client, out io.Writer, idle func()) error {
	source, err := etcd.NewPrefix(ctx, client, decodeSite, etcd.PrefixConfig{Prefix: sites})
	if err != nil {
		return err
	}
	cached, err := informer.New(source, func(s Site) string { return s.Name }, informer.Config{})
	if err != nil {
		return err
	}
	leases, err := etcd.NewLeases(client, etcd.LeasesConfig{})
	if err != nil {
		return err
	}
	reconcile := func(ctx context.Context, name string) (controller.Result, error) {
		s, ok := cached.Get(name)
		switch {
		case !ok:
			fmt.Fprintf(out, "%s: remove its servers\n", name)
			return controller.Result{}, nil
		case s.Running == s.Servers:
			idle()
			return controller.Result{}, nil
		}
		fmt.Fprintf(out, "%s: from %d servers to %d\n", name, s.Running, s.Servers)
		s.Running = s.Servers
		return controller.Result{}, putSite(ctx, client, leases, source, s)
	}
	c, err := controller.New("sites", reconcile, controller.Config[string]{}, controller.For(cached))
	if err != nil {
		return err
	}
	m, err := manager.New(manager.Config{Election: &leaderelect.Config{Store: leases, Key: "sites"}}, c)
	if err != nil {
		return err
	}
	return m.Run(ctx)
}

// putSite writes a site if this process still leads, and no other program has changed the site since it was read.
func putSite(ctx context.Context, client *clientv3.Client, leases *etcd.Leases, source *etcd.Prefix[Site], s Site) error {
	guard, err := leases.Guard(ctx)
	if err != nil {
		return err
	}
	value, err := json.Marshal(s)
	if err != nil {
		return err
	}
	same := clientv3.Compare(clientv3.ModRevision(sites+s.Name), "=", s.Revision)
	res, err := client.Txn(ctx).If(guard, same).Then(clientv3.OpPut(sites+s.Name, string(value))).Commit()
	switch {
	case err != nil:
		return err
	case !res.Succeeded:
		return store.ErrConflict // tried again soon: if another process leads, leases.Guard says so
	}
	source.Wrote(ctx, res.Header.Revision) // reconcile the site again only when cached shows this
	return nil
}

// A controller of keys of your own, of which one process at a time writes.
func ExampleLeases_Guard() {
	ctx, stopRunning := context.WithCancel(context.Background())
	defer stopRunning()
	addr, stop := startExampleServer()
	defer stop()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	check(err)
	defer client.Close()
	_, err = client.Put(ctx, sites+"ulm", `{"servers": 3}`)
	check(err)

	var out strings.Builder
	check(runSites(ctx, client, &out, stopRunning))
	fmt.Print(out.String())
	found, err := client.Get(context.Background(), sites+"ulm")
	check(err)
	fmt.Println(string(found.Kvs[0].Value))
	term, err := client.Get(context.Background(), "leases/terms/sites")
	check(err)
	fmt.Println("term", string(term.Kvs[0].Value))
	// Output:
	// ulm: from 0 servers to 3
	// {"servers":3,"running":3}
	// term 3
}
