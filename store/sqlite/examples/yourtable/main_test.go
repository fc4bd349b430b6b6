//go:build linux

package main

import (
	"bufio"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/store/sqlite"
)

// TestMain makes the test binary the program, in a process that a test has started.
func TestMain(m *testing.M) {
	if os.Getenv("YOURTABLE") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// program returns a process of the program that ends with the test.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0], args...)
	c.Env, c.Stderr = append(os.Environ(), "YOURTABLE=1"), os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return c
}

// running is a copy of the program.
type running struct {
	process *exec.Cmd
	lines   chan string // its output; closed when it has ended
}

func start(t *testing.T, args ...string) *running {
	t.Helper()
	r := &running{process: program(t, args...), lines: make(chan string, 100)}
	out, err := r.process.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, r.process.Start())
	t.Cleanup(func() { _ = r.process.Process.Kill() })
	go func() { // ends with the process
		defer close(r.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			r.lines <- s.Text()
		}
	}()
	return r
}

// next returns the next line.
func (r *running) next(t *testing.T) string {
	t.Helper()
	select {
	case line := <-r.lines:
		return line
	case <-time.After(30 * time.Second):
		t.Fatal("the program prints nothing")
		return ""
	}
}

// awaitCommit returns when the table has had a row in a state.
func awaitCommit(t *testing.T, path string, want Tenant) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	table, err := sqlite.NewTable(t.Context(), db, scan, tenants())
	require.NoError(t, err)
	list, err := table.List(t.Context())
	require.NoError(t, err)
	if slices.Contains(list.Items, want) {
		return
	}
	for e, err := range table.Watch(t.Context(), list.Version) {
		require.NoError(t, err)
		if e.Object == want {
			return
		}
	}
}

// Two copies of the program, of which the leader is killed, and a third one that writes.
func TestStandbyTakesOver(t *testing.T) {
	path := filepath.Join(looptest.MemoryDir(t), "my shop.db")
	do := func(statement string) {
		t.Helper()
		require.NoError(t, program(t, "-sql", statement, path).Run(), statement)
	}
	out, err := program(t, path).CombinedOutput()
	require.Error(t, err, "nothing is installed yet: %s", out)
	do(`CREATE TABLE tenants (name TEXT PRIMARY KEY, email TEXT, servers INTEGER NOT NULL, running INTEGER NOT NULL DEFAULT 0)`)
	do(`INSERT INTO tenants (name, email, servers) VALUES ('acme', 'a@example.com', 3)`)
	require.NoError(t, program(t, "-install", path).Run())
	require.NoError(t, program(t, "-install", path).Run(), "again")

	first := start(t, "-lease=2s", path)
	assert.Equal(t, "acme: from 0 servers to 3", first.next(t))
	do(`UPDATE tenants SET servers = 5`)
	assert.Equal(t, "acme: from 3 servers to 5", first.next(t))
	second := start(t, "-lease=2s", path)
	awaitCommit(t, path, Tenant{"acme", 5, 5}) // it prints before it commits

	require.NoError(t, first.process.Process.Kill())
	do(`UPDATE tenants SET servers = 7; INSERT OR REPLACE INTO tenants (name, servers) VALUES ('globex', 1)`)
	lines := []string{second.next(t), second.next(t)}
	assert.ElementsMatch(t, []string{"acme: from 5 servers to 7", "globex: from 0 servers to 1"}, lines)
	do(`DELETE FROM tenants WHERE name = 'globex'`)
	assert.Equal(t, "globex: deleted", second.next(t))

	require.NoError(t, second.process.Process.Signal(syscall.SIGTERM))
	for line := range second.lines {
		assert.Equal(t, "globex: deleted", line, "it must do nothing else twice")
	}
	require.NoError(t, second.process.Wait())
	for line := range first.lines {
		t.Errorf("it prints %q, must do nothing twice", line)
	}
	require.ErrorContains(t, first.process.Wait(), "killed")
}
