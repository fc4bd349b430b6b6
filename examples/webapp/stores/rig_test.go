//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/examples/webapp/machine"
	"github.com/setpoint-go/setpoint/examples/webapp/manifest"
	"github.com/setpoint-go/setpoint/examples/webapp/orchestrator"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store"
)

// asProgram makes the test binary be the program, and suspends makes it one that suspends itself: see suspending.
const (
	asProgram = "WEBAPP_TEST_AS_PROGRAM"
	suspends  = "WEBAPP_TEST_SUSPENDS"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" || len(os.Args) > 1 && os.Args[1] == "replica" {
		known := openers()
		if os.Getenv(suspends) != "" {
			known = suspended(known)
		}
		os.Exit(orchestrator.Main(os.Args[1:], os.Stdout, os.Stderr, known))
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // of the processes to come: they need not linger for the race detector
	flag.Parse()
	if err := flag.Set("test.parallel", "3"); err != nil { // they start processes with deadlines in real time
		panic(err)
	}
	os.Exit(m.Run())
}

// generous limits waits that would otherwise never end.
const generous = 30 * time.Second

// rig is what copies of the program share: a database, and the directories.
type rig struct {
	t         *testing.T
	ctx       context.Context
	address   string
	manifests string
	state     string
	app       manifest.Manifest // the one that there is
	apps      store.Store[orchestrator.WebApp]
}

// newRig returns a rig over the database at an address, with the manifest of one app.
func newRig(t *testing.T, address string) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), generous)
	t.Cleanup(cancel)
	_, port, err := net.SplitHostPort(servertest.FreeAddr(t))
	require.NoError(t, err)
	number, err := strconv.Atoi(port)
	require.NoError(t, err)
	r := &rig{
		t: t, ctx: ctx, address: address, manifests: t.TempDir(), state: filepath.Join(t.TempDir(), "state"),
		app: manifest.Manifest{Name: "hello", Replicas: 2, Port: number, Message: "Hello."},
	}
	r.write()
	scheme, _, _ := strings.Cut(address, ":")
	db, closeDB, err := openers()[scheme](ctx, address, "webapp", true)
	require.NoError(t, err)
	t.Cleanup(closeDB)
	r.apps, err = store.Open(db, "WebApp", store.Config[orchestrator.WebApp]{})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, r.machine().StopAll(context.Background()))
	})
	return r
}

func (r *rig) file() string { return filepath.Join(r.manifests, r.app.Name+".json") }

// write writes the manifest of the app.
func (r *rig) write() {
	r.t.Helper()
	data, err := json.Marshal(r.app)
	require.NoError(r.t, err)
	require.NoError(r.t, os.WriteFile(r.file(), data, 0o600))
}

func (r *rig) machine() *machine.Machine {
	r.t.Helper()
	m, err := machine.Open(filepath.Join(r.state, "replicas"), machine.Config{})
	require.NoError(r.t, err)
	return m
}

// pids returns the processes of the replicas.
func (r *rig) pids() (pids []int) {
	r.t.Helper()
	list, err := r.machine().List(r.ctx)
	require.NoError(r.t, err)
	for _, replica := range list {
		pids = append(pids, replica.PID)
	}
	return pids
}

// stored returns the app as the database has it.
func (r *rig) stored() store.Object[orchestrator.WebApp] {
	r.t.Helper()
	app, err := r.apps.Get(r.ctx, r.app.Name)
	require.NoError(r.t, err)
	return app
}

// copyOf is a copy of the program, in a process of its own.
type copyOf struct {
	*exec.Cmd
	t     *testing.T
	lines chan string // its output; closed when it ends
}

// start starts a copy of the program.
func (r *rig) start(env string, args ...string) *copyOf {
	r.t.Helper()
	self, err := os.Executable()
	require.NoError(r.t, err)
	args = append([]string{"-manifests", r.manifests, "-state", r.state, "-store", r.address}, args...)
	p := &copyOf{exec.CommandContext(r.ctx, self, args...), r.t, make(chan string, 10_000)}
	p.Env = append(os.Environ(), asProgram+"=1", env)
	out, err := p.StdoutPipe()
	require.NoError(r.t, err)
	p.Stderr = p.Stdout
	require.NoError(r.t, p.Start())
	// Reads the output until the program has closed it.
	go func() {
		defer close(p.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			p.lines <- scan.Text()
		}
	}()
	r.t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	return p
}

// line waits for a line of the output that has all the words.
func (p *copyOf) line(words ...string) string {
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

// end waits until the program has ended, and returns its exit status and the rest of its output.
func (p *copyOf) end() (status int, rest []string) {
	for line := range p.lines {
		rest = append(rest, line)
	}
	_ = p.Wait() // says the same as the status
	return p.ProcessState.ExitCode(), rest
}

// leads returns how a line says that p leads.
func (p *copyOf) leads() string { return fmt.Sprintf("_%d leads, ", p.Process.Pid) }
