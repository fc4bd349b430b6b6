//go:build unix

package orchestrator

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/examples/webapp/machine"
	"github.com/setpoint-go/setpoint/examples/webapp/manifest"
)

// program is a copy of the program, in a process of its own.
type program struct {
	*exec.Cmd
	t     *testing.T
	out   io.Closer   // where its output is read
	lines chan string // its output; closed when it ends
}

// run starts a copy of the program over the directories of the rig.
func (r *rig) program(args ...string) *program {
	r.t.Helper()
	self, err := os.Executable()
	require.NoError(r.t, err)
	cmd := exec.CommandContext(r.ctx, self, append([]string{"-manifests", r.manifests, "-state", r.state}, args...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+r.temp)
	out, err := cmd.StdoutPipe()
	require.NoError(r.t, err)
	cmd.Stderr = cmd.Stdout
	require.NoError(r.t, cmd.Start())
	p := &program{Cmd: cmd, t: r.t, out: out, lines: make(chan string, 10_000)}
	// Reads the output until the program, and every other holder of the pipe, has closed it.
	go func() {
		defer close(p.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			p.lines <- scan.Text()
		}
	}()
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		m, err := machine.Open(r.state+"/replicas", machine.Config{})
		if assert.NoError(r.t, err) {
			assert.NoError(r.t, m.StopAll(context.Background()))
		}
	})
	return p
}

// line waits for a line of the output that has all the words.
// The words must not be in the name of the test: lines may contain paths below t.TempDir, which have that name.
func (p *program) line(words ...string) string {
	p.t.Helper()
	var seen []string
	for line := range p.lines {
		seen = append(seen, line)
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			return line
		}
	}
	p.t.Fatalf("no line with %q in\n%s", words, strings.Join(seen, "\n"))
	return ""
}

// untilRefused waits until nothing listens at an address: its load balancer has closed. It asks for nothing, because the load
// balancer would wait for the answer of a suspended replica.
func untilRefused(t *testing.T, addr string) {
	t.Helper()
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	}, generous, time.Millisecond)
}

// end waits until the program has ended and returns its exit status.
func (p *program) end() int {
	_ = p.Wait() // says the same as the status
	return p.ProcessState.ExitCode()
}

func (r *rig) list() []machine.Replica {
	r.t.Helper()
	m, err := machine.Open(r.state+"/replicas", machine.Config{})
	require.NoError(r.t, err)
	list, err := m.List(r.ctx)
	require.NoError(r.t, err)
	return list
}

func pidsOf(list []machine.Replica) (pids []int) {
	for _, r := range list {
		pids = append(pids, r.PID)
	}
	return pids
}

func TestCtrlCStopsInOrder(t *testing.T) {
	hello := app(t, "hello", 2)
	r := newRig(t, hello)
	p := r.program()
	p.line("Running", "2 replicas ready")
	require.Len(t, r.list(), 2)
	require.NoError(t, p.Process.Signal(os.Interrupt))
	p.line("webapp: stopped")
	require.Zero(t, p.end())
	require.Empty(t, r.list())
}

func TestSecondCtrlCExitsAndNextRunCleansUp(t *testing.T) {
	hello := app(t, "hello", 1)
	r := newRig(t, hello)
	p := r.program("-lease", "1s")
	p.line("Running", "1 replica ready")
	pid := r.list()[0].PID
	require.NoError(t, suspend(pid)) // so that the stop takes its grace
	require.NoError(t, p.Process.Signal(os.Interrupt))
	untilRefused(t, fmt.Sprintf("127.0.0.1:%d", hello.Port))
	require.NoError(t, p.Process.Signal(os.Interrupt))
	require.Equal(t, exitInterrupted, p.end())
	require.Equal(t, []int{pid}, pidsOf(r.list()), "it is on record")

	require.NoError(t, os.Remove(r.file("hello")))
	next := r.program()
	next.line("Found", "runs already")
	next.line("Stopping", "its deployment is gone")
	require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
	require.NoError(t, next.Process.Signal(os.Interrupt))
	require.Zero(t, next.end())
	require.Empty(t, r.list())
}

func TestStandbyTakesOverAndAdoptsReplicas(t *testing.T) {
	hello := app(t, "hello", 2)
	r := newRig(t, hello)
	first := r.program("-lease", "1s")
	first.line("Running", "2 replicas ready")
	second := r.program("-lease", "1s")
	second.line("Leader", fmt.Sprintf("_%d leads", first.Process.Pid))
	pids := pidsOf(r.list())
	require.NoError(t, first.Process.Kill())
	second.line("Leader", fmt.Sprintf("_%d leads", second.Process.Pid))
	second.line("Running", "2 replicas ready")
	require.Equal(t, pids, pidsOf(r.list()), "the same processes continue")
	require.True(t, serves(hello))
}

func TestStatusIsPrintedOnSIGUSR1AndByFlag(t *testing.T) {
	hello := app(t, "hello", 1)
	r := newRig(t, hello)
	var out bytes.Buffer
	require.Equal(t, 1, run([]string{"-manifests", r.manifests, "-state", r.state, "-status"}, io.Discard, &out))
	require.Contains(t, out.String(), "no copy leads")

	p := r.program()
	p.line("Running", "1 replica ready")
	require.NoError(t, p.Process.Signal(syscall.SIGUSR1))
	p.line("APP", "PHASE", "READY")
	p.line("hello", "Running", "1/1")
	p.line("REPLICA", "STATE")
	p.line("hello-", "Ready")

	out.Reset()
	require.Zero(t, run([]string{"-manifests", r.manifests, "-state", r.state, "-status"}, &out, io.Discard))
	require.Regexp(t, `hello +Running +1/1 +127\.0\.0\.1:\d+`, out.String())
}

func TestBadArgumentsAreNamed(t *testing.T) {
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"-manifests", "no/such/directory"}, 1, "no/such/directory"},
		{[]string{"-manifests", "main.go"}, 1, "main.go: not a directory"},
		{[]string{"-lease", "1ms", "-manifests", "../manifests"}, 1, "LeaseDuration"},
		{[]string{"-lease", "soon"}, 2, "lease"},
		{[]string{"frobnicate"}, 2, `unexpected argument "frobnicate"`},
		{[]string{"-h"}, 0, "-demo"},
	} {
		var out bytes.Buffer
		args := c.args
		if c.status == 1 {
			args = append([]string{"-state", t.TempDir()}, args...)
		}
		assert.Equal(t, c.status, run(args, io.Discard, &out), c.args)
		assert.Contains(t, out.String(), c.says, c.args)
	}
}

func TestExampleManifestsAreValid(t *testing.T) {
	dir, err := manifest.Open("../manifests", time.Second)
	require.NoError(t, err)
	list, err := dir.List(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, list.Items)
	require.Empty(t, dir.Problems())
}

func TestNoSignalGoesToMissingProcess(t *testing.T) {
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, syscall.SIGCONT)
	defer signal.Stop(stopped)
	for _, pid := range []int{0, -1} { // to kill(2) these are the process group and everything
		require.EqualError(t, send(pid, syscall.SIGCONT), fmt.Sprintf("webapp: signal continued: %d is not a process ID", pid))
		require.False(t, alive(pid))
	}
	require.Empty(t, stopped)
}
