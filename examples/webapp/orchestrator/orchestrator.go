// Package orchestrator is the program webapp.
//
// The path of a change, from the file to the process. Each arrow is an informer, a queue, a reconcile, and a write:
//
//	*.json ──► manifests ──► WebApp ──► webapps ──► Deployment ──► deployments ──► processes
//	                            ▲          │                                          │
//	                            │          └──────► Service ─────► services ────► load balancers
//	                            │                                                     │
//	                            └───────── status ◄───────────────────────────────────┘
//
// Several copies of the program may run on one machine: a lease elects the one that works. When that copy is killed, another
// adopts the replicas.
package orchestrator

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/examples/webapp/machine"
	"github.com/setpoint-go/setpoint/examples/webapp/manifest"
	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/files"
	"github.com/setpoint-go/setpoint/informer/poll"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/wait"
	"github.com/setpoint-go/setpoint/workqueue"
)

// Config is the configuration of an [Orchestrator].
type Config struct {
	Manifests string        // the directory of the manifests, which must exist
	State     string        // the directory of the records of the replicas; created if it is missing
	Lease     time.Duration // how long the others wait after the leader is gone; defaults to 3 s
	Out       io.Writer     // receives a line for each event
	Logger    *slog.Logger  // receives logs for developers

	// Database keeps the objects and the lease, so that the copies of the program share them. By default the objects are in
	// memory, and the lease is a file in State.
	Database backend.Backend

	Observe func(events.Event) // receives each event, in addition to Out; optional
}

// Orchestrator keeps the processes on this machine equal to the manifests. It wires everything: sources and their caches, the
// controllers, and the manager that starts and stops them in order.
type Orchestrator struct {
	cfg      Config
	election leaderelect.LeaseStore
	status   net.Listener // of the status page, whose address is in the lease
	page     string       // the path of the status page, which no other copy has
	events   *events.Recorder
	machine  *machine.Machine
	host     host // the machine, as seen by controllers
	parts    []manager.Part
	manager  *manager.Manager
	traffic  *services

	unstopped error // why the replicas could not be stopped at the end; set by stopReplicas

	// The caches, each filled by a source.
	manifests   *informer.Informer[string, manifest.Manifest] // the directory, polled
	replicas    *informer.Informer[string, machine.Replica]   // the processes, polled
	apps        mirror[WebApp]                                // the store, watched
	deployments mirror[Deployment]
	services    mirror[Service]
	byApp       *cache.Index[string, string, machine.Replica]
}

// reasonRejected is the reason of the event for an invalid manifest.
const reasonRejected = "Rejected"

// The intervals and limits. All are short, because the replicas are fast.
const (
	pollInterval  = 250 * time.Millisecond
	probeInterval = 250 * time.Millisecond
	probeTimeout  = 400 * time.Millisecond
	grace         = 3 * time.Second // that a replica gets to end
	drainCheck    = 20 * time.Millisecond
	drainLimit    = 2 * time.Second // for the connections of a replica that is no longer needed
	patience      = 3 * time.Second // with a replica that does not appear
	stopTimeout   = 10 * time.Second
)

// New opens the directories and wires everything. It starts nothing but the listener of the status page.
func New(cfg Config) (o *Orchestrator, err error) {
	o = &Orchestrator{cfg: cfg, page: "/" + rand.Text()}
	show := printer(cfg.Out)
	o.events, err = events.NewRecorder(events.Config{Sink: func(e events.Event) {
		show(e)
		if cfg.Observe != nil {
			cfg.Observe(e)
		}
	}})
	if err != nil {
		return nil, err
	}
	dir, err := manifest.Open(cfg.Manifests, pollInterval)
	if err != nil {
		return nil, err
	}
	if err := openState(cfg.State); err != nil {
		return nil, err
	}
	var db backend.Backend
	if db, o.election, err = openShared(cfg); err != nil {
		return nil, err
	}
	if err := o.openSources(dir, db); err != nil {
		return nil, err
	}
	if o.status, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("webapp: listen for the status page: %w", err)
	}
	if err := o.wire(); err != nil {
		o.status.Close()
		return nil, err
	}
	return o, nil
}

