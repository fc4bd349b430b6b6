package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sqlitedriver "modernc.org/sqlite"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/store/sqlite"
)

// rowsOf reads the table with a query of the test.
func rowsOf(t testing.TB, db *sql.DB, query string) map[string]site {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	require.NoError(t, err)
	found := map[string]site{}
	for rows.Next() {
		s, err := scanSite(rows)
		require.NoError(t, err)
		found[s.Name] = s
	}
	require.NoError(t, rows.Err())
	return found
}

// agree waits until the cache has the rows of the table. After a new history, that may take several lists.
func agree(t testing.TB, db *sql.DB, table *sqlite.Table[site], inf *informer.Informer[string, site]) {
	t.Helper()
	want := rowsOf(t, db, `SELECT name, rev FROM sites`)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		table.Wake()
		require.NoError(t, inf.CatchUp(ctx))
		got := maps.Collect(inf.All())
		if maps.Equal(want, got) {
			return
		}
		require.NoError(t, ctx.Err(), "the cache has %v, want %v", got, want)
	}
}

// backup copies the file of a pool.
func backup(t testing.TB, db *sql.DB) (path string) {
	t.Helper()
	path = filepath.Join(looptest.MemoryDir(t), "backup.db")
	do(t, db, `VACUUM INTO '`+path+`'`)
	return path
}

// restore overwrites the file of a pool, as the command .restore does.
func restore(t testing.TB, db *sql.DB, from string) {
	t.Helper()
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	require.NoError(t, conn.Raw(func(c any) error {
		b, err := c.(interface {
			NewRestore(string) (*sqlitedriver.Backup, error)
		}).NewRestore(from)
		if err != nil {
			return err
		}
		if _, err := b.Step(-1); err != nil {
			return err
		}
		return b.Finish()
	}))
	require.NoError(t, conn.Close())
}

// A file is restored. What it then has is behind the version of a watch, or has other changes under the same numbers, before the watch looks.
func TestRestoredFileBeginsNewHistory(t *testing.T) {
	t.Parallel()
	for _, journal := range []string{"WAL", "DELETE"} {
		db := newTable(t, journal, createSites, sites)
		cfg := sites
		cfg.Poll = time.Hour
		table := sitesIn(t, db, cfg)
		inf := follow(t, table, siteName)
		do(t, db, putSite, "before", 1)
		agree(t, db, table, inf)
		for range (*cycles + 2) / 3 {
			for after := range 4 { // changes after the restore: fewer than the watch has seen, as many, and more
				saved := backup(t, db)
				do(t, db, putSite, "lost", 1)
				do(t, db, `DELETE FROM sites WHERE name = 'before'`)
				agree(t, db, table, inf)
				restore(t, db, saved)
				for i := range after {
					do(t, db, putSite, fmt.Sprintf("new %d", i), after)
				}
				agree(t, db, table, inf)
			}
		}
	}
}

// Another file gets the name of the file: a copy, as some tools restore it.
func TestReplacedFileBeginsNewHistory(t *testing.T) {
	t.Parallel()
	for range *cycles {
		for after := range 4 {
			db := newTable(t, "DELETE", createSites, sites)
			table := sitesIn(t, db, sites)
			inf := follow(t, table, siteName)
			do(t, db, putSite, "before", 1)
			saved := backup(t, db)
			do(t, db, putSite, "lost", 1)
			do(t, db, `DELETE FROM sites WHERE name = 'before'`)
			agree(t, db, table, inf)
			other := pool(t, saved, "DELETE")
			for i := range after {
				do(t, other, putSite, fmt.Sprintf("new %d", i), after)
			}
			var path string
			require.NoError(t, db.QueryRow(`SELECT file FROM pragma_database_list`).Scan(&path))
			require.NoError(t, os.Rename(saved, path))
			agree(t, pool(t, path, "DELETE"), table, inf)
		}
	}
}

