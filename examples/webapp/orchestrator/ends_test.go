//go:build unix

package orchestrator

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/examples/webapp/machine"
)

func TestHangupStopsInOrder(t *testing.T) {
	r := newRig(t, app(t, "hello", 2))
	p := r.program()
	p.line("Running")
	require.NoError(t, p.Process.Signal(syscall.SIGHUP))
	p.line("webapp: stopped")
	require.Zero(t, p.end())
	require.Empty(t, r.list())
}

func TestClosedOutputStopsInOrder(t *testing.T) {
	hello := app(t, "hello", 2)
	r := newRig(t, hello)
	p := r.program()
	p.line("Running")
	require.NoError(t, p.out.Close())
	hello.Replicas = 3
	r.write(hello) // so that there is something to print
	require.Equal(t, 1, p.end())
	require.Empty(t, r.list())
}

func TestKilledDemoLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(*program) error{
		"by a hangup":                  func(p *program) error { return p.Process.Signal(syscall.SIGHUP) },
		"by Ctrl-C":                    func(p *program) error { return p.Process.Signal(os.Interrupt) },
		"by head, which reads no more": func(p *program) error { return p.out.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			p := r.program("-demo")
			url := regexp.MustCompile(`http://\S+`).FindString(p.line("Running"))
			require.NoError(t, cut(p))
			require.Equal(t, 1, p.end())
			left, err := os.ReadDir(r.temp)
			require.NoError(t, err)
			require.Empty(t, left)
			require.NotEmpty(t, url)
		})
	}
}

func TestSecondCtrlCEndsDemoAndLeavesNothing(t *testing.T) {
	r := newRig(t)
	p := r.program("-demo")
	addr := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(p.line("Running", "3 replicas ready"))
	records, err := filepath.Glob(filepath.Join(r.temp, "webapp-demo-*", "state", "replicas"))
	require.NoError(t, err)
	require.Len(t, records, 1)
	m, err := machine.Open(records[0], machine.Config{})
	require.NoError(t, err)
	list, err := m.List(r.ctx)
	require.NoError(t, err)
	require.NotEmpty(t, list) // the demo may have killed one already
	for _, replica := range list {
		_ = suspend(replica.PID) // so that the stop takes its grace
	}
	require.NoError(t, p.Process.Signal(os.Interrupt))
	untilRefused(t, addr)
	require.NoError(t, p.Process.Signal(os.Interrupt))
	require.Equal(t, 1, p.end())
	left, err := os.ReadDir(r.temp)
	require.NoError(t, err)
	require.Empty(t, left)
	for _, replica := range list {
		// The process that adopted the replica takes a moment to reap it; until then it has a process ID.
		require.Eventually(t, func() bool { return !alive(replica.PID) }, 10*time.Second, time.Millisecond)
	}
}

func TestRemovedStateDirectoryIsRecreated(t *testing.T) {
	hello := app(t, "hello", 2)
	r := newRig(t, hello)
	p := r.program("-lease", "1s")
	p.line("Running")
	pids := pidsOf(r.list())
	require.Eventually(t, func() bool { return os.RemoveAll(r.state) == nil }, 10*time.Second, time.Millisecond) // it fails if the program writes in the meantime
	// The replicas and the lease notice it in either order.
	for leads, runs := false, false; !leads || !runs; {
		line := p.line()
		leads = leads || strings.Contains(line, "Leader")
		runs = runs || strings.Contains(line, "Running")
	}
	after := pidsOf(r.list())
	require.Len(t, after, 2)
	for _, pid := range pids {
		require.NotContains(t, after, pid)
	}
	var out strings.Builder
	require.Zero(t, run([]string{"-state", r.state, "-status"}, &out, io.Discard))
	require.Regexp(t, `hello +Running +2/2`, out.String())
	require.NoError(t, p.Process.Signal(os.Interrupt))
	require.Zero(t, p.end())
	require.Empty(t, r.list())
}

func TestWritableByOthersStateDirectoryIsRejected(t *testing.T) {
	r := newRig(t)
	says := func(want string) {
		t.Helper()
		var out strings.Builder
		require.Equal(t, 1, run([]string{"-manifests", r.manifests, "-state", r.state}, io.Discard, &out))
		require.Contains(t, out.String(), want)
	}
	require.NoError(t, os.Mkdir(r.state, 0o700))
	require.NoError(t, os.Chmod(r.state, 0o777))
	says("webapp: others may write to the state directory " + r.state)
	if os.Getuid() == 0 {
		require.NoError(t, os.Chmod(r.state, 0o755))
		require.NoError(t, os.Chown(r.state, 12345, -1))
		says("webapp: the state directory " + r.state + " belongs to another user")
	}
}

func TestStateDirectoryIsPrivate(t *testing.T) {
	dir, err := stateDir("", "manifests")
	require.NoError(t, err)
	require.False(t, strings.HasPrefix(dir, os.TempDir()), dir)
	other, err := stateDir("", "others")
	require.NoError(t, err)
	require.NotEqual(t, dir, other)
}

func TestStatusCreatesNoDirectory(t *testing.T) {
	r := newRig(t)
	var out strings.Builder
	require.Equal(t, 1, run([]string{"-state", r.state, "-status"}, io.Discard, &out))
	require.Contains(t, out.String(), "webapp: no copy leads: no copy of the program runs with the state directory "+r.state)
	require.NoDirExists(t, r.state)
}

