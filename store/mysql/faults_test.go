//go:build linux

package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/store/mysql/internal/tabletest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/mysql"
)

func TestTable(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	for name, test := range map[string]func(t *testing.T, server *servertest.Server){
		"an open transaction delays others and is named":       openTransactionDelays,
		"a prepared transaction delays others":                 preparedTransactionDelays,
		"a transaction that was rolled back delays others":     rolledBackTransactionDelays,
		"a change that is committed late makes all list again": lateChangeMakesAllList,
		"changes without triggers are found by a comparison":   comparisonFindsChangesWithoutTriggers,
		"the log is trimmed under a reader":                    logIsTrimmedUnderReader,
		"a user with the least privileges":                     leastPrivileges,
		"a reader that must not write leaves that to others":   readerThatMustNotWrite,
		"a row that scan refuses is unread":                    rowThatScanRefusesIsUnread,
		"names and keys may contain any characters":            namesAndKeysMayContainAnyCharacters,
		"InstallTable and NewTable refuse invalid arguments":   invalidArgumentsAreRefused,
		"InstallTable changes nothing twice":                   installTableChangesNothingTwice,
		"an administrator runs the SQL":                        administratorRunsSQL,
		"the result of a writer's statement is undisturbed":    resultOfWriterIsUndisturbed,
		"a version is that of the transaction":                 versionIsThatOfTransaction,
		"a pool of two connections is enough":                  poolOfTwoConnectionsIsEnough,
		"sessions of any level and zone read the same":         sessionsOfAnyLevelReadTheSame,
	} {
		t.Run(name, func(t *testing.T) { test(t, server) })
	}
}