// openSources makes the five sources and their caches.
func (o *Orchestrator) openSources(dir *files.Source[string, manifest.Manifest], db backend.Backend) error {
	problems := &problems{of: dir.Problems, events: o.events}
	cfg := o.reading("manifests")
	complain := cfg.OnError
	cfg.OnError = func(err error) {
		problems.report()
		complain(err)
	}
	var err error
	if o.manifests, err = informer.New(dir, manifest.Name, cfg); err != nil {
		return err
	}
	o.manifests.OnVersion(func(informer.Version) { problems.report() })

	var nudge func()
	m, err := machine.Open(replicasOf(o.cfg.State), machine.Config{
		Grace: grace, Permit: mayAct, Changed: func() { nudge() }, Logger: o.cfg.Logger,
	})
	if err != nil {
		return err
	}
	o.machine, o.host = m, m
	poller, replicas, err := polled(o, "replicas", m.List, func(r machine.Replica) string { return r.ID })
	if err != nil {
		return err
	}
	o.replicas, nudge = replicas, poller.Nudge
	o.byApp = cache.AddIndex(o.replicas.Indexer(), func(r machine.Replica) []string { return []string{r.App} })

	var errApps, errDeployments, errServices error
	o.apps, errApps = newMirror[WebApp](db, kindWebApp, o.cfg.Logger)
	o.deployments, errDeployments = newMirror[Deployment](db, kindDeployment, o.cfg.Logger)
	o.services, errServices = newMirror[Service](db, kindService, o.cfg.Logger)
	return errors.Join(errApps, errDeployments, errServices)
}

// polled makes a polled source and its cache.
func polled[T any](
	o *Orchestrator, name string, list func(context.Context) ([]T, error), key cache.KeyFunc[string, T],
) (*poll.Source[string, T], *informer.Informer[string, T], error) {
	poller, err := poll.New(list, key, poll.Config[T]{Interval: pollInterval})
	if err != nil {
		return nil, nil, err
	}
	inf, err := informer.New(poller, key, o.reading(name))
	return poller, inf, err
}

// reading is the configuration of the cache of something that is read at intervals. Failed reads are logged once a minute.
func (o *Orchestrator) reading(name string) informer.Config {
	return informer.Config{
		Name: name, Logger: o.cfg.Logger,
		OnError: complainer(o.cfg.Logger, "webapp: the "+name+" cannot be read; everything stays as it is"),
		Backoff: wait.Backoff{Duration: pollInterval, Factor: 2, Jitter: 1, Cap: pollInterval * 20},
	}
}

// wire makes the controllers and the manager. Each controller reads caches and writes to the store or to the machine. None
// knows of another.
func (o *Orchestrator) wire() error {
	var err error
	if o.manager, err = manager.New(manager.Config{
		Election: &leaderelect.Config{
			Store:         o.election,
			Key:           leaseKey,
			LeaseDuration: cmp.Or(o.cfg.Lease, 3*time.Second),
			Metadata:      map[string]string{statusURL: "http://" + o.status.Addr().String() + o.page},
			OnNewLeader:   o.announce,
			Logger:        o.cfg.Logger,
		},
		BeforeRelease: o.stopReplicas,
		StopTimeout:   2 * stopTimeout,
		Logger:        o.cfg.Logger,
	}); err != nil {
		return err
	}
	if err := o.wireControllers(); err != nil {
		return err
	}
	return o.manager.Add(o.parts...)
}

// wireControllers makes the controllers.
func (o *Orchestrator) wireControllers() error {
	o.traffic = &services{services: o.services, byApp: o.byApp, events: o.events, log: o.cfg.Logger}
	return errors.Join(
		o.wireManifests(), o.wireWebApps(), o.wireDeployments(), o.wireServices(), o.wireProbes(),
		collect(o, o.deployments), collect(o, o.services),
	)
}

func (o *Orchestrator) wireManifests() error {
	r := &manifests{cache: o.manifests, apps: o.apps, events: o.events}
	return o.add("manifests", 1, r.Reconcile, nil, controller.For(o.manifests), controller.For(o.apps.cache))
}

func (o *Orchestrator) wireWebApps() error {
	r := &webapps{apps: o.apps, deployments: o.deployments, services: o.services, events: o.events}
	return o.add("webapps", 2, r.Reconcile, nil,
		controller.For(o.apps.cache),
		controller.Owns(o.deployments.cache, kindWebApp),
		controller.Owns(o.services.cache, kindWebApp))
}

func (o *Orchestrator) wireDeployments() error {
	tracked := expectations.NewTracked[string, string](expectations.Config[string]{TTL: patience, Logger: o.cfg.Logger})
	r := &deployments{
		deployments: o.deployments, manifests: o.manifests, byApp: o.byApp,
		machine: o.host, busy: o.traffic.busy, events: o.events,
		expected: tracked,
	}
	return o.add("deployments", 2, r.Reconcile, []controller.Expectations[string]{r.expected},
		controller.For(o.deployments.cache),
		controller.For(o.manifests),
		controller.Handles(o.replicas, r.watch))
}

func (o *Orchestrator) wireServices() error {
	app := func(_ context.Context, r machine.Replica) ([]string, error) { return []string{r.App}, nil }
	c, err := o.controller("services", 2, o.traffic.Reconcile, nil,
		controller.For(o.services.cache), controller.Watches(o.replicas, app))
	if err != nil {
		return err
	}
	o.traffic.Controller = c
	o.parts = append(o.parts, o.traffic)
	return nil
}

