package orchestrator

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/examples/webapp/machine"
	"github.com/setpoint-go/setpoint/examples/webapp/manifest"
)

// asProgram makes the test binary be the program.
const asProgram = "WEBAPP_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" || len(os.Args) > 1 && os.Args[1] == "replica" {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0")               // of the processes to come: they need not linger for the race detector
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // if nohup runs the tests, the programs must not ignore it too
	flag.Parse()
	settings := map[string]string{"test.parallel": "6"} // they start processes with deadlines in real time
	if flag.Lookup("test.timeout").Value.String() == "10m0s" {
		settings["test.timeout"] = "3m" // the default is too long to find out that one hangs
	}
	for name, value := range settings {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(withFilesInMemory(m.Run))
}

// withFilesInMemory runs the tests with their temporary files in memory, if the system has a file system there. The leases are synced
// often, and the disk may be busy.
func withFilesInMemory(run func() int) int {
	dir, err := os.MkdirTemp("/dev/shm", "webapp")
	if err != nil {
		return run()
	}
	defer os.RemoveAll(dir)
	os.Setenv("TMPDIR", dir)
	return run()
}

// generous bounds what would otherwise wait forever. No test takes as long.
const generous = 20 * time.Second

// rig is an orchestrator in directories of its own.
type rig struct {
	*Orchestrator
	t         *testing.T
	ctx       context.Context
	manifests string
	state     string
	temp      string // the temporary directory of its programs
	stop      func() // and wait for the end

	mu sync.Mutex
	// mu guards the following.
	recorded []events.Event
}

// newRig makes the directories, with manifests of the given apps.
func newRig(t *testing.T, apps ...manifest.Manifest) *rig {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), generous)
	t.Cleanup(cancel)
	r := &rig{t: t, ctx: ctx, manifests: t.TempDir(), state: filepath.Join(t.TempDir(), "state"), temp: t.TempDir()}
	for _, app := range apps {
		r.write(app)
	}
	return r
}

func (r *rig) config() Config {
	return Config{
		Manifests: r.manifests, State: r.state, Lease: 10 * time.Second, // no test waits for it, and a slow disk does not lose it
		Out: io.Discard, Logger: slog.New(slog.DiscardHandler),
		Observe: func(e events.Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.recorded = append(r.recorded, e)
		},
	}
}

// start runs the orchestrator until the test ends, or stop is called.
func (r *rig) start() *rig {
	r.t.Helper()
	var err error
	r.Orchestrator, err = New(r.config())
	require.NoError(r.t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.ctx)) // until stop, even if the test has run out of time
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		assert.NoError(r.t, <-ended)
	})
	r.t.Cleanup(r.stop)
	return r
}

func (r *rig) file(name string) string { return filepath.Join(r.manifests, name+".json") }

func (r *rig) write(app manifest.Manifest) {
	r.t.Helper()
	data, err := json.Marshal(app)
	require.NoError(r.t, err)
	r.writeFile(app.Name, string(data))
}

// writeFile writes a file that is whole whenever the orchestrator reads it.
func (r *rig) writeFile(name, text string) {
	r.t.Helper()
	temp := filepath.Join(r.temp, name)
	require.NoError(r.t, os.WriteFile(temp, []byte(text), 0o600))
	require.NoError(r.t, os.Rename(temp, r.file(name)))
}

// until waits until cond holds.
func (r *rig) until(what string, cond func() bool) {
	r.t.Helper()
	require.NoError(r.t, r.await(r.ctx, what, cond))
}

// running waits until the app runs as its manifest says, and returns its processes.
func (r *rig) running(app manifest.Manifest) (pids []int) {
	r.t.Helper()
	r.until(app.Name+" runs", func() bool {
		pids = nil
		for _, p := range r.byApp.All(app.Name) {
			if p.State != machine.Ready || p.Message != app.Message {
				return false
			}
			pids = append(pids, p.PID)
		}
		o, _ := r.apps.cache.Get(app.Name)
		spec := WebAppSpec{Replicas: app.Replicas, Port: app.Port, Message: app.Message}
		return o.Value.Spec == spec && o.Value.Status.Phase == Running && len(pids) == app.Replicas
	})
	return pids
}

// reasons returns how often each reason was recorded for an object.
func (r *rig) reasons(kind, key string) map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := map[string]int{}
	for _, e := range r.recorded {
		if e.About.Kind == kind && e.About.Key == key {
			n[e.Reason]++
		}
	}
	return n
}

// app returns a manifest at a port that is free. Its message names the test.
func app(t *testing.T, name string, replicas int) manifest.Manifest {
	t.Helper()
	port, err := freePort()
	require.NoError(t, err)
	return manifest.Manifest{Name: name, Replicas: replicas, Port: port, Message: "I am " + name + " of " + t.Name()}
}

// serves reports whether the app answers at its port. If the app has stopped, another test may have the port.
func serves(app manifest.Manifest) bool {
	body, err := get(app.Port)
	return err == nil && strings.Contains(body, app.Message)
}
