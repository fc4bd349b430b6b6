package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/examples/webapp/machine"
	"github.com/setpoint-go/setpoint/examples/webapp/manifest"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// process is a replica in a simulation. Its ID is random, and stands in simulated.ids.
type process struct {
	App, Revision, Message string
	Number                 int
	State                  machine.State
}

// simulated is what of a simulation is in no store: the IDs of the replicas, by their keys.
type simulated struct {
	ids     map[string]string
	started time.Time
}

// simHost is a machine whose replicas are objects of a store. A process that has lost its lease can still start and stop replicas:
// nothing in a real machine refuses that.
type simHost struct {
	*simulated
	replicas store.Store[process]
}

func (h simHost) Start(ctx context.Context, s machine.Spec) error {
	if slices.Contains(slices.Collect(maps.Values(h.ids)), s.ID) { // of some hundred random IDs, two may be equal
		return os.ErrExist // as a machine
	}
	n := len(h.ids) + 1
	key := fmt.Sprintf("r%d", n)
	h.ids[key] = s.ID
	_, err := h.replicas.Create(store.Unfenced(ctx), store.Object[process]{Key: key, Value: process{
		App: s.App, Revision: s.Revision, Message: s.Message, Number: n, State: machine.Starting,
	}})
	return err
}

func (h simHost) Stop(ctx context.Context, id string) error { return h.set(ctx, id, machine.Stopping) }
func (h simHost) Kill(ctx context.Context, id string) error { return h.set(ctx, id, machine.Stopping) }
func (h simHost) Drain(id string)                           { _ = h.set(context.Background(), id, machine.Draining) }

func (h simHost) set(ctx context.Context, id string, state machine.State) error {
	for key, have := range h.ids {
		if have != id {
			continue
		}
		_, err := store.Patch(store.Unfenced(ctx), h.replicas, key, func(o *store.Object[process]) error {
			o.Value.State = max(o.Value.State, state)
			return nil
		})
		if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
		return err
	}
	return nil
}

func (h simHost) Probe(context.Context, machine.Replica) error { return nil }
func (h simHost) ReportHealth(string, error)                   {}

// seen is a replica as the orchestrator sees it.
func (s *simulated) seen(o store.Object[process]) machine.Replica {
	r := machine.Replica{
		ID: s.ids[o.Key], App: o.Value.App, Revision: o.Value.Revision, Message: o.Value.Message, State: o.Value.State,
		PID: o.Value.Number, Created: s.started.Add(time.Duration(o.Value.Number)),
	}
	if r.State > machine.Starting {
		r.Port = 1000 + r.PID
	}
	return r
}

// simBalancers are load balancers without clients.
type simBalancers map[string]string

func (b simBalancers) Ensure(name string, port int, _ []string) error {
	b[name] = fmt.Sprintf("127.0.0.1:%d", port)
	return nil
}
func (b simBalancers) Remove(name string)         { delete(b, name) }
func (b simBalancers) Address(name string) string { return b[name] }
func (b simBalancers) Busy(string) bool           { return false }

// simWebApp returns the controllers of the program over the stores of a simulation, without the probes, whose keys are random.
func simWebApp(env *simtest.Env, world *simulated) ([]simtest.Part, error) {
	quiet := slog.New(slog.DiscardHandler)
	recorder, err := events.NewRecorder(events.Config{Logger: quiet})
	if err != nil {
		return nil, err
	}
	replicas := simtest.Open[process](env, "replica")
	o := &Orchestrator{cfg: Config{Logger: quiet}, events: recorder, host: simHost{world, replicas}}
	wanted := informer.Map(simtest.Open[manifest.Manifest](env, "manifest"), func(m store.Object[manifest.Manifest]) manifest.Manifest {
		return m.Value
	})
	var errs [6]error
	o.manifests, errs[0] = informer.New(wanted, func(m manifest.Manifest) string { return m.Name }, informer.Config{Name: "manifests", Logger: quiet})
	o.replicas, errs[1] = informer.New(informer.Map(replicas, world.seen), func(r machine.Replica) string { return r.ID },
		informer.Config{Name: "replicas", Logger: quiet})
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	o.byApp = cache.AddIndex(o.replicas.Indexer(), func(r machine.Replica) []string { return []string{r.App} })
	o.apps, errs[2] = newMirror[WebApp](env.Backend(), kindWebApp, quiet)
	o.deployments, errs[3] = newMirror[Deployment](env.Backend(), kindDeployment, quiet)
	o.services, errs[4] = newMirror[Service](env.Backend(), kindService, quiet)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	if err := o.wireControllers(); err != nil {
		return nil, err
	}
	o.traffic.balancers = make(simBalancers)
	var parts []simtest.Part
	for _, part := range o.parts {
		switch c := part.(type) {
		case *services:
			parts = append(parts, simtest.Loop(c.Controller))
		case *controller.Controller[string]:
			if c.Name() != "probes" {
				parts = append(parts, simtest.Loop(c))
			}
		}
	}
	return parts, nil
}

