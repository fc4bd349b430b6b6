//go:build linux

package main

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/postgres"
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

// The test follows the page from beginning to end: a table with rows, the log, two copies of the program, and a
// killed leader.
func TestStandbyTakesOver(t *testing.T) {
	url := "postgres://postgres@" + servertest.Postgres(t, "fsync=off").Addr() + "/postgres?sslmode=disable"
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	do := func(sql string) {
		t.Helper()
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
	}
	do(`CREATE TABLE tenants (name text PRIMARY KEY, email text, servers integer NOT NULL, running integer NOT NULL DEFAULT 0)`)
	do(`INSERT INTO tenants (name, email, servers) VALUES ('acme', 'a@example.com', 3)`)

	out, err := program(url).CombinedOutput()
	require.Error(t, err, "nothing is installed yet: %s", out)
	require.NoError(t, program("-install", url).Run())
	require.NoError(t, program("-install", url).Run(), "again")
	page, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	grants := regexp.MustCompile("(?s)```sql\n(GRANT .*?)```").FindSubmatch(page)
	require.NotNil(t, grants)
	do(`CREATE ROLE reconciler LOGIN`)
	do(string(grants[1]))
	least := strings.Replace(url, "postgres@", "reconciler@", 1)

	table, err := postgres.NewTable(t.Context(), pool, pgx.RowToStructByName[Tenant], tenants())
	require.NoError(t, err)
	states := make(chan Tenant, 100)
	tell := informer.Handler[string, Tenant]{
		OnAdd: func(s Tenant, _ bool) { states <- s }, OnUpdate: func(_, s Tenant) { states <- s }, EveryEvent: true,
	}
	seen, err := informer.New(table, func(s Tenant) string { return s.Name }, informer.Config{})
	require.NoError(t, err)
	_, err = seen.AddHandler(tell)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- seen.Run(ctx) }() // ends with stop
	defer func() {
		stop()
		require.NoError(t, <-ended)
	}()
	await := func(want Tenant) {
		t.Helper()
		deadline := time.After(30 * time.Second)
		for {
			select {
			case got := <-states:
				if got == want {
					return
				}
			case <-deadline:
				t.Fatalf("%v does not arrive", want)
			}
		}
	}

	first := start(t, "-lease=2s", least)
	assert.Equal(t, "acme: from 0 servers to 3", first.Next(t))
	await(Tenant{"acme", 3, 3})
	do(`UPDATE tenants SET servers = 5`)
	assert.Equal(t, "acme: from 3 servers to 5", first.Next(t))
	await(Tenant{"acme", 5, 5})
	second := start(t, "-lease=2s", least)

	require.NoError(t, first.Process.Kill())
	do(`UPDATE tenants SET servers = 7; INSERT INTO tenants (name, servers) VALUES ('globex', 1)`)
	lines := []string{second.Next(t), second.Next(t)}
	assert.ElementsMatch(t, []string{"acme: from 5 servers to 7", "globex: from 0 servers to 1"}, lines)
	await(Tenant{"globex", 1, 1})
	do(`DELETE FROM tenants WHERE name = 'globex'`)
	assert.Equal(t, "globex: gone", second.Next(t))

	require.NoError(t, second.Process.Signal(syscall.SIGTERM))
	for line := range second.Lines {
		// The update before the deletion is an event of its own, and may be reconciled when the row is gone.
		assert.Equal(t, "globex: gone", line, "it must do nothing else twice")
	}
	require.NoError(t, second.Wait())
	for line := range first.Lines {
		t.Errorf("it prints %q, must do nothing twice", line)
	}
	require.ErrorContains(t, first.Wait(), "killed")
	assert.NotContains(t, first.Log.String()+second.Log.String(), "permission denied")
	var term int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT term FROM setpoint.leases WHERE name = 'tenants'`).Scan(&term))
	assert.GreaterOrEqual(t, term, 2)
}

// A program that begins its transaction with a statement of the page commits before the next leader begins, or not at all.
func TestStatementsOfDocumentationGuard(t *testing.T) {
	page, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	guards := regexp.MustCompile("(?s)```sql\n([^`]*term = 7[^`]*)```").FindAllStringSubmatch(string(page), -1)
	require.Len(t, guards, 2)
	url := "postgres://postgres@" + servertest.Postgres(t, "fsync=off").Addr() + "/postgres?sslmode=disable"
	pool, err := pgxpool.New(t.Context(), url+"&lock_timeout=100ms")
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	do := func(sql string) error {
		_, err := pool.Exec(t.Context(), sql)
		return err
	}
	require.NoError(t, do(`CREATE TABLE tenants (name text PRIMARY KEY, servers integer NOT NULL, running integer NOT NULL DEFAULT 0)`))
	require.NoError(t, program("-install", url).Run())
	require.NoError(t, do(`INSERT INTO tenants (name, servers) VALUES ('acme', 5)`))
	require.NoError(t, do(`INSERT INTO setpoint.leases (name, term, version, value) VALUES ('tenants', 7, 'first', '{}')`))
	for _, guard := range guards {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		tag, err := tx.Exec(t.Context(), guard[1])
		require.NoError(t, err)
		require.EqualValues(t, 1, tag.RowsAffected(), guard[1])
		require.NoError(t, do(`UPDATE setpoint.leases SET version = 'renewed'`))
		require.ErrorContains(t, do(`UPDATE setpoint.leases SET term = 8`), "lock timeout", guard[1])
		require.NoError(t, tx.Commit(t.Context()))
		require.NoError(t, do(`UPDATE setpoint.leases SET term = 8`))
		tag, err = pool.Exec(t.Context(), guard[1])
		require.NoError(t, err)
		require.Zero(t, tag.RowsAffected(), guard[1])
		require.NoError(t, do(`UPDATE setpoint.leases SET term = 7`))
	}
}

// A leader that is killed between its effect and the commit has done, to the database, nothing: the next leader repeats the effect.
func TestEffectIsRepeatedAfterKillBeforeCommit(t *testing.T) {
	url := "postgres://postgres@" + servertest.Postgres(t, "fsync=off").Addr() + "/postgres?sslmode=disable"
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	do := func(sql string) {
		t.Helper()
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
	}
	do(`CREATE TABLE tenants (name text PRIMARY KEY, servers integer NOT NULL, running integer NOT NULL DEFAULT 0)`)
	do(`INSERT INTO tenants (name, servers) VALUES ('acme', 3)`)
	require.NoError(t, program("-install", url).Run())
	lock, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = lock.Exec(t.Context(), `SELECT FROM tenants FOR UPDATE`)
	require.NoError(t, err)

	first := start(t, "-lease=2s", url)
	const line = "acme: from 0 servers to 3"
	assert.Equal(t, line, first.Next(t))
	require.NoError(t, first.Process.Kill()) // its UPDATE waits for the lock, or will
	second := start(t, "-lease=2s", url)
	require.NoError(t, lock.Commit(t.Context()))
	assert.Equal(t, line, second.Next(t))
	require.Eventually(t, func() bool {
		var running int
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT running FROM tenants`).Scan(&running))
		return running == 3
	}, 30*time.Second, 10*time.Millisecond)
	require.NoError(t, second.Process.Signal(syscall.SIGTERM))
	for line := range second.Lines {
		t.Errorf("it prints %q, must do nothing twice", line)
	}
	require.NoError(t, second.Wait())
}
