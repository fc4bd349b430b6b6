// Command tenants keeps a cloud in the state that a table describes: for each row, a bucket, or a bucket, a database, and a DNS entry.
// Start it as often as you like: one replica leads, or all of them share the work. See README.md.
//
//	go run ./examples/tenants -demo                                        a story on real processes; needs nothing but Go
//	go run ./examples/tenants -fake-cloud localhost:7000                   a cloud to play with, in one terminal
//	go run ./examples/tenants -store sqlite:tenants.db -install            creates the table, and what the program needs
//	go run ./examples/tenants -store sqlite:tenants.db -name a             and in more terminals -name b, -name c
//
// This file wires everything, from top to bottom. Rows are reconciled in reconcile.go, and resources in resource.go.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/time/rate"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/debug"
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

// config has the values of the flags of a replica.
type config struct {
	name     string        // of the replica
	cloud    string        // the address of the cloud
	listen   string        // where the page and the metrics are served
	lease    time.Duration // how long a replica that was killed stays the leader
	slots    int           // if positive, all replicas share the tenants, and there is no leader
	rate     float64       // changes a second in the cloud, by this replica
	lookEach time.Duration // how often the cloud is listed
	trace    bool          // print a span for each reconcile
	out      io.Writer     // receives a line for each event
	log      *slog.Logger
}