func begin(t testing.TB, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(context.WithoutCancel(t.Context()), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func openTransactionDelays(t *testing.T, server *servertest.Server) {
	db := newSites(t, server, sites)
	table := sitesIn(t, db, sites)
	events := tabletest.Watch(t, table)
	d, err := table.Delay(t.Context())
	require.NoError(t, err)
	assert.Equal(t, mysql.Delay{}, d)
	old := begin(t, db)
	tabletest.Do(t, old, tabletest.PutSite, "old", 1)
	var thread int64
	require.NoError(t, old.QueryRow("SELECT CONNECTION_ID()").Scan(&thread))
	assert.Zero(t, table.DelayedSince())
	tabletest.Do(t, db, tabletest.PutSite, "new", 2)
	tabletest.Do(t, db, tabletest.PutSite, "new", 3)
	require.Eventually(t, func() bool { return !table.DelayedSince().IsZero() }, time.Minute, time.Millisecond)
	since := table.DelayedSince()
	d, err = table.Delay(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 2, d.Behind)
	assert.Equal(t, thread, d.Thread)
	assert.Equal(t, "root", d.User)
	assert.WithinDuration(t, time.Now(), d.Since, time.Minute)
	l, err := table.List(t.Context()) // which does not wait
	require.NoError(t, err)
	assert.Equal(t, []site{{Name: "new", Rev: 3}}, l.Items)
	latest, err := table.LatestVersion(t.Context())
	require.NoError(t, err)
	assert.Greater(t, latest, l.Version)
	require.Empty(t, events)
	assert.Equal(t, since, table.DelayedSince())
	require.NoError(t, old.Commit())
	assert.Equal(t, site{Name: "old", Rev: 1}, tabletest.Next(t, events).Object)
	assert.Equal(t, site{Name: "new", Rev: 3}, tabletest.Next(t, events).Object)
	require.Eventually(t, func() bool { return table.DelayedSince().IsZero() }, time.Minute, time.Millisecond)
}

func preparedTransactionDelays(t *testing.T, server *servertest.Server) {
	db := newSites(t, server, sites)
	events := tabletest.Watch(t, sitesIn(t, db, sites))
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	for _, statement := range []string{"XA START 'x'", "INSERT INTO sites VALUES ('prepared', 1)", "XA END 'x'", "XA PREPARE 'x'"} {
		tabletest.Do(t, conn, statement)
	}
	require.ErrorIs(t, conn.Raw(func(any) error { return errBad }), errBad) // its connection ends
	tabletest.Do(t, db, tabletest.PutSite, "new", 1)
	time.Sleep(2 * mysql.GraceTime) // for which nothing may happen
	require.Empty(t, events)
	tabletest.Do(t, db, "XA COMMIT 'x'")
	assert.Equal(t, site{Name: "prepared", Rev: 1}, tabletest.Next(t, events).Object)
	assert.Equal(t, site{Name: "new", Rev: 1}, tabletest.Next(t, events).Object)
}

func rolledBackTransactionDelays(t *testing.T, server *servertest.Server) {
	db := newSites(t, server, sites)
	events := tabletest.Watch(t, sitesIn(t, db, sites))
	for n := range 50 { // all of which a watch waits for once
		tx := begin(t, db)
		tabletest.Do(t, tx, tabletest.PutSite, "back", n)
		require.NoError(t, tx.Rollback())
		tabletest.Do(t, db, tabletest.PutSite, fmt.Sprint(n), n)
	}
	began := time.Now()
	for n := range 50 {
		assert.Equal(t, site{Name: fmt.Sprint(n), Rev: n}, tabletest.Next(t, events).Object)
	}
	assert.Less(t, time.Since(began), 10*mysql.GraceTime)
}

// A thread of the server that is suspended between drawing a number and inserting the row.
func lateChangeMakesAllList(t *testing.T, server *servertest.Server) {
	t.Parallel()
	var log looptest.Text
	cfg := sites
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	db := newSites(t, server, cfg)
	table := sitesIn(t, db, cfg)
	table.TrustTriggers()
	for _, name := range []string{"insert", "update", "delete"} { // the test writes the log by itself
		tabletest.Do(t, db, "DROP TRIGGER setpoint_sites_"+name)
	}
	inf, err := informer.New(table, tabletest.SiteName, informer.Config{OnError: func(err error) { assert.ErrorIs(t, err, informer.ErrExpired) }})
	require.NoError(t, err)
	dbtest.Follow(t, inf)
	var last int
	require.NoError(t, db.QueryRow("SELECT MAX(setpoint_n) FROM setpoint_sites").Scan(&last))
	tabletest.Do(t, db, "INSERT INTO sites VALUES ('new', 1)")
	tabletest.Do(t, db, "INSERT INTO setpoint_sites VALUES (?, 5, 'new')", last+3) // two are drawn and not inserted
	agree(t, db, table, inf)
	tabletest.Do(t, db, "INSERT INTO sites VALUES ('late', 1)")
	tabletest.Do(t, db, "INSERT INTO setpoint_sites VALUES (?, 5, 'late')", last+1)
	require.Eventually(t, func() bool { _, ok := inf.Get("late"); return ok }, 20*time.Second, 10*time.Millisecond)
	assert.Contains(t, log.String(), "a change of a table was committed late")
	agree(t, db, table, inf)
	tabletest.Do(t, db, "INSERT INTO sites VALUES ('later', 1)")
	tabletest.Do(t, db, "INSERT INTO setpoint_sites VALUES (?, 5, 'later')", last+2)
	require.Eventually(t, func() bool { _, ok := inf.Get("later"); return ok }, 20*time.Second, 10*time.Millisecond)
	agree(t, db, table, inf)
	assert.Equal(t, 2, strings.Count(log.String(), "a change of a table was committed late"))

	tabletest.Do(t, db, "INSERT INTO sites VALUES ('next', 1)") // a late one that is open for longer than gaps are kept
	require.NoError(t, db.QueryRow("SELECT MAX(setpoint_n) FROM setpoint_sites").Scan(&last))
	tabletest.Do(t, db, "INSERT INTO setpoint_sites VALUES (?, 5, 'next')", last+2)
	agree(t, db, table, inf)
	open := begin(t, db)
	tabletest.Do(t, open, "INSERT INTO sites VALUES ('latest', 1)")
	tabletest.Do(t, open, "INSERT INTO setpoint_sites VALUES (?, 5, 'latest')", last+1)
	before := time.Now().Unix()
	tabletest.Do(t, db, "UPDATE setpoint_sites_gaps SET since = ? - 30 WHERE first > 0", before)
	require.Eventually(t, func() bool {
		var since int64
		require.NoError(t, db.QueryRow("SELECT since FROM setpoint_sites_gaps WHERE first = ?", last+1).Scan(&since))
		return since >= before
	}, 20*time.Second, 10*time.Millisecond)
	require.NoError(t, open.Commit())
	require.Eventually(t, func() bool { _, ok := inf.Get("latest"); return ok }, 20*time.Second, 10*time.Millisecond)
}

func comparisonFindsChangesWithoutTriggers(t *testing.T, server *servertest.Server) {
	for name, change := range map[string]string{
		"TRUNCATE":            "TRUNCATE sites",
		"a cascade":           "DELETE FROM parents WHERE id = 1",
		"an updating cascade": "UPDATE parents SET id = 9 WHERE id = 1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log looptest.Text
			cfg := sites
			cfg.Logger, cfg.Verify = slog.New(slog.NewTextHandler(&log, nil)), 300*time.Millisecond
			db := newDatabase(t, server)
			tabletest.Do(t, db, "CREATE TABLE parents (id INT PRIMARY KEY)")
			tabletest.Do(t, db, "INSERT INTO parents VALUES (1), (2)")
			references := ", FOREIGN KEY (rev) REFERENCES parents (id) ON DELETE CASCADE ON UPDATE CASCADE)"
			tabletest.Do(t, db, strings.TrimSuffix(tabletest.CreateSites, ")")+references)
			require.NoError(t, mysql.InstallTable(t.Context(), db, cfg))
			tabletest.Do(t, db, "INSERT INTO sites VALUES ('a', 1), ('b', 2)")
			table := sitesIn(t, db, cfg)
			inf, other := tabletest.Follow(t, table, tabletest.SiteName), tabletest.Follow(t, sitesIn(t, db, cfg), tabletest.SiteName)
			agree(t, db, table, inf)
			tabletest.Do(t, db, change)
			want := tabletest.RowsOf(t, db)
			for _, inf := range []*informer.Informer[string, site]{inf, other} {
				require.Eventually(t, func() bool { return maps.Equal(want, maps.Collect(inf.All())) }, 20*time.Second, 10*time.Millisecond)
			}
			assert.Contains(t, log.String(), "a table has changed without its triggers")
			warned := strings.Count(log.String(), "\n")
			for n := range 20 { // changes with triggers are no differences
				tabletest.Do(t, db, "INSERT INTO parents VALUES (?)", 100+n)
				tabletest.Do(t, db, tabletest.PutSite, "a", 100+n)
				time.Sleep(30 * time.Millisecond)
			}
			agree(t, db, table, inf)
			assert.Equal(t, warned, strings.Count(log.String(), "\n"), "%s", &log)
		})
	}
}

