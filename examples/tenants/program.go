package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/time/rate"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/examples/tenants/cloud"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/leaderelect/storelease"
	"github.com/setpoint-go/setpoint/manager"
	setpointprom "github.com/setpoint-go/setpoint/metrics/prometheus"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
	setpointotel "github.com/setpoint-go/setpoint/tracing/otel"
	"github.com/setpoint-go/setpoint/workqueue"
)

// config is what the flags of a replica say.
type config struct {
	name     string        // of the replica
	cloud    string        // the address of the cloud
	listen   string        // where /metrics is served
	lease    time.Duration // how long a replica that was killed stays the leader
	slots    int           // if positive, all replicas share the tenants, and there is no leader
	rate     float64       // changes a second in the cloud, by this replica
	lookEach time.Duration // how often the cloud is listed
	trace    bool          // print a span for each reconcile
	out      io.Writer     // gets a line for each thing that happened
	log      *slog.Logger
}

// world is what the two controllers work with. A simulation has another one.
type world struct {
	db     backend.Backend
	rows   informer.ListWatcher[Row]
	row    func(ctx context.Context, key string) (Row, bool, error)
	cloud  caller
	actual informer.ListWatcher[cloud.Resource]
	record *events.Recorder

	// With tracing, a write keeps the trace of the reconcile that has made it, so that the reconcile that follows is in the same trace,
	// in whatever process.
	trace func(context.Context) string
	hooks controller.Hooks[string]
}

// newControllers returns the controller of the tenants, and that of their resources.
func newControllers(w world, cfg config) (ofTenants, ofResources *controller.Controller[string], err error) {
	rows, err1 := informer.New(w.rows, Row.Key, informer.Config{Name: "rows", Logger: cfg.log})
	actual, err2 := informer.New(w.actual, func(r cloud.Resource) string { return r.Key }, informer.Config{Name: "cloud", Logger: cfg.log})
	objects, seen, err3 := open[Tenant](w, kindTenant, cfg.log)
	owned, seenOwned, err4 := open[Resource](w, kindResource, cfg.log)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, nil, err
	}
	t := &tenants{
		row: w.row, objects: objects, seen: seen, owned: owned, children: owner.NewChildren(owned, seenOwned),
		actual: actual, lookEach: cfg.lookEach, record: w.record,
	}
	t.children.Among = func(by store.Ref) store.Selector { return store.Selector{Prefix: by.Key + "/"} }
	ofTenants, err1 = controller.New("tenants", t.reconcile,
		controller.Config[string]{
			Workers: 4, Queue: workqueue.Config[string]{Group: customer}, GaveUp: t.gaveUp,
			Reasons: true, Hooks: w.hooks, Logger: cfg.log,
		},
		controller.For(rows),
		controller.For(seen).When(store.GenerationChanged),
		controller.Owns(seenOwned, kindTenant),
		controller.Watches(actual, func(_ context.Context, r cloud.Resource) ([]string, error) { return []string{tenantOf(r.Key)}, nil }))

	r := &resources{objects: owned, cloud: w.cloud}
	ofResources, err2 = controller.New("resources", r.reconcile,
		controller.Config[string]{
			Workers: 4, Queue: fair(cfg.rate), GaveUp: r.gaveUp, Timeout: 30 * time.Second,
			Reasons: true, Hooks: w.hooks, Logger: cfg.log,
		},
		controller.Watches(seenOwned, work).When(newWork))
	return ofTenants, ofResources, errors.Join(err1, err2)
}

// fair returns a queue that begins so many reconciles a second, and in which the customers take turns. The gates of the client would
// keep the limit alone, but first come, first served: a customer with a thousand tenants would be first for minutes.
func fair(perSecond float64) workqueue.Config[string] {
	q := workqueue.Config[string]{Group: customer, MaxAttempts: 20}
	if perSecond > 0 {
		q.DispatchLimit = rate.NewLimiter(rate.Limit(perSecond), 1)
	}
	return q
}

// open returns the objects of a kind, and a cache of them.
func open[T any](w world, kind string, log *slog.Logger) (store.Store[T], *store.Informer[T], error) {
	objects, err := store.Open(w.db, kind, store.Config[T]{Trace: w.trace, Logger: log})
	if err != nil {
		return nil, nil, err
	}
	seen, err := informer.New(objects, store.Key, informer.Config{Name: kind, Logger: log})
	return objects, seen, err
}

// run is a replica of the program. It works until ctx ends.
func run(ctx context.Context, db *database, cfg config) error {
	record, err1 := events.NewRecorder(events.Config{Store: db, Logger: cfg.log, Sink: func(e events.Event) {
		fmt.Fprintf(cfg.out, "%s: %s %s: %s\n", cfg.name, e.About.Key, e.Reason, e.Message)
	}})
	cloud, err2 := newClient(cfg.cloud)
	records, err3 := store.Open(db, "Lease", store.Config[storelease.Record]{Logger: cfg.log})
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	actual, err1 := cloud.source(cfg.lookEach)
	leases, err2 := storelease.New(records, storelease.Config{})
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	w := world{db: db, rows: db.rows, row: db.row, cloud: cloud, actual: actual, record: record}
	if cfg.trace {
		if err := w.traceTo(cfg.out); err != nil {
			return err
		}
	}
	ofTenants, ofResources, err := newControllers(w, cfg)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", cfg.listen)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	m, err := manager.New(share(leases, cfg), ofTenants, ofResources, manager.At(manager.Outer, record),
		manager.At(manager.Outer, manager.Func("http", func(ctx context.Context) error { return serve(ctx, l, mux) })))
	if err != nil {
		return errors.Join(err, l.Close())
	}
	reg := prometheus.NewRegistry()
	if _, err := setpointprom.New(reg, m); err != nil {
		return errors.Join(err, l.Close())
	}
	mux.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	fmt.Fprintf(cfg.out, "%s: serves http://%s/metrics\n", cfg.name, l.Addr())
	return m.Run(ctx)
}

// traceTo has each reconcile traced, and its span printed. In production, an exporter sends it to a collector.
func (w *world) traceTo(out io.Writer) error {
	exporter, err := stdouttrace.New(stdouttrace.WithWriter(out))
	if err != nil {
		return err
	}
	tracing, err := setpointotel.New(setpointotel.Config{Provider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))})
	if err != nil {
		return err
	}
	w.trace, w.hooks = tracing.Context, setpointotel.Hooks[string](tracing)
	return nil
}

// share says how replicas share the work: one of them leads; or, with slots, each owns some of the keys. Nothing else differs.
func share(leases *storelease.Store, cfg config) manager.Config {
	lease := leaderelect.Config{Store: leases, Key: "tenants", Identity: cfg.name, LeaseDuration: cfg.lease, Logger: cfg.log}
	if cfg.slots > 0 {
		lease.Key = "tenants-slots"
		return manager.Config{Shards: &shard.Config{Lease: lease, Slots: cfg.slots}, Logger: cfg.log}
	}
	lease.OnNewLeader = func(l leaderelect.Leader) {
		if l.Identity == cfg.name {
			fmt.Fprintf(cfg.out, "%s: leads, term %d\n", cfg.name, l.Term)
		}
	}
	lease.OnStoppedLeading = func(l *leaderelect.Leadership, why error) {
		fmt.Fprintf(cfg.out, "%s: leads no more: %v\n", cfg.name, why)
	}
	return manager.Config{Election: &lease, Logger: cfg.log}
}

// serve serves until ctx ends.
func serve(ctx context.Context, l net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
