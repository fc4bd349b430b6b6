//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package machine_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/examples/webapp/machine"
)

func TestReplicaLifecycle(t *testing.T) {
	w := run(t, machine.Config{})
	before := time.Now()
	w.start("a-1")
	r := find(w.list(), "a-1")
	require.NotZero(t, r.PID)
	require.Contains(t, []machine.State{machine.Starting, machine.Running}, r.State)

	r = find(w.until(func(rs []machine.Replica) bool { return find(rs, "a-1").State == machine.Running }), "a-1")
	require.WithinRange(t, r.Created, before, time.Now())
	require.Equal(t, machine.Replica{ID: "a-1", App: "app", Revision: "r1", Message: "hello",
		PID: r.PID, Port: r.Port, Created: r.Created, State: machine.Running}, r)
	require.Equal(t, fmt.Sprintf("127.0.0.1:%d", r.Port), r.Addr())
	require.NoError(t, w.Probe(context.Background(), r))
	require.Equal(t, []string{"a-1.replica.json", "a-1.replica.log"}, w.files())

	w.ReportHealth("a-1", nil)
	w.until(func(rs []machine.Replica) bool { return find(rs, "a-1").State == machine.Ready })
	require.NoError(t, w.Stop(context.Background(), "a-1"))
	w.until(func(rs []machine.Replica) bool { return len(rs) == 0 || rs[0].State == machine.Stopping })
	w.untilGone()
	w.logged("id=a-1", `status="exit status 0"`)
	require.NoError(t, w.Stop(context.Background(), "a-1"), "a missing replica counts as stopped")
	require.NoError(t, w.Kill(context.Background(), "a-1"))
}

func TestExternalKillIsDetected(t *testing.T) {
	w := run(t, machine.Config{})
	r := w.running("a-1")
	signal(t, r.PID, syscall.SIGKILL)
	w.untilGone()
	w.logged("id=a-1", "signal: killed")
	require.ErrorIs(t, w.Probe(context.Background(), r), machine.ErrUnhealthy)
}

func TestConsecutiveFailedProbesMakeReplicaUnhealthy(t *testing.T) {
	w := run(t, machine.Config{Failures: 2})
	w.running("a-1")
	state := func() machine.State { return find(w.list(), "a-1").State }
	for _, step := range []struct {
		probe error
		want  machine.State
	}{
		{machine.ErrUnhealthy, machine.Running},
		{errors.New("it could not be asked"), machine.Running},
		{machine.ErrUnhealthy, machine.Unhealthy},
		{machine.ErrUnhealthy, machine.Unhealthy},
		{nil, machine.Ready},
		{machine.ErrUnhealthy, machine.Ready},
		{nil, machine.Ready},
		{machine.ErrUnhealthy, machine.Ready},
		{machine.ErrUnhealthy, machine.Unhealthy},
	} {
		w.ReportHealth("a-1", step.probe)
		require.Equal(t, step.want, state())
	}
	w.ReportHealth("nobody", machine.ErrUnhealthy)
	require.NoError(t, w.Kill(context.Background(), "a-1"))
	w.ReportHealth("a-1", nil)
	w.untilGone()

	w.running("a-1") // another one: what was known of the last does not count
	w.ReportHealth("a-1", machine.ErrUnhealthy)
	require.Equal(t, machine.Running, state())
}

func TestReusedIDIsAnotherReplica(t *testing.T) {
	w := run(t, machine.Config{})
	w.running("a-1")
	w.ReportHealth("a-1", nil)
	require.NoError(t, w.Kill(context.Background(), "a-1"))
	w.awaitDeath("a-1")
	w.start("a-1") // without a list in between
	require.Contains(t, []machine.State{machine.Starting, machine.Running}, find(w.list(), "a-1").State)
}

func TestEveryStepIsReportedAsChange(t *testing.T) {
	w := run(t, machine.Config{})
	changes := 0
	m, err := machine.Open(w.dir, machine.Config{Changed: func() { changes++ }})
	require.NoError(t, err)
	require.NoError(t, m.Start(context.Background(), spec("a-1")))
	require.Equal(t, 1, changes)
	require.NoError(t, m.Stop(context.Background(), "a-1"))
	require.Equal(t, 2, changes)
	require.NoError(t, m.StopAll(context.Background()))
	for changes == 2 { // the process dies before its exit can be seen
		require.NoError(t, m.StopAll(context.Background()))
	}
	require.GreaterOrEqual(t, changes, 3)
	require.LessOrEqual(t, changes, 4, "the listening state may have been seen, too")
}