func logIsTrimmedUnderReader(t *testing.T, server *servertest.Server) {
	cfg := sites
	cfg.History = 5
	db := newSites(t, server, cfg)
	table := sitesIn(t, db, cfg)
	l, err := table.List(t.Context())
	require.NoError(t, err)
	inf := tabletest.Follow(t, table, tabletest.SiteName)
	for n := range 50 {
		tabletest.Do(t, db, tabletest.PutSite, fmt.Sprint(n%7), n)
	}
	agree(t, db, table, inf)
	late := tabletest.Follow(t, table, tabletest.SiteName) // trims when it begins
	require.Eventually(t, func() bool {
		var n int
		require.NoError(t, db.QueryRow("SELECT COUNT(*) FROM setpoint_sites").Scan(&n))
		return n == 5
	}, 20*time.Second, 10*time.Millisecond)
	for _, err := range table.Watch(t.Context(), l.Version) {
		require.ErrorIs(t, err, informer.ErrExpired)
	}
	tabletest.Do(t, db, tabletest.PutSite, "new", 1)
	agree(t, db, table, inf)
	agree(t, db, table, late)
	tabletest.Do(t, db, "DELETE FROM setpoint_sites") // somebody empties it
	agree(t, db, table, inf)
	tabletest.Do(t, db, tabletest.PutSite, "newer", 1)
	agree(t, db, table, late)
}

