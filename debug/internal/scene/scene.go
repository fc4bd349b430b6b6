package scene

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/debug"
	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/featuregate"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
)

// Site is the desired state of a site.
type Site struct {
	Region  string `json:"region"`
	Servers int    `json:"servers"`
}

// Server is a server of a site.
type Server struct {
	Size string `json:"size"`
}

// Feature is a feature of the program.
type Feature int

// The features.
const (
	FastStart Feature = iota
	Spares
)

// Scene is the program.
type Scene struct {
	Manager *manager.Manager
	Page    *debug.Handler
	Sites   *controller.Controller[string]
}

// New returns a scene whose page has actions, with additional sites under the given keys. Its Manager is not running yet.
func New(further ...string) (*Scene, error) {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	db := store.NewMemory(store.MemoryConfig{})
	sites, err1 := store.Open(db, "Site", store.Config[Site]{})
	servers, err2 := store.Open(db, "Server", store.Config[Server]{})
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	seenSites, err1 := informer.New(sites, store.Key, informer.Config{Name: "sites"})
	seenServers, err2 := informer.New(servers, store.Key, informer.Config{Name: "servers"})
	log, err3 := events.NewRecorder(events.Config{})
	gates, err4 := featuregate.New(featuregate.Config[Feature]{Features: []featuregate.Feature[Feature]{
		FastStart: {
			Name: "FastStart", Description: "Start the servers of a site concurrently.",
			History: []featuregate.Phase{{Since: "1.2", Stage: featuregate.Alpha}, {Since: "1.4", Stage: featuregate.Beta}},
		},
		Spares: {
			Name: "Spares", Description: "Keep a spare server for each site.",
			History: []featuregate.Phase{{Since: "1.4", Stage: featuregate.Alpha}},
		},
	}})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	if err := fill(sites, servers, further); err != nil {
		return nil, err
	}
	c, err := controller.New("sites", func(ctx context.Context, name string) (controller.Result, error) {
		site, ok := seenSites.Get(name)
		if !ok {
			return controller.Result{}, nil
		}
		return reconcile(ctx, log, site)
	}, controller.Config[string]{Workers: 4, Reasons: true, DrainTimeout: 100 * time.Millisecond, Logger: quiet},
		controller.For(seenSites), controller.Owns(seenServers, "Site"))
	if err != nil {
		return nil, err
	}
	checks, err := controller.New("checks", func(ctx context.Context, name string) (controller.Result, error) {
		return controller.Result{}, pause(ctx, 50*time.Millisecond)
	}, controller.Config[string]{Workers: 2, DrainTimeout: 100 * time.Millisecond, Logger: quiet}, controller.For(seenServers))
	if err != nil {
		return nil, err
	}
	c.PauseKey("sites/oslo")
	m, err := manager.New(manager.Config{
		Logger: quiet, Election: &leaderelect.Config{Store: memlease.New(), Key: "sites", Identity: "web-1", Logger: quiet},
	}, c, checks, manager.Func("load", func(ctx context.Context) error { return load(ctx, checks) }), manager.At(manager.Outer, log))
	if err != nil {
		return nil, err
	}
	page, err := debug.New(m, debug.Config{Title: "shop", Actions: true, Gates: gates, Logger: quiet})
	if err != nil {
		return nil, err
	}
	return &Scene{m, page, c}, m.Add(manager.At(manager.Outer, page))
}

// fill creates sites and their servers.
func fill(sites store.Store[Site], servers store.Store[Server], further []string) error {
	ctx := context.Background()
	for i, name := range []string{"berlin", "lisbon", "oslo", "quito", "osaka", "accra"} {
		site, err := sites.Create(ctx, store.Object[Site]{
			Key: "sites/" + name, Value: Site{Region: []string{"eu", "sa", "ap"}[i%3], Servers: i%3 + 1},
			Labels: map[string]string{"tier": []string{"gold", "silver"}[i%2]}, Finalizers: []string{"sites.example/servers"},
		})
		if err != nil {
			return err
		}
		for n := range i%3 + 1 {
			_, err := servers.Create(ctx, store.Object[Server]{
				Key: fmt.Sprintf("%s/server-%d", name, n), Value: Server{Size: "small"},
				Owners: []store.OwnerRef{{Ref: site.Ref(), Controller: true}},
			})
			if err != nil {
				return err
			}
		}
	}
	for _, key := range further {
		if _, err := sites.Create(ctx, store.Object[Site]{Key: key}); err != nil {
			return err
		}
	}
	return nil
}

// reconcile does something different for each site.
func reconcile(ctx context.Context, log *events.Recorder, site store.Object[Site]) (controller.Result, error) {
	switch site.Key {
	case "sites/lisbon": // hangs
		log.Normal(site.Ref(), "Starting", "Waiting for server-0 to start.")
		return controller.Result{}, waitForServer(ctx)
	case "sites/quito":
		log.Warning(site.Ref(), "QuotaExceeded", "The cloud refused server-3: the quota of region sa is 3 servers.")
		return controller.Result{}, retry.Permanent(errors.New("create server-3: the quota of region sa is 3 servers"))
	case "sites/osaka":
		log.Warning(site.Ref(), "CloudFailed", "The cloud answered with status 503.")
		return controller.Result{}, retry.After(errors.New("create server-1: the cloud answered with status 503"), 30*time.Second)
	case "sites/accra":
		log.Normal(site.Ref(), "Scaled", fmt.Sprintf("Servers: %d.", site.Value.Servers))
		return controller.Result{RequeueAfter: 5 * time.Minute}, nil
	case "sites/berlin":
		log.Normal(site.Ref(), "Scaled", fmt.Sprintf("Servers: %d.", site.Value.Servers))
	}
	return controller.Result{RequeueAfter: cmp.Or(time.Duration(site.Value.Servers)*time.Minute, time.Hour)}, nil
}

// load adds keys from time to time.
func load(ctx context.Context, c *controller.Controller[string]) error {
	for n := 1; pause(ctx, time.Duration(n%3+1)*8*time.Second) == nil; n++ {
		for i := range 100 * (n%4 + 1) {
			c.Add(fmt.Sprintf("probe-%03d", i))
		}
	}
	return nil
}

// pause waits for d, or returns the cause of the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// waitForServer waits until the program ends.
func waitForServer(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}