func TestDrainingReplicaRunsUntilStopped(t *testing.T) {
	w := run(t, machine.Config{})
	r := w.running("a-1")
	w.ReportHealth("a-1", nil)
	<-w.changed
	w.Drain("a-1")
	require.Len(t, w.changed, 1)
	require.Equal(t, machine.Draining, find(w.list(), "a-1").State)
	<-w.changed
	w.ReportHealth("a-1", machine.ErrUnhealthy)
	w.Drain("a-1")
	w.Drain("nobody")
	require.Empty(t, w.changed, "nothing has changed")
	require.NoError(t, w.Probe(context.Background(), r))
	require.NoError(t, w.Stop(context.Background(), "a-1"))
	w.untilGone()
}

// A suspended process may have lost its right to act since its last check.
func TestNothingIsStartedOrSignaledWithoutPermission(t *testing.T) {
	var permit error
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "of the caller")
	w := run(t, machine.Config{Grace: time.Nanosecond, Permit: func(ctx context.Context) error {
		if ctx.Value(key{}) == nil {
			return nil // the cleanup
		}
		return permit
	}})
	w.running("a-1")
	permit = errors.New("another process leads")
	require.ErrorIs(t, w.Start(ctx, spec("a-2")), permit)
	require.ErrorIs(t, w.Stop(ctx, "a-1"), permit)
	require.ErrorIs(t, w.Kill(ctx, "a-1"), permit)
	require.ErrorIs(t, w.StopAll(ctx), permit)
	require.Len(t, w.list(), 1)
	require.Equal(t, machine.Running, w.list()[0].State)
	require.Len(t, w.files(), 2)
	permit = nil
	require.NoError(t, w.Stop(ctx, "a-1"))
	w.untilGone()
}

func TestOnlyHealthTransitionsAreReported(t *testing.T) {
	w := run(t, machine.Config{})
	w.running("a-1")
	w.ReportHealth("a-1", nil)
	<-w.changed
	w.ReportHealth("a-1", nil)
	w.ReportHealth("a-1", machine.ErrUnhealthy)
	require.Empty(t, w.changed)
}

func TestSuspendedReplicaFailsProbesAndCanBeKilled(t *testing.T) {
	w := run(t, machine.Config{Grace: time.Hour})
	r := w.running("a-1")
	suspend(t, r.PID)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	err := w.Probe(ctx, r)
	require.ErrorIs(t, err, machine.ErrUnhealthy)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, w.Stop(context.Background(), "a-1"))
	require.Equal(t, machine.Stopping, find(w.list(), "a-1").State)
	require.NoError(t, w.Kill(context.Background(), "a-1"))
	w.untilGone()
	w.logged("id=a-1", "signal: killed")
}

func TestStopKillsAfterGracePeriod(t *testing.T) {
	t.Run("before, another Stop does nothing", func(t *testing.T) {
		w := run(t, machine.Config{Grace: time.Hour})
		r := w.running("a-1")
		suspend(t, r.PID)
		require.NoError(t, w.Stop(context.Background(), "a-1"))
		require.NoError(t, w.Stop(context.Background(), "a-1"))
		signal(t, r.PID, syscall.SIGCONT)
		w.untilGone()
		w.logged("id=a-1", `status="exit status 0"`)
	})
	t.Run("afterward it kills", func(t *testing.T) {
		w := run(t, machine.Config{Grace: time.Nanosecond})
		r := w.running("a-1")
		suspend(t, r.PID)
		require.NoError(t, w.Stop(context.Background(), "a-1"))
		require.Len(t, w.list(), 1, "the first Stop does not kill")
		require.NoError(t, w.Stop(context.Background(), "a-1"))
		w.untilGone()
		w.logged("id=a-1", "signal: killed")
	})
}

func TestProbeChecksReplicaIdentity(t *testing.T) {
	w := run(t, machine.Config{})
	r := w.running("a-1")
	impostor := r
	impostor.ID = "a-2"
	require.ErrorContains(t, w.Probe(context.Background(), impostor), `machine: probe "a-2": it is not healthy: "a-1" answers in its place`)
	require.ErrorContains(t, w.Probe(context.Background(), machine.Replica{ID: "a-3"}), "does not listen yet")
	require.Empty(t, machine.Replica{}.Addr())

	broken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan struct{})
	// Answers one connection; the test waits.
	go func() {
		defer close(served)
		c, err := broken.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = c.Read(make([]byte, 1024))
		_, _ = fmt.Fprint(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\na-1\n")
	}()
	impostor = r
	impostor.Port = broken.Addr().(*net.TCPAddr).Port
	require.ErrorContains(t, w.Probe(context.Background(), impostor), "status 503")
	<-served
	require.NoError(t, broken.Close())
}