func leastPrivileges(t *testing.T, server *servertest.Server) {
	db := newSites(t, server, sites)
	var name string
	require.NoError(t, db.QueryRow("SELECT DATABASE()").Scan(&name))
	for _, statement := range []string{
		"CREATE USER least, writer", "GRANT SELECT, TRIGGER ON sites TO least", "GRANT INSERT, UPDATE, DELETE, SELECT ON sites TO writer",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON setpoint_sites TO least", "GRANT SELECT, INSERT, UPDATE, DELETE ON setpoint_sites_gaps TO least",
	} {
		tabletest.Do(t, db, statement)
	}
	as := func(user string) *sql.DB {
		pool, err := tabletest.OpenPool(tabletest.DSN(user, server.Addr(), name, ""))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, pool.Close()) })
		return pool
	}
	var log looptest.Text
	cfg := sites
	cfg.Logger, cfg.History = slog.New(slog.NewTextHandler(&log, nil)), 2
	table := sitesIn(t, as("least"), cfg)
	inf := tabletest.Follow(t, table, tabletest.SiteName)
	writer := as("writer")
	for n := range 5 {
		tx := begin(t, writer)
		tabletest.Do(t, tx, tabletest.PutSite, "b", n)
		require.NoError(t, tx.Rollback())
		tabletest.Do(t, writer, tabletest.PutSite, "a", n)
	}
	agree(t, db, table, inf)
	d, err := table.Delay(t.Context())
	require.NoError(t, err)
	assert.Equal(t, mysql.Delay{}, d)
	assert.Empty(t, log.String())
	tabletest.Do(t, db, "REVOKE TRIGGER ON sites FROM least")
	_, err = mysql.NewTable(t.Context(), as("least"), tabletest.ScanSite, cfg)
	require.ErrorContains(t, err, "lacks the privilege TRIGGER")
	tabletest.Do(t, db, "DROP USER least, writer")
}

func readerThatMustNotWrite(t *testing.T, server *servertest.Server) {
	db := newSites(t, server, sites)
	var name string
	require.NoError(t, db.QueryRow("SELECT DATABASE()").Scan(&name))
	for _, statement := range []string{"CREATE USER reader", "GRANT SELECT, TRIGGER ON sites TO reader", "GRANT SELECT ON setpoint_sites TO reader", "GRANT SELECT ON setpoint_sites_gaps TO reader"} {
		tabletest.Do(t, db, statement)
	}
	pool, err := tabletest.OpenPool(tabletest.DSN("reader", server.Addr(), name, ""))
	require.NoError(t, err)
	defer func() { require.NoError(t, pool.Close()) }()
	var log looptest.Text
	cfg := sites
	cfg.Logger, cfg.Verify = slog.New(slog.NewTextHandler(&log, nil)), 200*time.Millisecond
	events := tabletest.Watch(t, sitesIn(t, pool, cfg))
	tx := begin(t, db)
	tabletest.Do(t, tx, tabletest.PutSite, "b", 1)
	require.NoError(t, tx.Rollback())
	tabletest.Do(t, db, tabletest.PutSite, "a", 1)
	time.Sleep(2 * mysql.GraceTime) // for which nothing may happen
	require.Empty(t, events)
	inf := tabletest.Follow(t, sitesIn(t, db, sites), tabletest.SiteName) // it may
	assert.Equal(t, site{Name: "a", Rev: 1}, tabletest.Next(t, events).Object)
	agree(t, db, sitesIn(t, db, sites), inf)
	assert.Equal(t, 1, strings.Count(log.String(), "cannot write the log of a table, and leaves that to others"), "%s", &log)
	tabletest.Do(t, db, "DROP USER reader")
}

