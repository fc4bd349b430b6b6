package orchestrator

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/examples/webapp/machine"
)

// fleet makes replicas in all states, for plan to choose from.
type fleet struct{ n, curReady, curStarting, oldReady, oldStarting, hung int }

func (f fleet) replicas(spec DeploymentSpec) []machine.Replica {
	var rs []machine.Replica
	add := func(n int, revision string, s machine.State) {
		for range n {
			rs = append(rs, machine.Replica{ID: fmt.Sprint(len(rs)), Revision: revision, State: s, Created: time.Unix(int64(len(rs)), 0)})
		}
	}
	add(f.curReady, spec.Revision(), machine.Ready)
	add(f.curStarting, spec.Revision(), machine.Starting)
	add(f.oldReady, "old", machine.Ready)
	add(f.oldStarting, "old", machine.Running)
	add(f.hung, spec.Revision(), machine.Unhealthy)
	return rs
}

func eachFleet(do func(fleet)) {
	for n := range 5 {
		for i := range 5 * 5 * 5 * 5 * 2 {
			do(fleet{n, i % 5, i / 5 % 5, i / 25 % 5, i / 125 % 5, i / 625})
		}
	}
}

func TestPlanKeepsReadyAndSurgeLimits(t *testing.T) {
	t.Parallel()
	eachFleet(func(f fleet) {
		spec := DeploymentSpec{Replicas: f.n}
		rs := f.replicas(spec)
		p := planFor(spec, rs)
		ready := f.curReady + f.oldReady
		for _, r := range rs {
			if slices.Contains(p.stop, r.ID) && slices.Contains(p.kill, r.ID) {
				t.Fatalf("%+v: %+v: %s is stopped and killed", f, p, r.ID)
			}
			if slices.Contains(p.stop, r.ID) && r.State == machine.Ready {
				ready--
			}
		}
		live := f.curReady + f.curStarting + f.oldReady + f.oldStarting
		surge := count(f.oldReady+f.oldStarting > 0)
		switch {
		case len(p.kill) != f.hung:
			t.Fatalf("%+v: %+v: not those that hang are killed", f, p)
		case ready < min(f.n-1, f.curReady+f.oldReady):
			t.Fatalf("%+v: %+v: fewer than N-1 ready", f, p)
		case f.n > 0 && f.curReady+f.oldReady > 0 && ready <= 0:
			t.Fatalf("%+v: %+v: none ready", f, p)
		case live+p.start > max(live, f.n+surge):
			t.Fatalf("%+v: %+v: too many", f, p)
		case f.curReady+f.curStarting+p.start > max(f.n, f.curReady+f.curStarting):
			t.Fatalf("%+v: %+v: too many of the current revision", f, p)
		}
	})
}

// If every started replica becomes ready and every stopped one ends, the plans end with N ready replicas of the
// current revision.
func TestPlansReachSpecFromEveryFleet(t *testing.T) {
	t.Parallel()
	eachFleet(func(f fleet) {
		spec := DeploymentSpec{Replicas: f.n}
		rs := f.replicas(spec)
		for round := 0; ; round++ {
			p := planFor(spec, rs)
			if round > 0 && reflect.DeepEqual(p, plan{}) {
				break // all are ready now, so every later plan is the same
			}
			if round == 20 {
				t.Fatalf("%+v: it does not settle: %+v", f, p)
			}
			rs = slices.DeleteFunc(rs, func(r machine.Replica) bool {
				return slices.Contains(p.stop, r.ID) || slices.Contains(p.kill, r.ID)
			})
			for range p.start {
				rs = append(rs, machine.Replica{ID: fmt.Sprint(100 + len(rs)), Revision: spec.Revision()})
			}
			for i := range rs {
				rs[i].State = machine.Ready
			}
		}
		if len(rs) != f.n {
			t.Fatalf("%+v: it ends with %d replicas", f, len(rs))
		}
	})
}