// Migrations of many kinds. Those that drop or change the triggers make lists and watches fail until InstallTable.
func TestMigrationIsNoticed(t *testing.T) {
	t.Parallel()
	const missing = "its triggers are missing, or not those of its present schema"
	for name, c := range map[string]struct{ sql, want, undo string }{
		"a copy takes the place of the table": {sql: `CREATE TABLE copy (name TEXT NOT NULL PRIMARY KEY, rev INTEGER, more TEXT);
			INSERT INTO copy SELECT name, rev, '' FROM sites; DROP TABLE sites; ALTER TABLE copy RENAME TO sites;
			UPDATE sites SET rev = 7; DELETE FROM sites WHERE name = 'b'`, want: missing},
		"a unique index is added": {sql: `CREATE UNIQUE INDEX u ON sites (rev, name); INSERT OR REPLACE INTO sites VALUES ('c', 3)`, want: missing},
		"a trigger is dropped":    {sql: `DROP TRIGGER "setpoint_changes sites delete"; DELETE FROM sites`, want: missing},
		"another trigger takes the name": {sql: `DROP TRIGGER "setpoint_changes sites delete";
			CREATE TRIGGER "setpoint_changes sites delete" AFTER DELETE ON sites BEGIN SELECT 1; END; DELETE FROM sites`, want: missing},
		"the table is renamed":  {sql: `ALTER TABLE sites RENAME TO places; INSERT INTO places VALUES ('c', 3)`, want: "there is no such table", undo: `ALTER TABLE places RENAME TO sites`},
		"a column is renamed":   {sql: `ALTER TABLE sites RENAME rev TO revision; UPDATE sites SET revision = 9`, want: `it has no column "rev"`, undo: `ALTER TABLE sites RENAME revision TO rev`},
		"the log is dropped":    {sql: `DROP TABLE setpoint_changes`, want: missing},
		"a column is added":     {sql: `ALTER TABLE sites ADD COLUMN more TEXT DEFAULT 'x'; INSERT INTO sites VALUES ('c', 3, '')`},
		"the file is vacuumed":  {sql: `VACUUM`},
		"nothing to do with it": {sql: `CREATE TABLE others (a); CREATE INDEX i ON sites (rev); INSERT INTO sites VALUES ('c', 3)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newTable(t, "WAL", createSites, sites)
			cfg := sites
			cfg.Columns = []string{"name", "rev"}
			table := sitesIn(t, db, cfg)
			do(t, db, `INSERT INTO sites VALUES ('a', 1), ('b', 2)`)
			list, err := table.List(t.Context())
			require.NoError(t, err)
			inf := follow(t, table, siteName)
			agree(t, db, table, inf)
			seen := make(chan error, 100)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			go func() { // ends with stop, or with an error
				for _, err := range table.Watch(ctx, list.Version) {
					seen <- err
				}
			}()
			do(t, db, putSite, "b", 3)
			require.NoError(t, <-seen) // the watch has begun
			if c.sql == "VACUUM" {
				do(t, db, c.sql)
			} else {
				require.NoError(t, inUserTx(t.Context(), db, func(tx *sql.Tx) error { do(t, tx, c.sql); return nil }))
			}
			err = nil
			for err == nil {
				err = <-seen
			}
			if c.want == "" {
				require.ErrorIs(t, err, informer.ErrExpired)
				agree(t, db, table, inf)
				return
			}
			require.ErrorContains(t, err, c.want)
			_, err = table.List(t.Context())
			require.ErrorContains(t, err, c.want)
			_, err = sqlite.NewTable(t.Context(), db, scanSite, cfg)
			require.ErrorContains(t, err, c.want)
			if c.undo != "" {
				do(t, db, c.undo)
			}
			require.NoError(t, sqlite.InstallTable(t.Context(), db, cfg))
			agree(t, db, table, inf)
			do(t, db, `INSERT OR REPLACE INTO sites (name, rev) VALUES ('d', 4)`)
			agree(t, db, table, inf)
		})
	}
}

// A watch that is about to trim the log says what is wrong, too.
func TestDroppedLogIsNoticedByTrimming(t *testing.T) {
	t.Parallel()
	db := newTable(t, "WAL", createSites, sites)
	table := sitesIn(t, db, sites)
	list, err := table.List(t.Context())
	require.NoError(t, err)
	do(t, db, putSite, "a", 1)
	for _, err = range table.Watch(t.Context(), list.Version) {
		if err == nil {
			do(t, db, `DROP TABLE setpoint_changes`)
		}
	}
	require.ErrorContains(t, err, "call sqlite.InstallTable")
}

func TestColumnThatTriggersNameCannotBeDropped(t *testing.T) {
	t.Parallel()
	db := newTable(t, "WAL", `CREATE TABLE sites (name TEXT PRIMARY KEY, rev INTEGER, code TEXT); CREATE UNIQUE INDEX u ON sites (code)`, sites)
	do(t, db, `DROP INDEX u`)
	_, err := db.Exec(`ALTER TABLE sites DROP COLUMN code`)
	require.ErrorContains(t, err, `error in trigger setpoint_changes sites replace by`)
	require.NoError(t, sqlite.InstallTable(t.Context(), db, sites)) // without the index, they do not name it
	do(t, db, `ALTER TABLE sites DROP COLUMN code`)
}

func TestInstallTableChangesNothingTwice(t *testing.T) {
	t.Parallel()
	db := pool(t, filepath.Join(looptest.MemoryDir(t), "x.db"), "WAL")
	do(t, db, createSites+`; CREATE TABLE pairs (a TEXT, b INTEGER, v, PRIMARY KEY (b, a))`)
	text, err := sqlite.TableSQL(t.Context(), db, sites)
	require.NoError(t, err)
	do(t, db, text) // by an administrator
	table := sitesIn(t, db, sites)
	before, err := table.LatestVersion(t.Context())
	require.NoError(t, err)
	require.NoError(t, sqlite.InstallTable(t.Context(), db, sites))
	text, err = sqlite.TableSQL(t.Context(), db, sites)
	require.NoError(t, err)
	assert.Empty(t, text)
	after, err := table.LatestVersion(t.Context())
	require.NoError(t, err)
	assert.Equal(t, before, after)

	inf := follow(t, table, siteName)
	agree(t, db, table, inf)
	require.NoError(t, sqlite.InstallTable(t.Context(), db, sqlite.TableConfig{Table: "PAIRS"}), "with a longer key")
	do(t, db, putSite, "a", 1)
	agree(t, db, table, inf)
	pairs, err := sqlite.NewTable(t.Context(), db, func(row sqlite.Row) (p [2]string, err error) {
		err = row.Scan(&p[0], &p[1], nil)
		return p, err
	}, sqlite.TableConfig{Table: "Pairs", Key: []string{"A", "B"}})
	require.NoError(t, err)
	do(t, db, `INSERT INTO pairs VALUES ('x', 1, ''), ('y', 2, '')`)
	list, err := pairs.List(t.Context())
	require.NoError(t, err)
	assert.ElementsMatch(t, [][2]string{{"x", "1"}, {"y", "2"}}, list.Items)
	assert.Equal(t, table.Clock(), pairs.Clock())
}

func TestInvalidTablesAreRefused(t *testing.T) {
	t.Parallel()
	db := pool(t, filepath.Join(looptest.MemoryDir(t), "x.db"), "WAL")
	do(t, db, createSites+`; CREATE VIEW seen AS SELECT 1; CREATE VIRTUAL TABLE words USING fts5 (word); CREATE TABLE keyless (a UNIQUE, b, c);
		CREATE UNIQUE INDEX k_b ON keyless (b) WHERE b > 0; CREATE TABLE lower (name TEXT PRIMARY KEY, code TEXT); CREATE UNIQUE INDEX l ON lower (lower(code))`)
	for _, c := range []struct {
		cfg  sqlite.TableConfig
		want string
	}{
		{sqlite.TableConfig{}, "TableConfig.Table is empty"},
		{sqlite.TableConfig{Table: "a\x00"}, `TableConfig.Table is "a\x00", must not contain NUL`},
		{sqlite.TableConfig{Table: "sites", Log: "Sites"}, `TableConfig.Log is "Sites", which is the Table`},
		{sqlite.TableConfig{Table: "sites", Log: "sqlite_x"}, `TableConfig.Log is "sqlite_x", must not begin with sqlite_`},
		{sqlite.TableConfig{Table: "sites", History: -1}, "TableConfig.History is -1, must not be negative"},
		{sqlite.TableConfig{Table: "sites", Poll: -1}, "TableConfig.Poll is -1ns, must not be negative"},
		{sqlite.TableConfig{Table: "sites", Key: []string{""}}, "TableConfig.Key[0] is empty"},
		{sqlite.TableConfig{Table: "missing"}, `table "missing": there is no such table`},
		{sqlite.TableConfig{Table: "seen"}, "it is a view"},
		{sqlite.TableConfig{Table: "words"}, "it is a virtual table"},
		{sqlite.TableConfig{Table: "keyless"}, "it has no primary key: set TableConfig.Key"},
		{sqlite.TableConfig{Table: "keyless", Key: []string{"b"}}, `it has no unique index on exactly "b", which is the key`},
		{sqlite.TableConfig{Table: "keyless", Key: []string{"a", "b"}}, `it has no unique index on exactly "a", "b", which is the key`},
		{sqlite.TableConfig{Table: "keyless", Key: []string{"d"}}, `it has no column "d", which TableConfig.Key names`},
		{sqlite.TableConfig{Table: "sites", Columns: []string{"d"}}, `it has no column "d", which TableConfig.Columns names`},
		{sqlite.TableConfig{Table: "sites", Columns: []string{"rev"}}, `TableConfig.Columns lacks "name", which is in the key`},
		{sqlite.TableConfig{Table: "lower"}, `its unique index "l" is on an expression`},
	} {
		require.ErrorContains(t, sqlite.InstallTable(t.Context(), db, c.cfg), c.want)
		_, err := sqlite.NewTable(t.Context(), db, scanSite, c.cfg)
		require.ErrorContains(t, err, c.want)
		_, err = sqlite.TableSQL(t.Context(), db, c.cfg)
		require.ErrorContains(t, err, c.want)
	}
	_, err := sqlite.NewTable(t.Context(), db, scanSite, sites)
	require.ErrorContains(t, err, "call sqlite.InstallTable")
	require.NoError(t, sqlite.InstallTable(t.Context(), db, sqlite.TableConfig{Table: "keyless", Key: []string{"a"}}))
	memory, err := sql.Open("sqlite", ":memory:")
	require.NoError(t, err)
	defer func() { require.NoError(t, memory.Close()) }()
	_, err = sqlite.NewTable(t.Context(), memory, scanSite, sites)
	require.ErrorContains(t, err, "the database is in memory, must be a file")
	assert.PanicsWithValue(t, "sqlite: NewTable called with a nil pool or scan", func() { _, _ = sqlite.NewTable[int](t.Context(), db, nil, sites) })
	assert.PanicsWithValue(t, "sqlite: InstallTable called with a nil pool", func() { _ = sqlite.InstallTable(t.Context(), nil, sites) })
	assert.PanicsWithValue(t, "sqlite: TableSQL called with a nil pool", func() { _, _ = sqlite.TableSQL(t.Context(), nil, sites) })
}

// Every name is hostile, and so are the keys. A row with a null key does not exist.
func TestNamesAndKeysMayContainAnyCharacters(t *testing.T) {
	t.Parallel()
	db := pool(t, filepath.Join(looptest.MemoryDir(t), "x.db"), "WAL")
	do(t, db, `CREATE TABLE witness (a)`)
	for i, name := range []string{
		`a"; DROP TABLE witness; --`, `'; DROP TABLE witness; --`, `it's`, `{log}`, `{table}`, `?1`, `%s`, `a.b`, `Ünï`, "tab\t", `[x]`, "`x`", `select`, `k1`, `n`, `t`,
	} {
		quoted := `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
		other := `"` + strings.ReplaceAll("v"+name, `"`, `""`) + `"`
		cfg := sqlite.TableConfig{Table: name, Key: []string{name}, Columns: []string{name, "v" + name}, Log: fmt.Sprint(i) + name}
		do(t, db, `CREATE TABLE `+quoted+` (`+quoted+` TEXT PRIMARY KEY, `+other+` INTEGER UNIQUE, more); CREATE UNIQUE INDEX `+
			`"i `+quoted[1:]+` ON `+quoted+` (more, `+other+`) WHERE `+other+` IS NOT NULL`)
		require.NoError(t, sqlite.InstallTable(t.Context(), db, cfg), name)
		table := sitesIn(t, db, cfg)
		inf := follow(t, table, siteName)
		want := map[string]site{}
		for n, key := range dbtest.Hostile() {
			do(t, db, `INSERT INTO `+quoted+` VALUES (?, ?, '')`, key, n)
			do(t, db, `UPDATE `+quoted+` SET `+other+` = `+other+` + 1000 WHERE `+quoted+` = ?`, key)
			want[key] = site{key, n + 1000}
		}
		do(t, db, `INSERT INTO `+quoted+` VALUES ('gone', -1, ''), (NULL, -2, ''), (NULL, -3, '')`)
		do(t, db, `INSERT OR REPLACE INTO `+quoted+` VALUES ('replaced', -1, ''), ('last', -1, '')`)
		want["last"] = site{"last", -1}
		require.NoError(t, inf.CatchUp(t.Context()), name)
		assert.Equal(t, want, maps.Collect(inf.All()), name)
	}
	do(t, db, `SELECT * FROM witness`)
}

func TestRowThatScanRefusesIsUnread(t *testing.T) {
	t.Parallel()
	db := newTable(t, "WAL", createSites, sites)
	table := sitesIn(t, db, sites)
	before, err := table.List(t.Context())
	require.NoError(t, err)
	do(t, db, `INSERT INTO sites VALUES ('a', 1), ('b', 'two'), ('c', 3)`)
	list, err := table.List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []site{{"a", 1}, {"c", 3}}, list.Items)
	require.Len(t, list.Unread, 1)
	assert.Equal(t, site{Name: "b"}, list.Unread[0].Object)
	require.ErrorContains(t, list.Unread[0].Err, `converting driver.Value type string ("two") to a int`)
	var got []string
	for e, err := range table.Watch(t.Context(), before.Version) {
		require.NoError(t, err)
		if e.Type == informer.Bookmark {
			continue
		}
		if got = append(got, fmt.Sprint(e.Type, e.Object)); len(got) == 3 {
			do(t, db, `UPDATE sites SET rev = 2 WHERE name = 'b'`)
		} else if len(got) == 4 {
			break
		}
	}
	assert.Equal(t, []string{"Modified {a 1}", "Unreadable {b 0}", "Modified {c 3}", "Modified {b 2}"}, got)

	// A scan that decodes a column fails for a row with only a key too. It is enough that it sets the key.
	refuses := errors.New("it is not JSON")
	decodes, err := sqlite.NewTable(t.Context(), db, func(row sqlite.Row) (s site, err error) {
		var rev any
		if err := row.Scan(&s.Name, &rev); err != nil {
			return s, err
		}
		n, ok := rev.(int64)
		if s.Rev = int(n); !ok || n == 3 {
			return site{Name: s.Name}, refuses
		}
		return s, nil
	}, sites)
	require.NoError(t, err)
	list, err = decodes.List(t.Context())
	require.NoError(t, err)
	assert.Empty(t, list.Missing)
	require.Len(t, list.Unread, 1)
	assert.Equal(t, site{Name: "c"}, list.Unread[0].Object)
	do(t, db, `DELETE FROM sites WHERE name = 'a'`)
	got = nil
	for e, err := range decodes.Watch(t.Context(), before.Version) {
		require.NoError(t, err)
		if got = append(got, fmt.Sprint(e.Type, e.Object)); len(got) == 3 {
			break
		}
	}
	assert.ElementsMatch(t, []string{"Unreadable {c 0}", "Modified {b 2}", "Deleted {a 0}"}, got)

	broken, err := sqlite.NewTable(t.Context(), db, func(sqlite.Row) (site, error) { panic("no") }, sites)
	require.NoError(t, err)
	list, err = broken.List(t.Context())
	require.NoError(t, err)
	assert.Len(t, list.Missing, 2)
	require.ErrorContains(t, list.Missing[0], "scan cannot read a row: panic: no; nor the row with only its key: panic: no")
	for _, err := range broken.Watch(t.Context(), before.Version) {
		require.ErrorIs(t, err, informer.ErrExpired, "only a list can say what is missing")
	}
}

