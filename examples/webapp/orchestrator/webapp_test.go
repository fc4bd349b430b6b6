package orchestrator

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/examples/webapp/machine"
	"github.com/setpoint-go/setpoint/examples/webapp/manifest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/wait"
)

func TestProgramStartsAndServes(t *testing.T) {
	hello := app(t, "hello", 2)
	r := newRig(t, hello).start()
	r.running(hello)
	require.True(t, serves(hello))
}

// A worker that ran before the manifests are known would treat the replica of an earlier run as an orphan.
func TestAllCachesSyncBeforeAnyWorkerRuns(t *testing.T) {
	hello := app(t, "hello", 1)
	r := newRig(t, hello)
	m := r.leftBehind(hello)

	hidden := r.manifests + "-hidden"
	var err error
	r.Orchestrator, err = New(r.config())
	require.NoError(t, err)
	require.NoError(t, os.Rename(r.manifests, hidden))
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	for _, s := range []<-chan struct{}{r.replicas.Synced(), r.apps.cache.Synced(), r.deployments.cache.Synced(), r.services.cache.Synced()} {
		<-s
	}
	require.False(t, r.manifestsSynced())
	require.NoError(t, os.Rename(hidden, r.manifests))
	pids := r.running(hello)
	assert.Equal(t, []int{m.PID}, pids, "the replica was adopted")
	assert.Zero(t, r.reasons(kindDeployment, "hello")["Started"])
	cancel()
	require.NoError(t, <-ended)
}

func TestAppGetsOwnedDeploymentAndService(t *testing.T) {
	hello := app(t, "hello", 1)
	r := newRig(t, hello).start()
	r.running(hello)
	o, err := r.apps.Get(r.ctx, "hello")
	require.NoError(t, err)
	want := []store.OwnerRef{{Ref: store.Ref{Kind: kindWebApp, Key: "hello", UID: o.UID}, Controller: true}}
	d, err := r.deployments.Get(r.ctx, "hello")
	require.NoError(t, err)
	assert.Equal(t, want, d.Owners)
	assert.Equal(t, DeploymentSpec{Replicas: 1, Message: hello.Message}, d.Value.Spec)
	s, err := r.services.Get(r.ctx, "hello")
	require.NoError(t, err)
	assert.Equal(t, want, s.Owners)
	assert.Equal(t, ServiceSpec{Port: hello.Port}, s.Value.Spec)
}

func TestDeletedChildIsRecreatedAndKeepsItsReplicas(t *testing.T) {
	hello := app(t, "hello", 2)
	r := newRig(t, hello).start()
	pids := r.running(hello)
	d, err := r.deployments.Get(r.ctx, "hello")
	require.NoError(t, err)
	s, err := r.services.Get(r.ctx, "hello")
	require.NoError(t, err)
	require.NoError(t, errOf(r.deployments.Delete(r.ctx, "hello")))
	require.NoError(t, errOf(r.services.Delete(r.ctx, "hello")))
	r.until("the children are back", func() bool {
		d2, ok := r.deployments.cache.Get("hello")
		s2, ok2 := r.services.cache.Get("hello")
		return ok && ok2 && d2.UID != d.UID && s2.UID != s.UID && d2.Value.Status.Reached && s2.Value.Status.Address != ""
	})
	assert.ElementsMatch(t, pids, r.running(hello))
	assert.True(t, serves(hello))
}

func TestChangingReplicasStartsNoneTwice(t *testing.T) {
	hello := app(t, "hello", 1)
	r := newRig(t, hello).start()
	for _, n := range []int{1, 4, 2, 0, 1} {
		hello.Replicas = n
		r.write(hello)
		r.running(hello)
		d, _ := r.deployments.cache.Get("hello")
		require.Equal(t, n, d.Value.Spec.Replicas)
	}
	require.Equal(t, 1+3+1, r.reasons(kindDeployment, "hello")["Started"])
}

func TestDeletingTheManifestCascades(t *testing.T) {
	hello, other := app(t, "hello", 2), app(t, "other", 1)
	r := newRig(t, hello, other).start()
	r.running(hello)
	pids := r.running(other)
	require.NoError(t, os.Remove(r.file("hello")))
	r.until("everything of the app is gone", func() bool {
		_, a := r.apps.cache.Get("hello")
		_, d := r.deployments.cache.Get("hello")
		_, s := r.services.cache.Get("hello")
		return !a && !d && !s && r.byApp.Len("hello") == 0
	})
	require.False(t, serves(hello))
	require.Equal(t, pids, r.running(other))
}

