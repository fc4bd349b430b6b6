//go:build linux

package main

import (
	"bufio"
	"database/sql"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	lines   chan string     // its output; closed when it has ended
	log     strings.Builder // complete when it has ended
}

func start(t *testing.T, args ...string) *running {
	t.Helper()
	r := &running{process: program(t, args...), lines: make(chan string, 100)}
	r.process.Stderr = io.MultiWriter(os.Stderr, &r.log)
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
	out, err := program(t, source).CombinedOutput()
	require.Error(t, err, "nothing is installed yet: %s", out)
	require.NoError(t, program(t, "-install", source).Run())
	require.NoError(t, program(t, "-install", source).Run(), "again")
	page, err := os.ReadFile("../../../../docs/your-mysql.md")
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
	assert.Equal(t, "acme: from 0 servers to 3", first.next(t))
	do("UPDATE tenants SET servers = 5")
	assert.Equal(t, "acme: from 3 servers to 5", first.next(t))
	second := start(t, "-lease=2s", least)
	awaitCommit(t, db, Tenant{"acme", 5, 5}) // it prints before it commits

	require.NoError(t, first.process.Process.Kill())
	do("UPDATE tenants SET servers = 7")
	do("REPLACE INTO tenants (name, servers) VALUES ('globex', 1)")
	lines := []string{second.next(t), second.next(t)}
	assert.ElementsMatch(t, []string{"acme: from 5 servers to 7", "globex: from 0 servers to 1"}, lines)
	awaitCommit(t, db, Tenant{"globex", 1, 1})
	do("DELETE FROM tenants WHERE name = 'globex'")
	assert.Equal(t, "globex: gone", second.next(t))

	require.NoError(t, second.process.Process.Signal(syscall.SIGTERM))
	for line := range second.lines {
		assert.Equal(t, "globex: gone", line, "it must do nothing else twice")
	}
	require.NoError(t, second.process.Wait())
	for line := range first.lines {
		t.Errorf("it prints %q, must do nothing twice", line)
	}
	require.ErrorContains(t, first.process.Wait(), "killed")
	assert.NotContains(t, first.log.String()+second.log.String(), "denied")
}