func TestLogIsTrimmed(t *testing.T) {
	t.Parallel()
	db := newTable(t, "WAL", createSites, sites)
	cfg := sites
	cfg.History = 10
	table := sitesIn(t, db, cfg)
	begin, err := table.List(t.Context())
	require.NoError(t, err)
	for i := range 100 {
		do(t, db, putSite, "a", i)
	}
	for e, err := range table.Watch(t.Context(), begin.Version) {
		require.NoError(t, err)
		if e.Object.Name == "a" {
			do(t, db, putSite, "b", 1) // read after the watch has trimmed
		} else if e.Object.Name == "b" {
			break
		}
	}
	end, err := table.List(t.Context())
	require.NoError(t, err)
	var n int
	require.NoError(t, db.QueryRow(`SELECT count(*) FROM setpoint_changes`).Scan(&n))
	assert.Equal(t, 10, n)
	for _, err := range table.Watch(t.Context(), begin.Version) {
		require.ErrorIs(t, err, informer.ErrExpired)
		require.NotErrorIs(t, err, informer.ErrNewHistory)
	}
	do(t, db, putSite, "a", 1000)
	for e, err := range table.Watch(t.Context(), end.Version) {
		require.NoError(t, err)
		assert.Equal(t, site{"a", 1000}, e.Object)
		break
	}
}

