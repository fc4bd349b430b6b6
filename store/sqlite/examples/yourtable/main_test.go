//go:build linux

package main

import (
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/dbtest"
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

func program(args ...string) *exec.Cmd { return dbtest.NewProgram("YOURTABLE", args...) }

func start(t *testing.T, args ...string) *dbtest.Program {
	return dbtest.StartProgram(t, program(args...))
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
		require.NoError(t, program("-sql", statement, path).Run(), statement)
	}
	out, err := program(path).CombinedOutput()
	require.Error(t, err, "nothing is installed yet: %s", out)
	do(`CREATE TABLE tenants (name TEXT PRIMARY KEY, email TEXT, servers INTEGER NOT NULL, running INTEGER NOT NULL DEFAULT 0)`)
	do(`INSERT INTO tenants (name, email, servers) VALUES ('acme', 'a@example.com', 3)`)
	require.NoError(t, program("-install", path).Run())
	require.NoError(t, program("-install", path).Run(), "again")

	first := start(t, "-lease=2s", path)
	assert.Equal(t, "acme: from 0 servers to 3", first.Next(t))
	do(`UPDATE tenants SET servers = 5`)
	assert.Equal(t, "acme: from 3 servers to 5", first.Next(t))
	second := start(t, "-lease=2s", path)
	awaitCommit(t, path, Tenant{"acme", 5, 5}) // it prints before it commits

	require.NoError(t, first.Process.Kill())
	do(`UPDATE tenants SET servers = 7; INSERT OR REPLACE INTO tenants (name, servers) VALUES ('globex', 1)`)
	lines := []string{second.Next(t), second.Next(t)}
	assert.ElementsMatch(t, []string{"acme: from 5 servers to 7", "globex: from 0 servers to 1"}, lines)
	do(`DELETE FROM tenants WHERE name = 'globex'`)
	assert.Equal(t, "globex: deleted", second.Next(t))

	require.NoError(t, second.Process.Signal(syscall.SIGTERM))
	for line := range second.Lines {
		assert.Equal(t, "globex: deleted", line, "it must do nothing else twice")
	}
	require.NoError(t, second.Wait())
	for line := range first.Lines {
		t.Errorf("it prints %q, must do nothing twice", line)
	}
	require.ErrorContains(t, first.Wait(), "killed")
}