// simMachine is what replicas do by themselves: they become ready, and end when they are told to.
func simMachine(env *simtest.Env) ([]simtest.Part, error) {
	quiet := slog.New(slog.DiscardHandler)
	replicas := simtest.Open[process](env, "replica")
	seen, err := informer.New(replicas, store.Key, informer.Config{Name: "replica", Logger: quiet})
	if err != nil {
		return nil, err
	}
	c, err := controller.New("machine", func(ctx context.Context, key string) (controller.Result, error) {
		r, err := replicas.Get(ctx, key)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return controller.Result{}, nil
		case err == nil && r.Value.State == machine.Starting:
			r.Value.State = machine.Ready
			_, err = replicas.Update(ctx, r)
		case err == nil && r.Value.State == machine.Stopping:
			_, err = replicas.Delete(ctx, key)
		}
		return controller.Result{}, err
	}, controller.Config[string]{Logger: quiet}, controller.For(seen))
	return []simtest.Part{simtest.Loop(c)}, err
}

func simWorld() simtest.World {
	world := &simulated{ids: make(map[string]string), started: time.Now()}
	apply := func(name string, replicas int, message string) simtest.Step {
		return simtest.Step{Name: fmt.Sprintf("%s: %d replicas, %q", name, replicas, message), Do: func(ctx context.Context, user *simtest.User) error {
			_, err := store.CreateOrUpdate(ctx, simtest.Open[manifest.Manifest](user, "manifest"), name, func(m *store.Object[manifest.Manifest]) error {
				m.Value = manifest.Manifest{Name: name, Replicas: replicas, Port: 8080, Message: message}
				return nil
			})
			return err
		}}
	}
	return simtest.World{
		Systems: []simtest.System{
			{Name: "webapp", Lease: "webapp", New: func(env *simtest.Env) ([]simtest.Part, error) { return simWebApp(env, world) }},
			{Name: "machine", Trusted: true, New: simMachine},
		},
		Steps: []simtest.Step{
			apply("web", 1, "one"),
			{Name: "remove web", Do: func(ctx context.Context, user *simtest.User) error {
				_, err := simtest.Open[manifest.Manifest](user, "manifest").Delete(ctx, "web")
				return err
			}},
			apply("web", 1, "two"),
		},
		Goal: simGoal,
	}
}

// simGoal returns an error unless one replica of the last message is ready, and everything says so.
func simGoal(v *simtest.View) error {
	ctx := context.Background()
	app, err := simtest.Open[WebApp](v, kindWebApp).Get(ctx, "web")
	if err != nil {
		return err
	}
	if app.Value.Status.Phase != Running {
		return fmt.Errorf("the app is %s: %+v", app.Value.Status.Phase, app.Value.Status)
	}
	all := simtest.List[process](v, "replica")
	if len(all) != 1 || all[0].Value.State != machine.Ready || all[0].Value.Message != "two" {
		slices.SortFunc(all, func(a, b store.Object[process]) int { return cmp.Compare(a.Value.Number, b.Value.Number) })
		return fmt.Errorf("the replicas are %+v", all)
	}
	return nil
}

// allPlans is for the long form of the test below, of some minutes: go test ./examples/webapp/orchestrator -run Survive -all-plans
var allPlans = flag.Bool("all-plans", false, "try every single fault at every position, in both modes")

func TestControllersSurviveFaults(t *testing.T) {
	t.Parallel()
	in := func(mode string) func() simtest.World {
		return func() simtest.World {
			w := simWorld()
			w.Mode, w.Pairs = mode, -1
			return w
		}
	}
	if *allPlans {
		simtest.Run(t, in("step"))
		simtest.Run(t, in("run"))
		return
	}
	// A large repair, caches that lag while another process hangs, a process that dies in its stop, two caches that lag in turn,
	// and a lease that is free because the successor is down.
	for _, text := range []string{
		"gap(webapp replica/r1#4 to 5)",
		"lose-lease(webapp update Service/web#1) pause(webapp update replica/r1#1) travel(webapp delete Service/web#1 back 2)",
		"skip(step#1) skip(step#2) regain(webapp update WebApp/web#1) conflict(webapp update WebApp/web#3) down(webapp update WebApp/web#4)",
		"gap(webapp WebApp/web#1 to 2) gap(webapp WebApp/web#2 to 3)",
		"early(webapp get WebApp/web#3) down(webapp update Service/web#2) regain(webapp create WebApp/web#2)",
	} {
		plan, err := simtest.ParsePlan(text)
		require.NoError(t, err)
		if f := simtest.Replay(t, in("run"), plan); f != nil && f.Severity == simtest.Bug {
			t.Error(f)
		}
	}
	for i, at := range []string{
		"create WebApp/web#1", "create Deployment/web#1", "create replica/r1#1", "update Deployment/web#1", "create Service/web#1",
		"delete WebApp/web#1", "update replica/r1#1", "delete Deployment/web#1",
	} {
		for j, do := range [][]string{{"crash-after", "zombie"}, {"lose-reply", "lose-lease"}}[i%2] {
			plan, err := simtest.ParsePlan(do + "(webapp " + at + ")")
			require.NoError(t, err)
			mode := "step"
			if (i/2+j)%2 > 0 {
				mode = "run"
			}
			if f := simtest.Replay(t, in(mode), plan); f != nil {
				t.Errorf("mode %s: %s", mode, f)
			}
		}
	}
}
