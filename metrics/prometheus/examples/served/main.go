// Command served keeps the servers of each site at the wanted number, and serves its metrics at /metrics. It changes a site every 100 ms,
// and every tenth call to the cloud fails. It runs until Ctrl-C.
//
//	go run ./metrics/prometheus/examples/served -addr localhost:8080
//	curl localhost:8080/metrics
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/manager"
	setpointprom "github.com/setpoint-go/setpoint/metrics/prometheus"
	"github.com/setpoint-go/setpoint/store"
)

// Site is the desired state of a site.
type Site struct{ Servers int }

func main() {
	addr := flag.String("addr", "localhost:8080", "where to serve /metrics")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	l, err := net.Listen("tcp", *addr)
	if err == nil {
		fmt.Printf("metrics are at http://%s/metrics\n", l.Addr())
		err = run(ctx, l)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run works until ctx ends, and serves at l.
func run(ctx context.Context, l net.Listener) error {
	db := store.NewMemory(store.MemoryConfig{})
	sites, err := store.Open(db, "Site", store.Config[Site]{})
	if err != nil {
		return err
	}
	cached, err := informer.New(sites, store.Key, informer.Config{Name: "sites"})
	if err != nil {
		return err
	}
	cloud := &cloud{servers: map[string]int{}}
	c, err := controller.New("sites", func(ctx context.Context, name string) (controller.Result, error) {
		site, _ := cached.Get(name)
		return controller.Result{RequeueAfter: time.Second}, cloud.scale(ctx, name, site.Value.Servers)
	}, controller.Config[string]{}, controller.For(cached))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	m, err := manager.New(manager.Config{
		Election: &leaderelect.Config{Store: memlease.New(), Key: "sites"}, // alone, it leads
	}, c, manager.Func("customers", func(ctx context.Context) error { return change(ctx, sites) }),
		manager.At(manager.Outer, manager.Func("http", func(ctx context.Context) error { return serve(ctx, l, mux) })))
	if err != nil {
		return err
	}
	reg := prometheus.NewRegistry()
	if _, err := setpointprom.New(reg, m); err != nil {
		return err
	}
	mux.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	return m.Run(ctx)
}

// serve serves until ctx ends.
func serve(ctx context.Context, l net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// change changes one of three sites every 100 ms.
func change(ctx context.Context, sites store.Store[Site]) error {
	names := []string{"berlin", "lisbon", "oslo"}
	for n := 0; ; n++ {
		_, err := store.CreateOrUpdate(ctx, sites, names[n%len(names)], func(s *store.Object[Site]) error {
			s.Value.Servers = n
			return nil
		})
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// cloud stands for an API. The controller has one worker, so one call is made at a time.
type cloud struct {
	servers map[string]int
	calls   int
}

func (c *cloud) scale(ctx context.Context, site string, servers int) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(10 * time.Millisecond):
	}
	if c.calls++; c.calls%10 == 0 {
		return errors.New("the cloud has failed")
	}
	c.servers[site] = servers
	return nil
}
