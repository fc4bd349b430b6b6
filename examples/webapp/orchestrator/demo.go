package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/examples/webapp/machine"
	"github.com/setpoint-go/setpoint/examples/webapp/manifest"
	"github.com/setpoint-go/setpoint/wait"
)

// demoTimeout is the maximum duration of the script.
const demoTimeout = time.Minute

// demo is a script of real actions against an orchestrator.
type demo struct {
	*Orchestrator
	out   io.Writer
	start time.Time
	app   manifest.Manifest // as in its file
	file  string
	pids  map[int]bool // of the replicas that were last seen ready

	rejected chan struct{} // gets a value when a manifest is rejected
}

// runDemo runs an orchestrator in directories of its own, plays the script and says how each step went. It returns the
// reason if one did not hold. Of cfg it takes the database, the output and the logger.
func runDemo(ctx context.Context, cfg Config) (err error) {
	dir, err := os.MkdirTemp("", "webapp-demo-")
	if err != nil {
		return fmt.Errorf("webapp: demo: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	defer onSecondSignal(func() {
		abandon(ctx, dir)
		os.Exit(1)
	})()
	port, err := freePort()
	if err != nil {
		return err
	}
	manifests := filepath.Join(dir, "manifests")
	if err := os.Mkdir(manifests, 0o700); err != nil {
		return fmt.Errorf("webapp: demo: %w", err)
	}
	rejected := make(chan struct{}, 1)
	o, err := New(Config{
		Manifests: manifests, State: stateOf(dir), Database: cfg.Database, Out: cfg.Out, Logger: cfg.Logger,
		Lease: 10 * time.Second, // the demo does not wait for it, and a busy machine does not lose it
		Observe: func(e events.Event) {
			if e.Reason == reasonRejected {
				select {
				case rejected <- struct{}{}:
				default:
				}
			}
		},
	})
	if err != nil {
		return err
	}
	d := &demo{
		Orchestrator: o, out: cfg.Out, start: time.Now(),
		app:      manifest.Manifest{Name: "hello", Replicas: 3, Port: port, Message: "Hello from setpoint."},
		file:     filepath.Join(manifests, "hello.json"),
		rejected: rejected,
	}

	told := ctx
	ctx, cancel := context.WithTimeout(ctx, demoTimeout)
	defer cancel()
	running, stop := context.WithCancel(ctx)
	defer stop()
	var g wait.Group
	// The script must not outlive an orchestrator that fails.
	g.Start(running, func(ctx context.Context) error {
		defer cancel()
		return o.Run(ctx)
	})
	err = d.play(ctx)
	if told.Err() != nil {
		err = fmt.Errorf("webapp: demo: %w", context.Cause(told)) // not the progress of the script
	}
	stop()
	if err := errors.Join(err, g.Wait()); err != nil {
		return err
	}
	for pid := range d.pids {
		if alive(pid) {
			return fmt.Errorf("webapp: demo: process %d still runs", pid)
		}
	}
	d.say("stopped in order; every step held")
	return nil
}

// abandon kills the replicas and removes dir, while the rest of the program runs until the process ends. The rest may still write
// to dir during its stop, so dir must be gone for a moment.
func abandon(ctx context.Context, dir string) {
	gone, cancel := context.WithCancel(ctx)
	cancel() // so that StopAll kills at once
	if m, err := machine.Open(replicasOf(stateOf(dir)), machine.Config{}); err == nil {
		_ = m.StopAll(gone)
	}
	for range 20 {
		_ = os.RemoveAll(dir)
		time.Sleep(50 * time.Millisecond)
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			return
		}
	}
}

// stateOf returns the directory of the state of the demo in dir.
func stateOf(dir string) string { return filepath.Join(dir, "state") }

// play plays the script.
func (d *demo) play(ctx context.Context) error {
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"create an app of 3 replicas", d.create},
		{"curl it", d.curl},
		{"kill -9 a replica, and see it healed", d.killOne},
		{"suspend a replica, and see it replaced", d.suspendOne},
		{"half-write the manifest, and see the app go on", d.halfWrite},
		{"change the message, and see no request fail while it is rolled out", d.roll},
		{"scale from 3 to 5", func(ctx context.Context) error { return d.scale(ctx, 5) }},
		{"scale from 5 to 1", func(ctx context.Context) error { return d.scale(ctx, 1) }},
		{"delete the manifest, and see everything gone", d.remove},
	} {
		d.say("%s", step.name)
		begin := time.Now()
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("webapp: demo: %s: %w", step.name, err)
		}
		d.say("ok, in %.1f s", time.Since(begin).Seconds())
	}
	return nil
}