// A reconcile writes the row that it reads. Without the version of its write, it would run on the state from before, because nothing but
// that makes the watch look before the next poll.
func TestReconcileNeverActsOnStateBeforeItsOwnWrite(t *testing.T) {
	t.Parallel()
	db := newTable(t, "WAL", createSites, sites)
	db.SetMaxOpenConns(1) // of which the table needs none
	cfg := sites
	cfg.Poll = time.Hour
	table := sitesIn(t, db, cfg)
	inf := follow(t, table, siteName)
	do(t, db, putSite, "a", 0)
	table.Wake()
	const last = 30
	done := make(chan struct{})
	c, err := controller.New("sites", func(ctx context.Context, name string) (controller.Result, error) {
		s, _ := inf.Get(name)
		if s.Rev == last {
			close(done)
			return controller.Result{}, nil
		}
		err := inUserTx(ctx, db, func(tx *sql.Tx) error {
			result, err := tx.ExecContext(ctx, `UPDATE sites SET rev = rev + 1 WHERE name = ? AND rev = ?`, name, s.Rev)
			if err != nil {
				return err
			}
			if n, _ := result.RowsAffected(); n != 1 {
				t.Errorf("a reconcile has read the stale revision %d", s.Rev)
			}
			_, err = table.VersionOf(ctx, tx)
			return err
		})
		return controller.Result{RequeueAfter: time.Nanosecond}, err
	}, controller.Config[string]{}, controller.For(inf))
	require.NoError(t, err)
	loop := looptest.Start(t, c.Run)
	began := time.Now()
	<-done
	assert.Less(t, time.Since(began), 20*time.Second, "each write is seen soon after its commit")
	require.NoError(t, loop.Stop())
}

