//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package machine_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/examples/webapp/machine"
	"github.com/setpoint-go/setpoint/examples/webapp/replica"
	"github.com/setpoint-go/setpoint/internal/looptest"
)

// TestMain makes the test binary a replica, and the starter of replicas that a test can crash.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "replica" {
		os.Exit(replica.Main(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "starter" {
		os.Exit(starter(os.Args[2], os.Args[3]))
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // for replicas: under the race detector each would take a second to exit
	flag.Parse()
	if limit := flag.Lookup("test.timeout").Value; limit.String() == "10m0s" {
		if err := limit.Set("3m"); err != nil { // the default is too long to find out that one hangs
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// starter starts the replica "orphan" in a directory, says so, and waits to be killed; or kills itself in the middle.
func starter(dir, crash string) int {
	cfg := machine.Config{}
	if crash == "in the middle" {
		cfg.Command = func(machine.Spec) *exec.Cmd {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	m, err := machine.Open(dir, cfg)
	if err == nil {
		err = m.Start(context.Background(), machine.Spec{ID: "orphan", App: "app", Revision: "r1", Message: "hello"})
	}
	fmt.Println("started", err)
	select {}
}

// startElsewhere has another process start the replica "orphan", and kills that process.
func startElsewhere(t *testing.T, dir, crash string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "starter", dir, crash)
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, _ := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, cmd.Process.Kill())
	require.EqualError(t, cmd.Wait(), "signal: killed")
	if crash == "" {
		require.Equal(t, "started <nil>\n", line)
	}
}

// world is a Machine that runs over a directory of the test.
type world struct {
	t *testing.T
	*machine.Machine
	dir     string
	changed chan struct{} // one slot: there is something new
	log     *logBuffer
}

// run returns a world whose Machine runs, and whose replicas are gone when the test is over. Tests do not run at once: a
// process that one forks would hold the locks of the others until its exec.
func run(t *testing.T, cfg machine.Config) *world {
	t.Helper()
	return runIn(t, looptest.MemoryDir(t), cfg)
}

func runIn(t *testing.T, dir string, cfg machine.Config) *world {
	t.Helper()
	w := &world{t: t, dir: dir, changed: make(chan struct{}, 1), log: &logBuffer{}}
	cfg.Logger = slog.New(slog.NewTextHandler(w.log, nil))
	cfg.Changed = func() {
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
	var err error
	w.Machine, err = machine.Open(dir, cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	// Run blocks; the cleanup ends it and waits.
	go func() { ran <- w.Run(ctx) }()
	t.Cleanup(func() {
		ended, cancelNow := context.WithCancel(context.Background())
		cancelNow() // no grace
		if err := w.StopAll(ended); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) start(id string) {
	w.t.Helper()
	require.NoError(w.t, w.Start(context.Background(), spec(id)))
}

func spec(id string) machine.Spec {
	return machine.Spec{ID: id, App: "app", Revision: "r1", Message: "hello"}
}

func (w *world) list() []machine.Replica {
	w.t.Helper()
	rs, err := w.List(context.Background())
	require.NoError(w.t, err)
	return rs
}

// until lists after every change, until the list is as it should be, which the Machine has to tell.
func (w *world) until(is func([]machine.Replica) bool) []machine.Replica {
	w.t.Helper()
	late := time.After(20 * time.Second)
	for {
		rs := w.list()
		if is(rs) {
			return rs
		}
		select {
		case <-w.changed:
		case <-late:
			w.t.Fatalf("nothing has changed; there is %+v; log:\n%s", rs, w.log)
		}
	}
}

// running starts a replica and returns it when it listens.
func (w *world) running(id string) machine.Replica {
	w.t.Helper()
	w.start(id)
	rs := w.until(func(rs []machine.Replica) bool { return len(rs) > 0 && find(rs, id).State == machine.Running })
	return find(rs, id)
}

func (w *world) untilGone() {
	w.t.Helper()
	w.until(func(rs []machine.Replica) bool { return len(rs) == 0 })
	require.Empty(w.t, w.files())
}

func (w *world) files() []string {
	w.t.Helper()
	entries, err := os.ReadDir(w.dir)
	require.NoError(w.t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) write(name, content string) {
	w.t.Helper()
	require.NoError(w.t, os.WriteFile(w.path(name), []byte(content), 0o600))
}

// hold locks a file exclusively, as a process does for its life, until the test is over or the file is closed.
func (w *world) hold(name string) *os.File {
	w.t.Helper()
	f, err := os.Open(w.path(name))
	require.NoError(w.t, err)
	require.NoError(w.t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
	w.t.Cleanup(func() { f.Close() })
	return f
}

// awaitDeath waits until the process of a record is dead, even if it is not our child.
func (w *world) awaitDeath(id string) {
	w.t.Helper()
	f, err := os.Open(w.path(id + ".replica.json"))
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	require.NoError(w.t, err)
	defer f.Close()
	require.NoError(w.t, syscall.Flock(int(f.Fd()), syscall.LOCK_SH))
}

// logged waits until a line with these parts is in the log. The exit of a process shows in its lock before its status
// can be had.
func (w *world) logged(parts ...string) {
	w.t.Helper()
	late := time.After(20 * time.Second)
	for {
		for line := range strings.Lines(w.log.String()) {
			found := 0
			for _, part := range parts {
				if strings.Contains(line, part) {
					found++
				}
			}
			if found == len(parts) {
				return
			}
		}
		select {
		case <-w.changed:
		case <-late:
			w.t.Fatalf("no line with %q; log:\n%s", parts, w.log)
		}
	}
}

func find(rs []machine.Replica, id string) machine.Replica {
	for _, r := range rs {
		if r.ID == id {
			return r
		}
	}
	return machine.Replica{}
}

func signal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	require.NotZero(t, pid)
	require.NoError(t, syscall.Kill(pid, s))
}

// suspend suspends a process, and returns when it does nothing any more.
func suspend(t *testing.T, pid int) {
	t.Helper()
	signal(t, pid, syscall.SIGSTOP)
	var status syscall.WaitStatus
	_, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil)
	for err == syscall.EINTR {
		_, err = syscall.Wait4(pid, &status, syscall.WUNTRACED, nil)
	}
	if err == nil {
		require.True(t, status.Stopped())
		return
	}
	for { // it is not a child of ours
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || bytes.Contains(stat, []byte(") T ")) {
			return
		}
	}
}

// logBuffer is what the Machine has logged.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