func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.out, "[%5.1f s] %s\n", time.Since(d.start).Seconds(), fmt.Sprintf(format, args...))
}

func (d *demo) create(ctx context.Context) error {
	if err := d.write(); err != nil {
		return err
	}
	return d.settle(ctx)
}

func (d *demo) curl(context.Context) error {
	body, err := get(d.app.Port)
	if err != nil {
		return err
	}
	if !strings.Contains(body, d.app.Message) {
		return fmt.Errorf("the answer is %q, without the message", body)
	}
	d.say("GET http://127.0.0.1:%d/ answers %q", d.app.Port, body)
	return nil
}

func (d *demo) killOne(ctx context.Context) error {
	pid := d.victim()
	if err := kill(pid); err != nil {
		return err
	}
	d.say("killed process %d", pid)
	return d.settleWithout(ctx, pid)
}

func (d *demo) suspendOne(ctx context.Context) error {
	pid := d.victim()
	if err := suspend(pid); err != nil {
		return err
	}
	d.say("suspended process %d", pid)
	return d.settleWithout(ctx, pid)
}

func (d *demo) halfWrite(ctx context.Context) error {
	if err := os.WriteFile(d.file, []byte(`{"name": "hello", "repl`), 0o600); err != nil {
		return err
	}
	select {
	case <-d.rejected:
	case <-ctx.Done():
		return fmt.Errorf("the broken file was not noticed: %w", context.Cause(ctx))
	}
	if err := d.curl(ctx); err != nil {
		return err
	}
	return d.create(ctx)
}

func (d *demo) roll(ctx context.Context) error {
	var asked, failed atomic.Int32
	asking, stop := context.WithCancel(ctx)
	defer stop()
	var g wait.Group
	// Sends requests until the new revision is there.
	g.Start(asking, func(ctx context.Context) error {
		for ctx.Err() == nil {
			asked.Add(1)
			if _, err := get(d.app.Port); err != nil {
				failed.Add(1)
				return err
			}
		}
		return nil
	})
	d.app.Message = "Hello again."
	err := d.create(ctx)
	stop()
	if err := errors.Join(err, g.Wait()); err != nil {
		return err
	}
	d.say("%d requests, %d failed", asked.Load(), failed.Load())
	return d.curl(ctx)
}

func (d *demo) scale(ctx context.Context, n int) error {
	d.app.Replicas = n
	return d.create(ctx)
}

func (d *demo) remove(ctx context.Context) error {
	if err := os.Remove(d.file); err != nil {
		return err
	}
	if err := d.await(ctx, "everything is gone", func() bool {
		return d.replicas.Indexer().Len()+d.apps.cache.Indexer().Len()+d.deployments.cache.Indexer().Len()+d.services.cache.Indexer().Len() == 0
	}); err != nil {
		return err
	}
	if _, err := get(d.app.Port); err == nil {
		return errors.New("something still answers at the port")
	}
	return nil
}

// settle waits until the app runs as its manifest says, and records its processes.
func (d *demo) settle(ctx context.Context) error {
	return d.settleWithout(ctx, 0)
}

// settleWithout is settle, when one process must be gone.
func (d *demo) settleWithout(ctx context.Context, gone int) error {
	revision := DeploymentSpec{Message: d.app.Message}.Revision()
	want := WebAppSpec{Replicas: d.app.Replicas, Port: d.app.Port, Message: d.app.Message}
	return d.await(ctx, "the app runs as it should", func() bool {
		d.pids = map[int]bool{}
		for _, r := range d.byApp.All(d.app.Name) {
			if r.State != machine.Ready || r.Revision != revision {
				return false
			}
			d.pids[r.PID] = true
		}
		app, ok := d.apps.cache.Get(d.app.Name)
		return ok && app.Value.Spec == want && app.Value.Status.Phase == Running && len(d.pids) == want.Replicas && !d.pids[gone]
	})
}

// victim returns one of the processes.
func (d *demo) victim() int {
	for pid := range d.pids {
		return pid
	}
	return 0
}

// write writes the manifest.
func (d *demo) write() error {
	data, err := json.Marshal(d.app)
	if err != nil {
		return err
	}
	return os.WriteFile(d.file, data, 0o600)
}

// get asks the app at a port, on a new connection.
func get(port int) (string, error) {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(body), err
}

// freePort returns a port that nothing listens on. The system does not give it to a replica or to an outgoing connection: those get
// ports above 32767.
func freePort() (port int, err error) {
	for range 100 {
		port = 10_000 + rand.N(20_000)
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("webapp: find a free port: %w", err)
}