func rowThatScanRefusesIsUnread(t *testing.T, server *servertest.Server) {
	db := newSites(t, server, sites)
	table := sitesIn(t, db, sites)
	inf := tabletest.Follow(t, table, tabletest.SiteName)
	tabletest.Do(t, db, "INSERT INTO sites VALUES ('a', 1), ('b', 2), ('c', NULL)")
	require.NoError(t, inf.CatchUp(t.Context()))
	tabletest.Do(t, db, "UPDATE sites SET rev = NULL WHERE name = 'a'")
	require.NoError(t, inf.CatchUp(t.Context()))
	unread := func(inf *informer.Informer[string, site], keys ...string) {
		for _, key := range []string{"a", "b", "c"} {
			assert.Equal(t, slices.Contains(keys, key), inf.Unread(key) != nil, key)
		}
	}
	unread(inf, "a", "c")
	a, ok := inf.Get("a")
	assert.True(t, ok)
	assert.Equal(t, site{Name: "a", Rev: 1}, a)
	later := tabletest.Follow(t, table, tabletest.SiteName)
	unread(later, "a", "c")
	tabletest.Do(t, db, "UPDATE sites SET rev = 3 WHERE rev IS NULL")
	agree(t, db, table, inf)
	agree(t, db, table, later)
	unread(inf)
	unread(later)
}

func namesAndKeysMayContainAnyCharacters(t *testing.T, server *servertest.Server) {
	db := newDatabase(t, server)
	tabletest.Do(t, db, "CREATE TABLE witness (a INT)")
	for i, name := range []string{
		"a`; DROP TABLE witness; --", `'; DROP TABLE witness; --`, `it's`, `{log}`, `{table}`, `{n}`, `?`, `%s`, `a.b`, `Ünï`, "ta\tb", `back\slash`, `select`, `n`, `l`, `b`, `first`,
	} {
		quoted := "`" + strings.ReplaceAll(name, "`", "``") + "`"
		other := "`" + strings.ReplaceAll("v"+name, "`", "``") + "`"
		cfg := mysql.TableConfig{Table: name, Columns: []string{name, "v" + name}, Log: fmt.Sprint(i) + name, Poll: 5 * time.Millisecond}
		tabletest.Do(t, db, "CREATE TABLE "+quoted+" ("+quoted+" VARBINARY(200) PRIMARY KEY, "+other+" INT UNIQUE, more INT)")
		require.NoError(t, mysql.InstallTable(t.Context(), db, cfg), name)
		table := sitesIn(t, db, cfg)
		inf := tabletest.Follow(t, table, tabletest.SiteName)
		want := map[string]site{}
		for n, key := range dbtest.Hostile() {
			if len(key) > 200 {
				continue
			}
			tabletest.Do(t, db, "INSERT INTO "+quoted+" VALUES (?, ?, 0)", key, n)
			tabletest.Do(t, db, "UPDATE "+quoted+" SET "+other+" = "+other+" + 1000 WHERE "+quoted+" = ?", key)
			want[key] = site{Name: key, Rev: n + 1000}
		}
		tabletest.Do(t, db, "INSERT INTO "+quoted+" VALUES ('gone', -1, 0)")
		tabletest.Do(t, db, "REPLACE INTO "+quoted+" VALUES ('last', -1, 0)")
		want["last"] = site{Name: "last", Rev: -1}
		require.NoError(t, inf.CatchUp(t.Context()), name)
		assert.Equal(t, want, maps.Collect(inf.All()), name)
	}
	tabletest.Do(t, db, "SELECT * FROM witness")
}