// If this process cannot probe because it has no descriptors left, that says nothing about the replica.
func TestProbeErrorOfMachineIsNoFailure(t *testing.T) {
	w := run(t, machine.Config{})
	r := w.running("a-1")
	require.NoError(t, w.Probe(context.Background(), r))
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	few := limit
	few.Cur = 0 // what is open stays open
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few))
	t.Cleanup(func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)) })

	err := w.Probe(context.Background(), r)
	require.ErrorIs(t, err, syscall.EMFILE)
	require.NotErrorIs(t, err, machine.ErrUnhealthy)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))

	calledOff, cancel := context.WithCancel(context.Background())
	cancel()
	require.NotErrorIs(t, w.Probe(calledOff, r), machine.ErrUnhealthy)
}

func TestStopAllLeavesNothingOfTwentyReplicas(t *testing.T) {
	w := run(t, machine.Config{})
	const n = 20
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := w.Start(context.Background(), spec(fmt.Sprintf("a-%02d", i))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	rs := w.until(func(rs []machine.Replica) bool {
		running := 0
		for _, r := range rs {
			if r.State == machine.Running {
				running++
			}
		}
		return running == n
	})
	for i, r := range rs {
		require.Equal(t, fmt.Sprintf("a-%02d", i), r.ID)
	}
	require.NoError(t, w.StopAll(context.Background()))
	require.Empty(t, w.list())
	require.Empty(t, w.files())
	for _, r := range rs {
		w.logged("replica exited", "id="+r.ID, `status="exit status 0"`)
	}
}

func TestStopAllKillsUnresponsiveReplicas(t *testing.T) {
	for name, start := range map[string]func() (machine.Config, context.Context){
		"when the grace is over": func() (machine.Config, context.Context) {
			return machine.Config{Grace: 20 * time.Millisecond}, context.Background()
		},
		"when the context ends": func() (machine.Config, context.Context) {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			t.Cleanup(cancel)
			return machine.Config{Grace: time.Hour}, ctx
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, ctx := start()
			w := run(t, cfg)
			suspend(t, w.running("a-1").PID)
			w.running("a-2")
			require.NoError(t, w.StopAll(ctx))
			require.Empty(t, w.list())
		})
	}
}

func TestReplicasHaveTheirOwnSessionAndFiles(t *testing.T) {
	w := run(t, machine.Config{})
	w.running("a-1")
	r := w.running("a-2")
	group, err := syscall.Getpgid(r.PID)
	require.NoError(t, err)
	require.Equal(t, r.PID, group)
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.PID))
	if err != nil {
		return // no /proc
	}
	have := make(map[string]string)
	for _, f := range files {
		target, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", r.PID, f.Name()))
		if f.Name() == "0" || strings.HasPrefix(target, w.dir) {
			have[f.Name()] = target
		}
	}
	record, err := os.Stat(w.path("a-2.replica.json"))
	require.NoError(t, err)
	third, err := os.Stat(fmt.Sprintf("/proc/%d/fd/3", r.PID))
	require.NoError(t, err)
	require.True(t, os.SameFile(record, third))
	delete(have, "3")
	log := w.path("a-2.replica.log")
	require.Equal(t, map[string]string{"0": "/dev/null", "1": log, "2": log}, have)
}

func TestRunRunsOnce(t *testing.T) {
	w := run(t, machine.Config{})
	w.running("a-1") // Run has told: it runs
	require.ErrorIs(t, w.Run(context.Background()), machine.ErrRunning)
}

func TestOpenRejectsInvalidConfig(t *testing.T) {
	for want, cfg := range map[string]machine.Config{
		"Config.Grace is -1ns, must not be negative":  {Grace: -1},
		"Config.Failures is -1, must not be negative": {Failures: -1},
	} {
		_, err := machine.Open(t.TempDir(), cfg)
		require.ErrorContains(t, err, want)
	}
	file := t.TempDir() + "/file"
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := machine.Open(file, machine.Config{})
	require.ErrorIs(t, err, syscall.ENOTDIR)
}

func TestEndedContextReturnsItsCause(t *testing.T) {
	w := run(t, machine.Config{})
	w.running("a-1")
	ctx, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("enough")
	cancel(cause)
	_, err := w.List(ctx)
	require.ErrorIs(t, err, cause)
	require.ErrorIs(t, w.Start(ctx, spec("a-2")), cause)
	require.Len(t, w.list(), 1)
}