// The version of a transaction is exact, and is that of all tables with the log.
func TestVersionOfIsThatOfLastWrite(t *testing.T) {
	t.Parallel()
	db := newTable(t, "WAL", createSites, sites)
	table := sitesIn(t, db, sites)
	var v informer.Version
	for i := range 10 {
		require.NoError(t, inUserTx(t.Context(), db, func(tx *sql.Tx) (err error) {
			do(t, tx, putSite, "a", i)
			do(t, tx, putSite, "b", i)
			v, err = table.VersionOf(t.Context(), tx)
			return err
		}))
		latest, err := table.LatestVersion(t.Context())
		require.NoError(t, err)
		require.Equal(t, latest, v)
		list, err := table.List(t.Context())
		require.NoError(t, err)
		require.Equal(t, v, list.Version)
	}
}

// refusing is a driver whose connections must not delete.
type refusing struct{ driver.Driver }

func (d refusing) Open(name string) (driver.Conn, error) {
	return d.Driver.Open(strings.Replace(name, "mode=rw", "mode=ro", 1))
}

func TestReaderThatMayNotTrimLeavesThatToOthers(t *testing.T) {
	t.Parallel()
	db := newTable(t, "WAL", createSites, sites)
	var path string
	require.NoError(t, db.QueryRow(`SELECT file FROM pragma_database_list`).Scan(&path))
	var log bytes.Buffer
	cfg := sites
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	readOnly := sql.OpenDB(connector{refusing{db.Driver()}, path})
	t.Cleanup(func() { require.NoError(t, readOnly.Close()) })
	table := sitesIn(t, readOnly, cfg)
	before, err := table.List(t.Context())
	require.NoError(t, err)
	do(t, db, putSite, "a", 1)
	n := 0
	for e, err := range table.Watch(t.Context(), before.Version) {
		require.NoError(t, err)
		if n++; n == 1 {
			assert.Equal(t, site{"a", 1}, e.Object)
			do(t, db, putSite, "a", 2) // read after the watch has tried to trim
		} else if e.Object.Rev == 2 {
			break
		}
	}
	assert.Equal(t, 1, strings.Count(log.String(), "cannot trim the log of a table, and leaves that to others"))
}

// connector opens a file with a driver.
type connector struct {
	driver driver.Driver
	path   string
}

func (c connector) Connect(context.Context) (driver.Conn, error) {
	return c.driver.Open("file:" + strings.ReplaceAll(strings.ReplaceAll(c.path, "%", "%25"), " ", "%20") + "?mode=rw")
}
func (c connector) Driver() driver.Driver { return c.driver }