func invalidArgumentsAreRefused(t *testing.T, server *servertest.Server) {
	db := newDatabase(t, server)
	for _, statement := range []string{
		tabletest.CreateSites, "CREATE VIEW seen AS SELECT * FROM sites", "CREATE TABLE old (a INT PRIMARY KEY) ENGINE = MyISAM", "CREATE TABLE keyless (a INT, b INT, c TEXT, UNIQUE (a), UNIQUE (c(5)))",
		"CREATE TABLE rounded (a FLOAT PRIMARY KEY)", "CREATE TABLE taken (setpoint_n INT PRIMARY KEY)",
	} {
		tabletest.Do(t, db, statement)
	}
	for _, c := range []struct {
		cfg  mysql.TableConfig
		want string
	}{
		{mysql.TableConfig{}, "TableConfig.Table is empty"},
		{mysql.TableConfig{Table: "a\x00"}, `TableConfig.Table is "a\x00", must be UTF-8 without NUL`},
		{mysql.TableConfig{Table: "sites", Log: "Sites"}, `TableConfig.Log is "Sites", which is the Table`},
		{mysql.TableConfig{Table: "sites", Log: strings.Repeat("x", 58)}, "TableConfig.Log has 58 characters, must not have more than 57"},
		{mysql.TableConfig{Table: "sites", History: -1}, "TableConfig.History is -1, must not be negative"},
		{mysql.TableConfig{Table: "sites", Poll: -1}, "TableConfig.Poll is -1ns, must not be negative"},
		{mysql.TableConfig{Table: "sites", Verify: -1}, "TableConfig.Verify is -1ns, must not be negative"},
		{mysql.TableConfig{Table: "sites", Key: []string{""}}, "TableConfig.Key[0] is empty"},
		{mysql.TableConfig{Table: "missing"}, `table "missing": there is no such table`},
		{mysql.TableConfig{Table: "SITES"}, `table "SITES": there is no such table`},
		{mysql.TableConfig{Table: "seen"}, "it is a view"},
		{mysql.TableConfig{Table: "old"}, "it has the engine MyISAM, must have InnoDB"},
		{mysql.TableConfig{Table: "rounded"}, "has the type float"},
		{mysql.TableConfig{Table: "taken"}, "whose names must not begin with setpoint_"},
		{mysql.TableConfig{Table: "keyless"}, "it has no primary key: set TableConfig.Key"},
		{mysql.TableConfig{Table: "keyless", Key: []string{"b"}}, "it has no unique index on exactly `b`, which is the key"},
		{mysql.TableConfig{Table: "keyless", Key: []string{"c"}}, "it has no unique index on exactly `c`, which is the key"},
		{mysql.TableConfig{Table: "keyless", Key: []string{"d"}}, `it has no column "d", which TableConfig.Key names`},
		{mysql.TableConfig{Table: "sites", Columns: []string{"d"}}, `it has no column "d", which TableConfig.Columns names`},
		{mysql.TableConfig{Table: "sites", Columns: []string{"rev"}}, `TableConfig.Columns lacks "name", which is in the key`},
	} {
		require.ErrorContains(t, mysql.InstallTable(t.Context(), db, c.cfg), c.want)
		_, err := mysql.NewTable(t.Context(), db, tabletest.ScanSite, c.cfg)
		require.ErrorContains(t, err, c.want)
		_, err = mysql.TableSQL(t.Context(), db, c.cfg)
		require.ErrorContains(t, err, c.want)
	}
	_, err := mysql.NewTable(t.Context(), db, tabletest.ScanSite, sites)
	require.ErrorContains(t, err, "call mysql.InstallTable")
	require.ErrorContains(t, mysql.InstallTable(t.Context(), tabletest.Connect(t, server, ""), sites), "the pool has no default database")
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	require.ErrorIs(t, mysql.InstallTable(ctx, db, sites), enough)
	assert.PanicsWithValue(t, "mysql: NewTable called with a nil pool or scan", func() { _, _ = mysql.NewTable[int](t.Context(), db, nil, sites) })
	assert.PanicsWithValue(t, "mysql: InstallTable called with a nil pool", func() { _ = mysql.InstallTable(t.Context(), nil, sites) })
	assert.PanicsWithValue(t, "mysql: TableSQL called with a nil pool", func() { _, _ = mysql.TableSQL(t.Context(), nil, sites) })
}