func main() {
	cfg := config{out: os.Stdout}
	address := flag.String("store", "",
		"the `address` of the database, sqlite:FILE or postgres://...;\ndefaults to sqlite:tenants.db, and of -demo to a temporary file")
	flag.StringVar(&cfg.name, "name", fmt.Sprintf("pid-%d", os.Getpid()), "what this replica is called")
	flag.StringVar(&cfg.cloud, "cloud", "http://localhost:7000", "the `address` of the cloud")
	flag.StringVar(&cfg.listen, "listen", "localhost:0", "where to serve /debug/ and /metrics")
	flag.DurationVar(&cfg.lease, "lease", 15*time.Second, "how long a replica that was killed stays the leader")
	flag.IntVar(&cfg.slots, "slots", 0, "share the tenants among all replicas, in so `many` slots, instead of having a leader")
	flag.Float64Var(&cfg.rate, "rate", budget-1,
		"how many changes a second this replica makes in the cloud;\nthe rest of the limit is for lists")
	flag.BoolVar(&cfg.trace, "trace", false, "print a span of OpenTelemetry for each reconcile")
	flag.DurationVar(&cfg.lookEach, "look-each", 3*time.Second, "how often to look for what has vanished from the cloud")
	installs := flag.Bool("install", false, "create the table, and what the program needs in the database, and end")
	fake := flag.String("fake-cloud", "", "be the cloud, at this `address`, and nothing else")
	tells := flag.Bool("demo", false, "tell a story on real processes, and end")
	tied := flag.Bool("tied", false, "end when standard input ends, as a child of -demo does")
	level := new(slog.LevelVar)
	level.Set(slog.LevelWarn)
	flag.TextVar(level, "log", level, "log what is of this `level`, or above: debug, info, warn, error")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "tenants: there is no argument %q, only flags\n", flag.Arg(0))
		os.Exit(2)
	}
	cfg.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal stops gracefully, the second one at once
	if *tied {
		stopWithStdin(stop)
	}
	var err error
	switch {
	case *tells:
		err = runDemo(ctx, *address, os.Stdout)
	case *fake != "":
		err = cloud.Run(ctx, *fake)
	default:
		err = withDatabase(ctx, cmp.Or(*address, "sqlite:tenants.db"), *installs, func(db *database) error {
			if *installs {
				return nil
			}
			return run(ctx, db, cfg)
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run runs a replica of the program until ctx ends.
func run(ctx context.Context, db *database, cfg config) error {
	record, err1 := events.NewRecorder(events.Config{Store: db, Logger: cfg.log, Sink: func(e events.Event) {
		fmt.Fprintf(cfg.out, "%s: %s %s: %s\n", cfg.name, e.About.Key, e.Reason, e.Message)
	}})
	cloud, err2 := newClient(cfg.cloud)
	records, err3 := store.Open(db, "Lease", store.Config[storelease.Record]{})
	l, err4 := net.Listen("tcp", cfg.listen)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	cfg.listen = l.Addr().String()
	actual, err1 := cloud.source(cfg.lookEach)
	leases := storelease.New(records, storelease.Config{})
	w := world{db: db, rows: db.rows, row: db.row, cloud: cloud, actual: actual, record: record}
	if cfg.trace {
		err3 = w.traceTo(cfg.out)
	}
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	ofTenants, ofResources, err := newControllers(w, cfg)
	if err != nil {
		return err
	}
	m, err := manager.New(share(leases, cfg), ofTenants, ofResources, manager.At(manager.Outer, record))
	if err != nil {
		return err
	}
	if err := show(m, cfg, l); err != nil {
		return err
	}
	return m.Run(ctx)
}

// share decides how replicas share the work: one of them leads or, with slots, each owns some of the keys. Nothing else differs.
func share(leases *storelease.Store, cfg config) manager.Config {
	lease := leaderelect.Config{Store: leases, Key: "tenants", Identity: cfg.name, LeaseDuration: cfg.lease, Logger: cfg.log}
	lease.Metadata = map[string]string{"page": "http://" + cfg.listen + "/debug/"} // which the pages of the others show
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

// world has the dependencies of the two controllers. A simulation has its own.
type world struct {
	db     backend.Backend
	rows   informer.ListWatcher[Row]
	row    func(ctx context.Context, key string) (Row, bool, error)
	cloud  caller
	actual informer.ListWatcher[cloud.Resource]
	record *events.Recorder

	// With tracing, a write records the trace of its reconcile, so that the reconcile that follows is in the same trace, in any
	// process.
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
		row: w.row, cached: rows.Get, objects: objects, owned: owned, children: owner.NewChildren(owned, seenOwned),
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

	// The queue begins this many reconciles a second, and customers take turns. The gates of the client alone would keep the limit, but
	// first come, first served: a customer with a thousand tenants would be first for minutes.
	fair := workqueue.Config[string]{Group: customer, MaxAttempts: 20, DispatchLimit: rate.NewLimiter(rate.Limit(cfg.rate), 1)}
	r := &resources{objects: owned, cloud: w.cloud}
	ofResources, err2 = controller.New("resources", r.reconcile,
		controller.Config[string]{
			Workers: 4, Queue: fair, GaveUp: r.gaveUp, Timeout: 30 * time.Second,
			Reasons: true, Hooks: w.hooks, Logger: cfg.log,
		},
		controller.Watches(seenOwned, work).When(newWork))
	return ofTenants, ofResources, errors.Join(err1, err2)
}

// open returns the objects of a kind, and a cache of them.
func open[T any](w world, kind string, log *slog.Logger) (store.Store[T], *store.Informer[T], error) {
	objects, err := store.Open(w.db, kind, store.Config[T]{Trace: w.trace})
	if err != nil {
		return nil, nil, err
	}
	seen, err := informer.New(objects, store.Key, informer.Config{Name: kind, Logger: log})
	return objects, seen, err
}

// traceTo traces each reconcile, and prints its span. In production, an exporter sends it to a collector.
func (w *world) traceTo(out io.Writer) error {
	exporter, err1 := stdouttrace.New(stdouttrace.WithWriter(out))
	tracing, err2 := setpointotel.New(setpointotel.Config{Provider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))})
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	w.trace, w.hooks = tracing.Context, setpointotel.Hooks[string](tracing)
	return nil
}

// show serves a live page, which only this machine can see, and metrics.
func show(m *manager.Manager, cfg config, l net.Listener) error {
	page, err1 := debug.New(m, debug.Config{Title: "tenants, " + cfg.name, Actions: true, Logger: cfg.log})
	metrics := prometheus.NewRegistry()
	_, err2 := setpointprom.New(metrics, m)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/", http.StripPrefix("/debug", page))
	mux.Handle("/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	fmt.Fprintf(cfg.out, "%s: serves http://%s/debug/ and /metrics\n", cfg.name, cfg.listen)
	web := manager.Func("http", func(ctx context.Context) error { return serve(ctx, l, mux) })
	return m.Add(manager.At(manager.Outer, page), manager.At(manager.Outer, web))
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