// A revision that never becomes ready stops no other replica, and the next revision is still rolled out.
func TestUnreadyRevisionIsReplacedByNext(t *testing.T) {
	bad, good := DeploymentSpec{Replicas: 3, Message: "bad"}, DeploymentSpec{Replicas: 3, Message: "good"}
	rs := fleet{oldReady: 3}.replicas(bad)
	step := func(spec DeploymentSpec) {
		p := planFor(spec, rs)
		rs = slices.DeleteFunc(rs, func(r machine.Replica) bool { return slices.Contains(p.stop, r.ID) })
		for range p.start {
			rs = append(rs, machine.Replica{ID: fmt.Sprint(100 + len(rs)), Revision: spec.Revision(), State: machine.Starting})
		}
	}
	readies := func() (n int) {
		for i := range rs {
			if rs[i].Revision == good.Revision() {
				rs[i].State = machine.Ready
			}
			n += count(rs[i].State == machine.Ready)
		}
		return n
	}
	for range 10 {
		step(bad)
		require.Equal(t, 2, readies())
		require.LessOrEqual(t, len(rs), 4)
	}
	for range 10 {
		step(good)
		require.GreaterOrEqual(t, readies(), 2)
	}
	require.Len(t, rs, 3)
	require.Zero(t, planFor(good, rs))
}

func TestStatusDescribesApps(t *testing.T) {
	app := WebAppSpec{Replicas: 2, Port: 80, Message: "m"}
	spec := DeploymentSpec{Replicas: 2, Message: "m"}
	service := Service{Spec: ServiceSpec{Port: 80}, Status: ServiceStatus{Address: "127.0.0.1:80", Backends: 2}}
	deployment := func(ready int, reached bool) Deployment {
		d := Deployment{Spec: spec, Status: DeploymentStatus{Ready: ready, Reached: reached}}
		if reached {
			d.Status.Rolled = spec
		}
		return d
	}
	for name, c := range map[string]struct {
		d    Deployment
		s    Service
		want WebAppStatus
	}{
		"no children yet":        {want: WebAppStatus{Phase: Pending}},
		"nothing ready yet":      {d: deployment(0, false), s: service, want: WebAppStatus{Phase: Pending, Address: "127.0.0.1:80"}},
		"one of two for a start": {d: deployment(1, false), s: service, want: WebAppStatus{Phase: Deploying, Ready: 1, Address: "127.0.0.1:80"}},
		"all ready":              {d: deployment(2, true), s: service, want: WebAppStatus{Phase: Running, Ready: 2, Address: "127.0.0.1:80"}},
		"ready, but not in the load balancer yet": {d: deployment(2, true), s: Service{Spec: service.Spec, Status: ServiceStatus{Address: "127.0.0.1:80", Backends: 1}},
			want: WebAppStatus{Phase: Deploying, Ready: 2, Address: "127.0.0.1:80"}},
		"one lost": {d: deployment(1, true), s: service,
			want: WebAppStatus{Phase: Degraded, Ready: 1, Address: "127.0.0.1:80", Problem: "1 of 2 replicas are ready"}},
		"another revision": {d: Deployment{Status: DeploymentStatus{Ready: 2, Reached: true, Rolled: DeploymentSpec{Replicas: 2, Message: "old"}}}, s: service,
			want: WebAppStatus{Phase: Deploying, Ready: 2, Address: "127.0.0.1:80"}},
		"another port": {d: deployment(2, true), s: Service{Spec: ServiceSpec{Port: 81}, Status: service.Status},
			want: WebAppStatus{Phase: Deploying, Ready: 2, Address: "127.0.0.1:80"}},
		"port taken": {d: deployment(2, true), s: Service{Spec: service.Spec, Status: ServiceStatus{Problem: "port taken"}},
			want: WebAppStatus{Phase: Degraded, Ready: 2, Problem: "port taken"}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, statusOf(app, c.d, c.s)) })
	}
	require.Equal(t, Running, statusOf(WebAppSpec{Port: 80}, Deployment{Status: DeploymentStatus{Reached: true}}, service).Phase, "none wanted")
}