func installTableChangesNothingTwice(t *testing.T, server *servertest.Server) {
	db := newSites(t, server, sites)
	table := sitesIn(t, db, sites)
	before, err := table.LatestVersion(t.Context())
	require.NoError(t, err)
	errs := make(chan error)
	for range 4 {
		go func() { errs <- mysql.InstallTable(t.Context(), db, sites) }() // the loop below waits for it
	}
	for range 4 {
		require.NoError(t, <-errs)
	}
	after, err := table.LatestVersion(t.Context())
	require.NoError(t, err)
	assert.Equal(t, before, after)
	text, err := mysql.TableSQL(t.Context(), db, sites)
	require.NoError(t, err)
	assert.Empty(t, text)
}

func administratorRunsSQL(t *testing.T, server *servertest.Server) {
	db := newDatabase(t, server)
	tabletest.Do(t, db, tabletest.CreateSites)
	text, err := mysql.TableSQL(t.Context(), db, sites)
	require.NoError(t, err)
	var name string
	require.NoError(t, db.QueryRow("SELECT DATABASE()").Scan(&name))
	host, port, _ := strings.Cut(server.Addr(), ":")
	c := exec.Command(servertest.Program(t, "mariadb", "mariadb-client"), "--no-defaults", "--protocol=tcp", "--host="+host, "--port="+port, "--user=root", name)
	c.Stdin = strings.NewReader(text)
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	table := sitesIn(t, db, sites)
	inf := tabletest.Follow(t, table, tabletest.SiteName)
	tabletest.Do(t, db, tabletest.PutSite, "a", 1)
	tabletest.Do(t, db, "UPDATE sites SET name = 'b'")
	agree(t, db, table, inf)
}

func resultOfWriterIsUndisturbed(t *testing.T, server *servertest.Server) {
	db := newDatabase(t, server)
	tabletest.Do(t, db, "CREATE TABLE numbered (id INT AUTO_INCREMENT PRIMARY KEY, v INT)")
	tabletest.Do(t, db, "INSERT INTO numbered (v) VALUES (1), (2), (3)")
	require.NoError(t, mysql.InstallTable(t.Context(), db, mysql.TableConfig{Table: "numbered"}))
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	result, err := conn.ExecContext(t.Context(), "INSERT INTO numbered (v) VALUES (4), (5)")
	require.NoError(t, err)
	id, err := result.LastInsertId()
	require.NoError(t, err)
	assert.EqualValues(t, 4, id)
	rows, err := result.RowsAffected()
	require.NoError(t, err)
	assert.EqualValues(t, 2, rows)
	const want = 2 // rows, by each statement
	for _, statement := range []string{
		"UPDATE numbered SET id = id + 100 WHERE v > 3", "DELETE FROM numbered WHERE v < 3", "REPLACE INTO numbered VALUES (3, 7)",
	} {
		result, err := conn.ExecContext(t.Context(), statement)
		require.NoError(t, err)
		rows, err := result.RowsAffected()
		require.NoError(t, err)
		assert.EqualValues(t, want, rows, statement)
		var last int64
		require.NoError(t, conn.QueryRowContext(t.Context(), "SELECT LAST_INSERT_ID()").Scan(&last))
		assert.EqualValues(t, 4, last, statement)
	}
}

