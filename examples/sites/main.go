// Command sites keeps the servers and the DNS entries of sites. It is a realistic program: its controller owns servers,
// cleans up outside the store, reports conditions and events, calls a rate-limited API, and runs on one of several replicas.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"slices"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/storelease"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/retry/gate"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

type (
	// Site is the desired state of a site.
	Site struct {
		Servers int
		Image   string
		Status  store.Conditions `store:"status"`
	}

	// Server is a machine of a site. The machine reports when it is ready.
	Server struct {
		Image string
		Ready bool `store:"status"`
	}
)

// run keeps all sites in db in their desired state until ctx ends. api answers the requests of DNS.
func run(ctx context.Context, db backend.Backend, api http.RoundTripper) error {
	sites, err1 := store.Open(db, "Site", store.Config[Site]{})
	servers, err2 := store.Open(db, "Server", store.Config[Server]{})
	leases, err3 := store.Open(db, "Lease", store.Config[storelease.Record]{})
	record, err4 := events.NewRecorder(events.Config{Store: db})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	seenSites, err1 := informer.New(sites, store.Key, informer.Config{Name: "sites"})
	seenServers, err2 := informer.New(servers, store.Key, informer.Config{Name: "servers"})
	lease := storelease.New(leases, storelease.Config{})
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	children := owner.NewChildren(servers, seenServers)
	dns := DNS{&http.Client{Transport: gate.NewLimiter(10, 5).Transport(api)}} // 10 calls a second, 5 at once; beyond that, not yet
	entry := owner.Finalizer[Site]{Name: "example.com/dns", Apply: dns.Put, Cleanup: dns.Remove}
	reconcile := func(ctx context.Context, key string) (controller.Result, error) {
		site, live, err := entry.Reconcile(ctx, sites, key) // the entry exists or, for a deleted site, is gone
		if err != nil || !live {
			return controller.Result{}, err // retried after a backoff, at the time in the error, or never: retry.Permanent
		}
		want := map[string]Server{}
		for i := range site.Value.Servers {
			want[fmt.Sprintf("%s-%d", key, i)] = Server{Image: site.Value.Image}
		}
		have, err := children.Apply(ctx, site.Ref(), want) // creates, updates, and deletes; leaves the status alone
		if err != nil {
			return controller.Result{}, err
		}
		ready := len(slices.DeleteFunc(have, func(s store.Object[Server]) bool { return !s.Value.Ready }))
		progress := fmt.Errorf("%d of %d servers are ready", ready, len(want))
		if site.Value.Status.Set(store.Condition{Type: "Ready", OK: ready == len(want), Message: progress.Error()}) {
			record.Normal(site.Ref(), "Progress", progress.Error())
		}
		if _, err := sites.UpdateStatus(ctx, site); err != nil || ready == len(want) {
			return controller.Result{}, err
		}
		return controller.Result{}, retry.NotYet(progress, time.Minute) // or earlier, after an event of a server
	}
	c, err1 := controller.New("sites", reconcile, controller.Config[string]{Workers: 8, Resync: time.Hour},
		controller.For(seenSites).When(store.GenerationChanged), controller.Owns(seenServers, "Site"))
	collector, err2 := controller.NewCollector(children, sites, seenSites, controller.Config[string]{}) // servers of deleted sites
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	election := &leaderelect.Config{Store: lease, Key: "sites"} // each write above carries its term
	m, err := manager.New(manager.Config{Election: election}, c, collector, manager.At(manager.Outer, record))
	if err != nil {
		return err
	}
	return m.Run(ctx)
}

func main() {
	db := store.NewMemory(store.MemoryConfig{})
	if err := demo(context.Background(), db); err != nil {
		log.Fatal(err)
	}
}
