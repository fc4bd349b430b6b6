//go:build linux

package main

import (
	"database/sql"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/mysql"
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
func awaitCommit(t *testing.T, db *sql.DB, want Tenant) {
	t.Helper()
	table, err := mysql.NewTable(t.Context(), db, scan, tenants())
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

// The test follows the page: a table with rows, the log, two copies of the program with the privileges of the page, and a killed leader.
func TestStandbyTakesOver(t *testing.T) {
	addr := servertest.MariaDB(t, "innodb-flush-log-at-trx-commit=2").Addr()
	source := "root@tcp(" + addr + ")/test"
	db, err := connect(source)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	do := func(sql string) {
		t.Helper()
		_, err := db.Exec(sql)
		require.NoError(t, err, sql)
	}
	do("CREATE TABLE tenants (name VARCHAR(100) PRIMARY KEY, email TEXT, servers INT NOT NULL, running INT NOT NULL DEFAULT 0)")
	do("INSERT INTO tenants (name, email, servers) VALUES ('acme', 'a@example.com', 3)")
	out, err := program(source).CombinedOutput()
	require.Error(t, err, "nothing is installed yet: %s", out)
	require.NoError(t, program("-install", source).Run())
	require.NoError(t, program("-install", source).Run(), "again")
	page, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	grants := regexp.MustCompile("(?s)```sql\n(GRANT .*?)```").FindStringSubmatch(string(page))
	require.NotNil(t, grants)
	do("CREATE USER reconciler")
	for statement := range strings.SplitSeq(strings.TrimSpace(grants[1]), "\n") {
		statement, _, _ = strings.Cut(statement, ";")
		do(statement)
	}
	least := strings.Replace(source, "root@", "reconciler@", 1)

	first := start(t, "-lease=2s", least)
	assert.Equal(t, "acme: from 0 servers to 3", first.Next(t))
	do("UPDATE tenants SET servers = 5")
	assert.Equal(t, "acme: from 3 servers to 5", first.Next(t))
	second := start(t, "-lease=2s", least)
	awaitCommit(t, db, Tenant{"acme", 5, 5}) // it prints before it commits

	require.NoError(t, first.Process.Kill())
	do("UPDATE tenants SET servers = 7")
	do("REPLACE INTO tenants (name, servers) VALUES ('globex', 1)")
	lines := []string{second.Next(t), second.Next(t)}
	assert.ElementsMatch(t, []string{"acme: from 5 servers to 7", "globex: from 0 servers to 1"}, lines)
	awaitCommit(t, db, Tenant{"globex", 1, 1})
	do("DELETE FROM tenants WHERE name = 'globex'")
	assert.Equal(t, "globex: gone", second.Next(t))

	require.NoError(t, second.Process.Signal(syscall.SIGTERM))
	for line := range second.Lines {
		assert.Equal(t, "globex: gone", line, "it must do nothing else twice")
	}
	require.NoError(t, second.Wait())
	for line := range first.Lines {
		t.Errorf("it prints %q, must do nothing twice", line)
	}
	require.ErrorContains(t, first.Wait(), "killed")
	assert.NotContains(t, first.Log.String()+second.Log.String(), "denied")
}