func (o *Orchestrator) wireProbes() error {
	r := &probes{replicas: o.replicas, machine: o.host, interval: probeInterval, timeout: probeTimeout}
	return o.add("probes", 8, r.Reconcile, nil, controller.For(o.replicas))
}

// collect adds a controller that deletes the children of one kind whose app is gone. Each child has the name of its app.
func collect[C any](o *Orchestrator, children mirror[C]) error {
	owned, apps := owner.NewChildren(children.Store, children.cache), owner.Watched[WebApp](o.apps, o.apps.cache)
	reconcile := func(ctx context.Context, name string) (controller.Result, error) {
		deleted, err := owned.Collect(ctx, name, apps)
		if deleted {
			o.events.Normal(store.Ref{Kind: children.Kind(), Key: name}, "Deleted", "its app is gone")
		}
		return controller.Result{}, err
	}
	return o.add("collector of "+children.Kind(), 1, reconcile, nil,
		controller.For(children.cache), controller.For(o.apps.cache))
}

// add makes a controller, which is a part for the manager.
func (o *Orchestrator) add(
	name string, workers int, reconcile func(context.Context, string) (controller.Result, error),
	expected []controller.Expectations[string], inputs ...controller.Input[string],
) error {
	c, err := o.controller(name, workers, reconcile, expected, inputs...)
	if err != nil {
		return err
	}
	o.parts = append(o.parts, c)
	return nil
}

// controller makes a controller that may read all caches, so it starts when they have synced. The manager runs their informers.
func (o *Orchestrator) controller(
	name string, workers int, reconcile func(context.Context, string) (controller.Result, error),
	expected []controller.Expectations[string], inputs ...controller.Input[string],
) (*controller.Controller[string], error) {
	return controller.New(name, reconcile, controller.Config[string]{
		Expectations: expected,
		Workers:      workers,
		Queue:        workqueue.Config[string]{RateLimiter: workqueue.NewItemExponentialFailureRateLimiter[string](20*time.Millisecond, 5*time.Second)},
		DrainTimeout: stopTimeout,
		Reads:        []controller.Informer{o.manifests, o.replicas, o.apps.cache, o.deployments.cache, o.services.cache},
		Logger:       o.cfg.Logger,
	}, inputs...)
}

// replicasOf returns the directory of the records of the replicas, in the state directory.
func replicasOf(state string) string { return filepath.Join(state, "replicas") }

// Run runs until ctx ends, and then stops in order: no more events, the queues drained, the replicas stopped, the lease
// released. A copy that does not lead waits for its turn, and leaves the replicas to the leader. If replicas are left without a
// leader, the error of Run says so.
func (o *Orchestrator) Run(ctx context.Context) error {
	beside, stop := context.WithCancel(context.WithoutCancel(ctx)) // what is needed until the manager has stopped
	defer stop()
	var g wait.Group
	g.Start(beside, o.machine.Run)
	g.Start(beside, o.serveStatus)
	err := o.manager.Run(ctx)
	stop()
	return errors.Join(err, g.Wait(), o.leftBehind(context.WithoutCancel(ctx)))
}

// mayAct returns nil if the leader may start and stop processes now: if ctx is the context of its work, and the lease holds
// according to the clock. A timer is not enough, because this process may have been suspended for longer than the lease.
func mayAct(ctx context.Context) error {
	leadership, ok := leaderelect.FromContext(ctx)
	if !ok {
		return errors.New("webapp: only the leader starts and stops replicas")
	}
	return leadership.Err()
}

// stopReplicas is the last act of a leader. If it fails, leftBehind prints the reason and what to do about it.
func (o *Orchestrator) stopReplicas(ctx context.Context) error {
	o.unstopped = o.machine.StopAll(ctx)
	return nil
}

// leftBehind returns an error if replicas are left without a leader.
func (o *Orchestrator) leftBehind(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	left, err := o.machine.List(ctx)
	switch {
	case err != nil:
		err = fmt.Errorf("it cannot be seen which replicas go on: %w", err)
	case len(left) == 0 || askLeader(ctx, io.Discard, o.election) == nil:
		return nil
	default:
		pids := make([]int, len(left))
		for i, r := range left {
			pids[i] = r.PID
		}
		err = fmt.Errorf("%s left without a leader, processes %v", counted(len(left), "replica"), pids)
	}
	if o.unstopped != nil {
		err = fmt.Errorf("%w, because they could not be stopped: %w", err, o.unstopped)
	}
	return fmt.Errorf("webapp: %w; start webapp again to have it look after them", err)
}