func TestCreationUpdateAndDeletionEventsAreRecorded(t *testing.T) {
	hello := app(t, "hello", 1)
	r := newRig(t, hello).start()
	r.running(hello)
	hello.Message = "I am new"
	r.write(hello)
	r.running(hello)
	require.NoError(t, os.Remove(r.file("hello")))
	r.until("the app is gone", func() bool { return r.byApp.Len("hello")+r.deployments.cache.Indexer().Len() == 0 })
	r.stop() // so that every controller has recorded what it did
	reasons := r.reasons(kindWebApp, "hello")
	for _, reason := range []string{"Created", "Updated", "Deleted"} {
		assert.Equal(t, 1, reasons[reason], reason)
		assert.Equal(t, 1, r.reasons(kindDeployment, "hello")[reason], reason)
	}
	assert.GreaterOrEqual(t, reasons["Running"], 2)
}

func TestDeadOrHangingReplicaIsReplaced(t *testing.T) {
	hello := app(t, "hello", 3)
	r := newRig(t, hello).start()
	pids := r.running(hello)
	require.NoError(t, suspend(pids[0]))
	require.NoError(t, kill(pids[1]))
	r.until("both are replaced", func() bool {
		for _, p := range r.byApp.All("hello") {
			if p.PID == pids[0] || p.PID == pids[1] || p.State != machine.Ready {
				return false
			}
		}
		return r.byApp.Len("hello") == 3
	})
	assert.Equal(t, 5, r.reasons(kindDeployment, "hello")["Started"])
	assert.Equal(t, 1, r.reasons(kindDeployment, "hello")["Died"])
	assert.Equal(t, 1, r.reasons(kindDeployment, "hello")["Killed"])
}

func TestRolloutKeepsAllButOneReadyAndFailsNoRequest(t *testing.T) {
	hello := app(t, "hello", 3)
	r := newRig(t, hello).start()
	r.running(hello)

	least := 3
	check, err := watching(r.replicas)(func() {
		ready := 0
		for _, p := range r.byApp.All("hello") {
			ready += count(p.State == machine.Ready)
		}
		least = min(least, ready)
	})
	require.NoError(t, err)
	asking, stop := context.WithCancel(r.ctx)
	defer stop()
	var g wait.Group
	asked := 0
	g.Start(asking, func(ctx context.Context) error {
		for ctx.Err() == nil {
			if _, err := get(hello.Port); err != nil {
				return err
			}
			asked++
		}
		return nil
	})
	hello.Message = "I am new"
	r.write(hello)
	r.running(hello)
	stop()
	require.NoError(t, g.Wait())
	<-check.Remove()
	require.GreaterOrEqual(t, least, 2)
	require.Positive(t, asked)
	body, err := get(hello.Port)
	require.NoError(t, err)
	require.Contains(t, body, "I am new")
}

func TestTakenPortDegradesOneAppUntilFree(t *testing.T) {
	hello, other := app(t, "hello", 1), app(t, "other", 1)
	taken, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(hello.Port)))
	require.NoError(t, err)
	r := newRig(t, hello, other).start()
	r.running(other)
	r.until("hello says that its port is taken", func() bool {
		o, _ := r.apps.cache.Get("hello")
		return o.Value.Status.Phase == Degraded && strings.Contains(o.Value.Status.Problem, strconv.Itoa(hello.Port))
	})
	require.NoError(t, taken.Close())
	r.running(hello)
}

func TestInvalidManifestIsRejectedWithoutAffectingOthers(t *testing.T) {
	good := app(t, "good", 1)
	r := newRig(t, good)
	for file, text := range map[string]string{
		"negative": `{"name": "negative", "replicas": -1, "port": 9, "message": "m"}`,
		"huge":     `{"name": "huge", "replicas": 1000000, "port": 9, "message": "m"}`,
		"twice":    `{"name": "good", "replicas": 9, "port": 9, "message": "m"}`,
		"broken":   `{"name": "bro`,
		"empty":    ``,
	} {
		r.writeFile(file, text)
	}
	require.NoError(t, os.Mkdir(r.file("unreadable"), 0o700))
	r.start()
	r.running(good)
	for _, file := range []string{"negative", "huge", "twice", "broken", "empty"} {
		assert.Equal(t, 1, r.reasons("File", file+".json")["Rejected"], file)
	}
	require.Equal(t, 1, r.apps.cache.Indexer().Len())

	// A good file that goes bad keeps its app.
	pids := r.running(good)
	r.writeFile("good", `{"name": "good", "repl`)
	r.writeFile("negative", `{"name": "negative", "replicas": 0, "port": 9, "message": "m"}`)
	r.until("the corrected file counts", func() bool { _, ok := r.apps.cache.Get("negative"); return ok })
	// Perhaps the list with the corrected file was begun before the good one went bad.
	require.Eventually(t, func() bool { return r.reasons("File", "good.json")["Rejected"] == 1 }, generous, time.Millisecond)
	require.Equal(t, pids, r.running(good))
}

