//go:build linux

package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/examples/webapp/orchestrator"
	"github.com/setpoint-go/setpoint/store"
)

func TestEachDatabase(t *testing.T) {
	require.Len(t, databases, len(openers()))
	for name, start := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			empty := start(t)
			for name, test := range map[string]func(*testing.T, *rig){
				"passes the demo": passesTheDemo,
				"is shared by three copies, one of which takes over": isSharedByThreeCopies,
				"refuses the write of a copy that was deposed":       refusesTheWriteOfADeposedCopy,
			} {
				r := empty()
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					test(t, newRig(t, r))
				})
			}
		})
	}
}

func passesTheDemo(t *testing.T, r *rig) {
	mine, err := r.apps.Create(r.ctx, store.Object[orchestrator.WebApp]{Key: "mine"})
	require.NoError(t, err)
	demo := r.start("", "-demo")
	demo.line("every step held")
	status, lines := demo.end()
	require.Zero(t, status, lines)
	list, err := r.apps.List(r.ctx)
	require.NoError(t, err)
	require.Equal(t, []store.Object[orchestrator.WebApp]{mine}, list.Items, "a demo leaves foreign objects alone")
}

func isSharedByThreeCopies(t *testing.T, r *rig) {
	first := r.start("") // with the lease of the default, which a busy machine does not lose
	first.line("Running", "2 replicas ready")
	second, third := r.start(""), r.start("")
	second.line(first.leads())
	third.line(first.leads())
	before, pids := r.stored(), r.pids()
	require.Equal(t, orchestrator.Running, before.Value.Status.Phase)
	require.Len(t, pids, 2)

	require.NoError(t, first.Process.Kill())
	first.end()
	require.Equal(t, before, r.stored(), "the writes of the dead copy are there")
	if strings.Contains(third.line(" leads, "), third.leads()) {
		second, third = third, second
	}
	r.serves()
	require.Equal(t, pids, r.pids(), "the same processes continue")
	require.Equal(t, before.UID, r.stored().UID)
	status, lines := r.start("", "-status").end()
	require.Zero(t, status, lines)
	require.Regexp(t, `hello +\w+ +\d/2 `, lines[1])

	require.NoError(t, second.Process.Signal(os.Interrupt))
	status, lines = second.end()
	require.Zero(t, status, lines)
	third.line("Ready")
	r.serves()
	require.NoError(t, third.Process.Signal(os.Interrupt))
	status, lines = third.end()
	require.Zero(t, status, lines)
	require.Empty(t, r.pids())
}

// A copy is suspended when it has sent the deletion of an app, and goes on when another copy leads.
func refusesTheWriteOfADeposedCopy(t *testing.T, r *rig) {
	first := r.start(suspends + "=1")
	first.line("Running", "2 replicas ready")
	second := r.start("")
	second.line(first.leads())
	before, pids := r.stored(), r.pids()
	require.NoError(t, os.Remove(r.file()))
	first.line("suspended")
	r.write() // so that the app is wanted again
	second.line(second.leads())
	require.NoError(t, first.Process.Signal(syscall.SIGCONT))
	require.Contains(t, first.line("written late"), store.ErrFenced.Error())
	r.serves() // now the other gets the port
	require.Equal(t, before.UID, r.stored().UID)
	require.Equal(t, pids, r.pids())
}

// serves waits until the app answers.
func (r *rig) serves() {
	r.t.Helper()
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	require.Eventually(r.t, func() bool {
		reply, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/", r.app.Port))
		return err == nil && reply.Body.Close() == nil && reply.StatusCode == http.StatusOK
	}, generous, 10*time.Millisecond)
}

func TestAddressWithoutDatabaseIsRejected(t *testing.T) {
	for address, says := range map[string]string{
		"":             `webapp: open -store "": it begins with none of memory:, etcd:, mysql:, nats:, postgres:, sqlite:`,
		"redis://host": `webapp: open -store "redis://host": it begins with none of memory:, etcd:, mysql:, nats:, postgres:, sqlite:`,
		"sqlite:":      "the path is empty",
		"postgres://127.0.0.1:1/x?connect_timeout=1": "connect",
	} {
		var out strings.Builder
		args := []string{"-store", address, "-manifests", t.TempDir(), "-state", t.TempDir()}
		assert.Equal(t, 1, orchestrator.Main(args, io.Discard, &out, openers()), address)
		assert.Contains(t, out.String(), says, address)
	}
}

// A read-only command finds nothing in an empty database and creates nothing there. A second one finds the same.
func TestStatusCreatesNothing(t *testing.T) {
	for name, missing := range map[string]string{
		"etcd":     `the key "webapp/layout" is missing`,
		"nats":     `stream "webapp"`,
		"postgres": `schema "webapp"`,
		"sqlite":   "no such file",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := databases[name](t)()
			for range 2 {
				var out strings.Builder
				args := []string{"-status", "-store", address, "-manifests", t.TempDir(), "-state", t.TempDir()}
				require.Equal(t, 1, orchestrator.Main(args, io.Discard, &out, openers()))
				require.Contains(t, out.String(), missing)
				if path, ok := strings.CutPrefix(address, "sqlite:"); ok {
					require.Contains(t, out.String(), path)
					require.NoFileExists(t, path)
				}
			}
		})
	}
}