func versionIsThatOfTransaction(t *testing.T, server *servertest.Server) {
	cfg := sites
	cfg.Poll = 3 * time.Second // the watch looks sooner
	db := newSites(t, server, cfg)
	table := sitesIn(t, db, cfg)
	inf := tabletest.Follow(t, table, tabletest.SiteName)
	for n := range 20 {
		other := begin(t, db)
		tabletest.Do(t, other, tabletest.PutSite, "other", n)
		reported := dbtest.Reported{Context: t.Context()}
		var v informer.Version
		require.NoError(t, tabletest.InTx(t.Context(), db, func(tx *sql.Tx) (err error) {
			tabletest.Do(t, tx, "SELECT * FROM sites")
			require.NoError(t, other.Commit())
			tabletest.Do(t, tx, tabletest.PutSite, "mine", n)
			v, err = table.VersionOf(&reported, tx)
			return err
		}))
		require.Len(t, reported.Writes, 1)
		assert.Equal(t, table.Clock(), reported.Writes[0].Clock)
		assert.EqualValues(t, v, reported.Writes[0].Version)
		began := time.Now()
		require.NoError(t, inf.WaitForVersion(t.Context(), v))
		assert.Less(t, time.Since(began), cfg.Poll/2)
		mine, _ := inf.Get("mine")
		assert.Equal(t, site{Name: "mine", Rev: n}, mine)
	}
}

func poolOfTwoConnectionsIsEnough(t *testing.T, server *servertest.Server) {
	cfg := sites
	cfg.Verify = 100 * time.Millisecond
	db := newSites(t, server, cfg)
	var name string
	require.NoError(t, db.QueryRow("SELECT DATABASE()").Scan(&name))
	small := tabletest.Connect(t, server, name)
	small.SetMaxOpenConns(2)
	table := sitesIn(t, small, cfg)
	inf := tabletest.Follow(t, table, tabletest.SiteName)
	for n := range 30 {
		tabletest.Do(t, db, tabletest.PutSite, "a", n)
		agree(t, db, table, inf)
	}
}

// A default of the sessions, and of the driver, does not change what a Table reads.
func sessionsOfAnyLevelReadTheSame(t *testing.T, server *servertest.Server) {
	db := newSites(t, server, sites)
	var name string
	require.NoError(t, db.QueryRow("SELECT DATABASE()").Scan(&name))
	for _, options := range []string{
		"tx_isolation=%27READ-UNCOMMITTED%27", "tx_isolation=%27SERIALIZABLE%27", "parseTime=true&loc=Asia%2FTokyo&time_zone=%27%2B09%3A00%27", "clientFoundRows=true&interpolateParams=true",
		"autocommit=0", "sql_mode=%27ANSI%27", "charset=latin1", "tx_read_only=1",
	} {
		pool, err := tabletest.OpenPool(tabletest.DSN("root", server.Addr(), name, options))
		require.NoError(t, err)
		table := sitesIn(t, pool, sites)
		l, err := table.List(t.Context())
		require.NoError(t, err, options)
		open := begin(t, db)
		tabletest.Do(t, open, tabletest.PutSite, "open", 1)
		tabletest.Do(t, db, tabletest.PutSite, "a", 1)
		l, err = table.List(t.Context())
		require.NoError(t, err, options)
		assert.NotContains(t, l.Items, site{Name: "open", Rev: 1}, options)
		require.NoError(t, open.Rollback())
		inf, err := informer.New(table, tabletest.SiteName, informer.Config{OnError: func(err error) { t.Error(options, err) }})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		loop := looptest.StartIn(ctx, t, inf.Run)
		tabletest.Do(t, db, "DELETE FROM sites")
		agree(t, db, table, inf)
		stop()
		require.NoError(t, loop.Stop())
		require.NoError(t, pool.Close())
	}
}