// On a full disk, the lease cannot be renewed, so it is lost.
func TestCtrlCWithoutLeaseNamesReplicasLeftBehind(t *testing.T) {
	r := newRig(t, app(t, "hello", 2))
	p := r.program("-lease", "1s")
	p.line("Running")
	pids := pidsOf(r.list())
	lease := filepath.Join(r.state, "lease")
	require.NoError(t, os.Rename(lease, lease+"-away"))
	require.NoError(t, os.WriteFile(lease, nil, 0o600)) // where nothing can be written
	p.line("leadership ended")
	require.NoError(t, p.Process.Signal(os.Interrupt))
	p.line("webapp: 2 replicas left without a leader, processes "+fmt.Sprint(pids), "start webapp again")
	require.Equal(t, 1, p.end())
	require.Equal(t, pids, pidsOf(r.list()), "they are left for the next leader to adopt")
}

func TestOnlyLeaderShowsItsTables(t *testing.T) {
	hello := app(t, "hello", 1)
	r := newRig(t, hello).start()
	r.running(hello)
	old := t.TempDir()
	require.NoError(t, os.CopyFS(leaseDir(old), os.DirFS(leaseDir(r.state)))) // where the lease stays as it is
	var out strings.Builder
	require.Zero(t, run([]string{"-state", old, "-status"}, &out, &out), &out)
	require.Contains(t, out.String(), "Running")

	resp, err := http.Get("http://" + r.status.Addr().String() + "/") // as of another copy that had this port
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusNotFound, resp.StatusCode)

	require.NoError(t, r.manager.Elector().Resign(r.ctx, time.Hour))
	out.Reset()
	require.Equal(t, 1, run([]string{"-state", old, "-status"}, &out, &out))
	require.Contains(t, out.String(), "led last, and has lost the lease")
	require.NotContains(t, out.String(), "Running")
}

func TestDeadLeadersTablesAreNotShown(t *testing.T) {
	r := newRig(t, app(t, "hello", 1))
	p := r.program()
	p.line("Running")
	require.NoError(t, p.Process.Kill())
	p.end()
	var out strings.Builder
	require.Equal(t, 1, run([]string{"-state", r.state, "-status"}, &out, &out))
	require.Contains(t, out.String(), "webapp: no copy leads: ")
	require.Contains(t, out.String(), "who led last, does not answer")
}

func TestFailedPollIsLoggedOnce(t *testing.T) {
	hello := app(t, "hello", 1)
	r := newRig(t, hello)
	p := r.program()
	p.line("Running")
	require.NoError(t, os.Rename(r.manifests, r.manifests+"-away"))
	p.line("level=WARN", "manifest", r.manifests)
	again := func(until string) {
		for line := range p.lines {
			assert.NotContains(t, line, "manifest", "it is reported again")
			if until != "" && strings.Contains(line, until) {
				return
			}
		}
	}
	require.NoError(t, kill(r.list()[0].PID))
	again("Died")
	again("Ready")
	time.Sleep(2 * pollInterval)
	require.NoError(t, os.Rename(r.manifests+"-away", r.manifests))
	require.NoError(t, p.Process.Signal(os.Interrupt))
	again("")
	require.Zero(t, p.end())
}

func TestHelpDescribesProgramAndManifest(t *testing.T) {
	var out strings.Builder
	require.Zero(t, run([]string{"-h"}, io.Discard, &out))
	require.Contains(t, out.String(), "webapp keeps what runs on this machine equal to a directory of manifests")
	require.Contains(t, out.String(), `{"name": "hello", "replicas": 3, "port": 8001, "message": "Hello."}`)
	require.Contains(t, out.String(), "-demo")
}

func TestFileNameIsEscapedForTerminal(t *testing.T) {
	r := newRig(t, app(t, "hello", 1))
	require.NoError(t, os.WriteFile(filepath.Join(r.manifests, "\x1b[2J\r.json"), nil, 0o600))
	p := r.program()
	line := p.line("Rejected")
	require.Contains(t, line, `\x1b[2J\r.json`)
	require.NotContains(t, line, "\x1b")
}

func TestSuspendedLeaderLeavesSuccessorsReplicasAlone(t *testing.T) {
	hello := app(t, "hello", 1)
	r := newRig(t, hello)
	first := r.program("-lease", "1s")
	first.line("Running", "ready")
	second := r.program("-lease", "1s")
	second.line("Leader", "term 1,")
	require.NoError(t, suspend(first.Process.Pid))
	second.line("Leader", "term 2,")
	hello.Replicas = 4
	r.write(hello)
	for range 3 {
		second.line("Started")
	}
	pids := pidsOf(r.list())
	require.NoError(t, syscall.Kill(first.Process.Pid, syscall.SIGCONT))
	first.line("Leader", "term 2,")            // it follows
	second.line("Running", "4 replicas ready") // now it gets the port
	require.Equal(t, pids, pidsOf(r.list()))
	require.NoError(t, first.Process.Signal(os.Interrupt))
	for line := range first.lines {
		assert.NotContains(t, line, "Stopping", "it stopped a foreign replica")
		assert.NotContains(t, line, "Started")
	}
	require.Zero(t, first.end(), "the other copy looks after the replicas")
	require.Equal(t, pids, pidsOf(r.list()))
}