func TestStopStopsReplicasAndReleasesLease(t *testing.T) {
	hello := app(t, "hello", 2)
	r := newRig(t, hello).start()
	pids := r.running(hello)
	r.stop()
	for _, pid := range pids {
		assert.False(t, alive(pid), "process %d", pid)
	}
	_, err := leaderelect.Holder(t.Context(), r.election, leaseKey)
	assert.ErrorIs(t, err, leaderelect.ErrNotFound)
	assert.False(t, serves(hello))
}

// leftBehind starts a replica of an app as an earlier run would have.
func (r *rig) leftBehind(app manifest.Manifest) machine.Replica {
	r.t.Helper()
	m, err := machine.Open(r.state+"/replicas", machine.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(r.t, err)
	require.NoError(r.t, m.Start(r.ctx, machine.Spec{
		ID: app.Name + "-left", App: app.Name, Message: app.Message,
		Revision: DeploymentSpec{Message: app.Message}.Revision(),
	}))
	r.t.Cleanup(func() { assert.NoError(r.t, m.StopAll(context.Background())) })
	for {
		list, err := m.List(r.ctx)
		require.NoError(r.t, err)
		require.Len(r.t, list, 1)
		if list[0].PID != 0 {
			return list[0]
		}
	}
}

func (r *rig) manifestsSynced() bool { return r.Orchestrator.manifests.HasSynced() }

// errOf returns the error of a call that returns an object too.
func errOf[T any](_ store.Object[T], err error) error { return err }

// A replica that stopped while connections were in flight to it would lose them.
func TestReplicaStopsAfterLastConnectionEnds(t *testing.T) {
	hello := app(t, "hello", 1)
	r := newRig(t, hello).start()
	r.running(hello)
	var addr string
	for _, p := range r.byApp.All("hello") {
		addr = p.Addr()
	}
	early := make(chan struct{}, 1)
	check, err := watching(r.replicas)(func() {
		for _, p := range r.byApp.All("hello") {
			if p.Addr() == addr && p.State == machine.Stopping && r.traffic.busy(addr) {
				select {
				case early <- struct{}{}:
				default:
				}
			}
		}
	})
	require.NoError(t, err)

	c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(hello.Port)))
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
	require.NoError(t, err)
	answers := bufio.NewReader(c)
	line, err := answers.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 100 Continue\r\n", line, "it is being served")

	hello.Message = "I am new"
	r.write(hello)
	r.until("the old replica drains", func() bool {
		for _, p := range r.byApp.All("hello") {
			if p.Addr() == addr {
				return p.State == machine.Draining
			}
		}
		return false
	})
	require.Eventually(t, func() bool { return serves(hello) }, generous, time.Millisecond, "the load balancer leaves it")
	time.Sleep(drainLimit / 4) // longer than a guess of how long requests take
	_, err = io.WriteString(c, "body")
	require.NoError(t, err)
	answer, err := io.ReadAll(io.LimitReader(answers, 1000))
	require.NoError(t, err)
	require.Contains(t, string(answer), "I am hello")
	require.NoError(t, c.Close())
	r.running(hello)
	<-check.Remove()
	require.Empty(t, early, "it was stopped while it had connections")
}

func TestOnlyLeaseHolderStartsAndStopsReplicas(t *testing.T) {
	var work context.Context
	elector, err := leaderelect.New(leaderelect.Config{
		Store: memlease.New(), Key: leaseKey,
		OnStartedLeading: func(ctx context.Context, _ *leaderelect.Leadership) error {
			work = context.WithoutCancel(ctx) // as of one whose timers are late
			return mayAct(work)
		},
	})
	require.NoError(t, err)
	require.NoError(t, elector.RunOnce(t.Context()), "while it lasts")
	require.ErrorIs(t, mayAct(work), leaderelect.ErrTermEnded)

	r := newRig(t).start()
	spec := machine.Spec{ID: "a-1", App: "a"}
	require.ErrorContains(t, r.machine.Start(r.ctx, spec), "only the leader")
	require.ErrorIs(t, r.machine.Start(work, spec), leaderelect.ErrTermEnded)
}

func TestMessageAgreesInNumber(t *testing.T) {
	for n, want := range []string{
		"no replicas are wanted, so nothing answers at http://a/",
		"1 replica ready, open http://a/",
		"2 replicas ready, open http://a/",
	} {
		require.Equal(t, want, running(WebAppStatus{Ready: n, Address: "a"}))
	}
}
