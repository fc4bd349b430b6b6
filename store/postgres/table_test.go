//go:build linux

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/postgres"
)

// site is a row of the tables of these tests.
type site struct {
	Name string
	Rev  int
}

var tableCount atomic.Int32

// newTable creates a table with a change log of its own.
func newTable(t testing.TB, pool *pgxpool.Pool) postgres.TableConfig {
	t.Helper()
	return newTableInLog(t, pool, fmt.Sprintf("log %d", tableCount.Add(1)))
}

// newTableInLog creates a table with the change log of a schema.
func newTableInLog(t testing.TB, pool *pgxpool.Pool, schema string) postgres.TableConfig {
	t.Helper()
	cfg := postgres.TableConfig{Table: fmt.Sprintf("Sites %d", tableCount.Add(1)), Schema: schema, Poll: 5 * time.Second}
	exec(t, pool, `CREATE TABLE `+sqlName(cfg)+` (name text PRIMARY KEY, rev integer)`)
	require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg))
	return cfg
}

func sqlName(cfg postgres.TableConfig) string { return pgx.Identifier{cfg.Table}.Sanitize() }

// querier executes statements: a pool or a transaction.
type querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

func exec(t testing.TB, on querier, sql string, args ...any) {
	t.Helper()
	_, err := on.Exec(t.Context(), sql, args...)
	require.NoError(t, err, sql)
}

func sitesIn(t testing.TB, pool *pgxpool.Pool, cfg postgres.TableConfig) *postgres.Table[site] {
	t.Helper()
	table, err := postgres.NewTable(t.Context(), pool, pgx.RowToStructByName[site], cfg)
	require.NoError(t, err)
	return table
}

func TestTable(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=off", "max_prepared_transactions=2", "autovacuum=off") // whose transactions delay others
	for name, test := range map[string]func(t *testing.T, pool *pgxpool.Pool){
		"a table keeps the source contract":                    tableKeepsTheSourceContract,
		"every statement reaches the cache":                    everyStatementReachesCache,
		"a list is the table, and its watch repeats a part":    listIsTheTable,
		"an event has the present row, once in a page":         eventHasPresentRow,
		"a watch resumes in the middle of a transaction":       watchResumesInTransaction,
		"a watch expires when versions begin again":            watchExpiresWhenVersionsBeginAgain,
		"an epoch begins once":                                 epochBeginsOnce,
		"a key has no included columns, and any order":         keyHasNoIncludedColumnsAndAnyOrder,
		"versions of two tables are comparable":                versionsOfTwoTablesAreComparable,
		"an open transaction causes delay and is named":        openTransactionDelaysAndIsNamed,
		"the log is trimmed up to the oldest open transaction": logIsTrimmedUpToOldestOpenTransaction,
		"InstallTable and NewTable reject invalid arguments":   invalidTableArgumentsAreRejected,
		"a writer needs no rights on the log":                  writerNeedsNoRightsOnLog,
		"a row that scan refuses is unread":                    rowThatScanRefusesIsUnread,
		"a row of which scan refuses the key is missing":       rowOfWhichScanRefusesTheKeyIsMissing,
		"names and rows may contain any characters":            namesAndRowsMayContainAnyCharacters,
	} {
		t.Run(name, func(t *testing.T) { test(t, connect(t, server.Addr())) })
	}
}

func tableKeepsTheSourceContract(t *testing.T, pool *pgxpool.Pool) {
	keepsTheSourceContract(t, pool, func(table *postgres.Table[site]) informer.ListWatcher[site] { return table })
}

// keepsTheSourceContract runs the suite of sources with what source makes of a table.
func keepsTheSourceContract(t *testing.T, pool *pgxpool.Pool, source func(*postgres.Table[site]) informer.ListWatcher[site]) {
	t.Helper()
	informertest.Run(t, func(t *testing.T) informertest.Subject[site] {
		cfg := dividedTable(t, pool, "name")
		name := sqlName(cfg)
		apply := func(ctx context.Context, on querier, c informertest.Change) (err error) {
			if c.Delete {
				_, err = on.Exec(ctx, `DELETE FROM `+name+` WHERE name = $1`, c.Name)
			} else {
				_, err = on.Exec(ctx, `INSERT INTO `+name+` VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET rev = excluded.rev`, c.Name, c.Rev)
			}
			return err
		}
		ctx := context.WithoutCancel(t.Context())
		return informertest.Subject[site]{
			Source: source(sitesIn(t, pool, cfg)),
			Put:    func(name string, rev int) error { return apply(ctx, pool, informertest.Change{Name: name, Rev: rev}) },
			Delete: func(name string) error { return apply(ctx, pool, informertest.Change{Name: name, Delete: true}) },
			Spoil: func(bad string) error { // scan wants a number
				_, err := pool.Exec(ctx, `INSERT INTO `+name+` VALUES ($1, NULL) ON CONFLICT (name) DO UPDATE SET rev = NULL`, bad)
				return err
			},
			Overlap: func(first, second informertest.Change, look func()) error {
				one, err := pool.Begin(ctx)
				if err != nil {
					return err
				}
				defer func() { _ = one.Rollback(ctx) }()
				if err := apply(ctx, one, first); err != nil {
					return err
				}
				if err := pgx.BeginFunc(ctx, pool, func(two pgx.Tx) error { return apply(ctx, two, second) }); err != nil {
					return err
				}
				look()
				return one.Commit(ctx)
			},
			Together: func(first, second informertest.Change) error {
				return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return errors.Join(apply(ctx, tx, first), apply(ctx, tx, second)) })
			},
			Read:    func(s site) (string, int) { return s.Name, s.Rev },
			History: 100_000,
			Objects: 2500,
			Merges:  true,
			Expire: func() error {
				_, err := pool.Exec(ctx, `DELETE FROM `+cfg.Log()+`; INSERT INTO `+cfg.Log()+` DEFAULT VALUES`)
				return err
			},
			Bookmark: func() error { // another table has changed
				_, err := pool.Exec(ctx, `SELECT pg_current_xact_id(), pg_notify($1, '')`, channelOf(t, pool, cfg))
				return err
			},
		}
	})
}

// channelOf reads the channel from the function of the triggers.
func channelOf(t testing.TB, pool *pgxpool.Pool, cfg postgres.TableConfig) (channel string) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT substring(prosrc FROM 'pg_notify\(''([^'']*)''')
		FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = $1 AND prosrc LIKE '%pg_notify%'`, cfg.Schema).Scan(&channel))
	return channel
}

// follow runs an informer of a table until the test ends.
func follow(t testing.TB, source informer.ListWatcher[site]) *informer.Informer[string, site] {
	t.Helper()
	inf, err := informer.New(source, siteName, informer.Config{})
	require.NoError(t, err)
	dbtest.Follow(t, inf)
	return inf
}

// agree waits until the cache has seen everything, and compares it with the table.
func agree(t testing.TB, pool *pgxpool.Pool, cfg postgres.TableConfig, inf *informer.Informer[string, site]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var v informer.Version
	table := sitesIn(t, pool, cfg)
	require.NoError(t, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		if v, err = table.VersionOf(ctx, tx); err == nil && !cfg.WithoutNotify {
			_, err = tx.Exec(ctx, `SELECT pg_notify($1, '')`, channelOf(t, pool, cfg))
		}
		return err
	}))
	require.NoError(t, inf.WaitForVersion(ctx, v))
	want := rowsOf(t, pool, sqlName(cfg))
	assert.Equal(t, len(want), inf.Indexer().Len())
	for _, s := range want {
		got, ok := inf.Get(s.Name)
		assert.True(t, ok, s.Name)
		assert.Equal(t, s, got)
	}
}

func everyStatementReachesCache(t *testing.T, pool *pgxpool.Pool) {
	cfg := newTable(t, pool)
	cfg.WithoutNotify, cfg.Poll = true, 5*time.Millisecond // or nothing could be prepared
	require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg))
	inf := follow(t, sitesIn(t, pool, cfg))
	name := sqlName(cfg)
	for _, statement := range []string{
		`INSERT INTO T VALUES ('a', 1), ('b', 1), ('c', 1)`,
		`INSERT INTO T VALUES ('a', 2), ('d', 1) ON CONFLICT (name) DO UPDATE SET rev = excluded.rev`,
		`INSERT INTO T VALUES ('a', 9) ON CONFLICT DO NOTHING`,
		`UPDATE T SET rev = 3 WHERE name = 'b'`,
		`UPDATE T SET rev = rev`,
		`UPDATE T SET name = 'e' WHERE name = 'c'`,
		`UPDATE T SET name = name || '!'`,
		`UPDATE T SET rev = 0 WHERE false`,
		`DELETE FROM T WHERE name = 'd!'`,
		`WITH gone AS (DELETE FROM T WHERE name = 'e!' RETURNING *) INSERT INTO T SELECT name || '2', rev FROM gone`,
		`MERGE INTO T USING (VALUES ('a!', 7), ('new', 8)) AS v (name, rev) ON v.name = T.name
			WHEN MATCHED THEN UPDATE SET rev = v.rev WHEN NOT MATCHED THEN INSERT VALUES (v.name, v.rev)`,
		`MERGE INTO T USING (VALUES ('new')) AS v (name) ON v.name = T.name WHEN MATCHED THEN DELETE`,
		`DO $$ BEGIN INSERT INTO T VALUES ('sub', 1); BEGIN INSERT INTO T VALUES ('lost', 1); RAISE 'no'; EXCEPTION WHEN OTHERS THEN END; END $$`,
		`SET session_replication_role = replica; INSERT INTO T VALUES ('replayed', 1); RESET session_replication_role`,
		`TRUNCATE T`,
		`INSERT INTO T VALUES ('after', 1)`,
		`BEGIN; TRUNCATE T; INSERT INTO T VALUES ('in one', 1); COMMIT`,
		`BEGIN; INSERT INTO T VALUES ('prepared', 1); PREPARE TRANSACTION 'p'`,
		`COMMIT PREPARED 'p'`,
		`BEGIN; DELETE FROM T; INSERT INTO T VALUES ('prepared', 2); DELETE FROM T; INSERT INTO T VALUES ('prepared', 3); COMMIT`,
		`BEGIN; UPDATE T SET rev = 4; UPDATE T SET rev = 5; DELETE FROM T; INSERT INTO T VALUES ('prepared', 6); UPDATE T SET rev = 7; COMMIT`,
		`BEGIN; UPDATE T SET rev = 8; SAVEPOINT s; UPDATE T SET rev = 9; RELEASE s; COMMIT`,
		`BEGIN; SAVEPOINT s; UPDATE T SET rev = 10; RELEASE s; UPDATE T SET rev = 11; SAVEPOINT s; DELETE FROM T; ROLLBACK TO s; COMMIT`,
		`BEGIN; INSERT INTO T VALUES ('rolled back', 1); ROLLBACK`,
		`INSERT INTO T SELECT 'many ' || i, i FROM generate_series(1, 3000) i`,
		`UPDATE T SET name = 'more ' || name`,
		`DELETE FROM T WHERE rev % 2 = 0`,
	} {
		conn, err := pool.Acquire(t.Context())
		require.NoError(t, err)
		_, err = conn.Conn().PgConn().Exec(t.Context(), regexp.MustCompile(`\bT\b`).ReplaceAllLiteralString(statement, name)).ReadAll()
		conn.Release()
		require.NoError(t, err, statement)
		if strings.Contains(statement, "PREPARE TRANSACTION") {
			continue // nothing is seen before it ends
		}
		agree(t, pool, cfg, inf)
		if t.Failed() {
			t.Fatal(statement)
		}
	}
	rows := [][]any{{"copied 1", 1}, {"copied 2", 2}}
	_, err := pool.CopyFrom(t.Context(), pgx.Identifier{cfg.Table}, []string{"name", "rev"}, pgx.CopyFromRows(rows))
	require.NoError(t, err)
	agree(t, pool, cfg, inf)
}

// While an older transaction is open, younger ones commit. A list has what they wrote, and its watch reports that again, with the older one.
func listIsTheTable(t *testing.T, pool *pgxpool.Pool) {
	cfg := newTable(t, pool)
	name := sqlName(cfg)
	table := sitesIn(t, pool, cfg)
	exec(t, pool, `INSERT INTO `+name+` VALUES ('changed', 1), ('deleted', 1), ('moved', 1), ('left', 1)`)
	older, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = older.Rollback(context.Background()) }()
	exec(t, older, `INSERT INTO `+name+` VALUES ('older', 1)`)
	for _, statement := range []string{
		`UPDATE T SET rev = 2 WHERE name = 'changed'`, `UPDATE T SET rev = 3 WHERE name = 'changed'`,
		`DELETE FROM T WHERE name = 'deleted'`, `UPDATE T SET name = 'away' WHERE name = 'moved'`, `INSERT INTO T VALUES ('new', 1)`,
	} {
		exec(t, pool, regexp.MustCompile(`\bT\b`).ReplaceAllLiteralString(statement, name))
	}
	l, err := table.List(t.Context())
	require.NoError(t, err)
	assert.ElementsMatch(t, []site{{"changed", 3}, {"away", 1}, {"new", 1}, {"left", 1}}, l.Items)
	require.NoError(t, older.Commit(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var seen []string
	for e, err := range table.Watch(ctx, l.Version) {
		require.NoError(t, err)
		seen = append(seen, fmt.Sprintf("%v %v", e.Type, e.Object))
		if e.Object.Name == "new" {
			break
		}
	}
	assert.Equal(t, []string{
		"Modified {older 1}", "Modified {changed 3}", "Deleted {deleted 0}", "Deleted {moved 0}", "Modified {away 1}", "Modified {new 1}",
	}, seen)
}

func versionsOfTwoTablesAreComparable(t *testing.T, pool *pgxpool.Pool) {
	one, two := newTableInLog(t, pool, "shared log"), newTableInLog(t, pool, "shared log")
	table := sitesIn(t, pool, one)
	caches := []*informer.Informer[string, site]{follow(t, table), follow(t, sitesIn(t, pool, two))}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var v informer.Version
	require.NoError(t, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		exec(t, tx, `INSERT INTO `+sqlName(one)+` VALUES ('a', 1)`)
		exec(t, tx, `INSERT INTO `+sqlName(two)+` VALUES ('b', 1)`)
		v, err = table.VersionOf(ctx, tx)
		return err
	}))
	for i, key := range []string{"a", "b"} {
		require.NoError(t, caches[i].WaitForVersion(ctx, v))
		_, ok := caches[i].Get(key)
		assert.True(t, ok)
	}
}

func openTransactionDelaysAndIsNamed(t *testing.T, pool *pgxpool.Pool) {
	cfg := newTable(t, pool)
	table := sitesIn(t, pool, cfg)
	d, err := table.Delay(t.Context())
	require.NoError(t, err)
	assert.Zero(t, d.Behind)
	cfg.WithoutNotify = true // or it could not be prepared
	require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg))
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	exec(t, tx, `SET LOCAL application_name = 'the report'`)
	exec(t, tx, `INSERT INTO `+sqlName(cfg)+` VALUES ('late', 1)`)
	exec(t, pool, `INSERT INTO `+sqlName(cfg)+` VALUES ('early', 1)`)
	seen := follow(t, table)
	require.Eventually(t, func() bool { return !seen.Stats().DelayedSince.IsZero() }, time.Minute, time.Millisecond)
	since := seen.Stats().DelayedSince
	assert.WithinDuration(t, time.Now(), since, time.Minute)
	d, err = table.Delay(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 2, d.Behind)
	assert.NotZero(t, d.PID)
	assert.Equal(t, "the report", d.Application)
	assert.Equal(t, "idle in transaction", d.State)
	assert.WithinDuration(t, time.Now(), d.Since, time.Minute)
	exec(t, tx, `PREPARE TRANSACTION 'the two phases'`)
	d, err = table.Delay(t.Context())
	require.NoError(t, err)
	assert.Zero(t, d.PID)
	assert.Equal(t, "the two phases", d.Application)
	assert.Equal(t, "prepared", d.State)
	assert.Equal(t, since, seen.Stats().DelayedSince, "it is the same transaction")
	exec(t, pool, `COMMIT PREPARED 'the two phases'`)
	_ = tx.Rollback(t.Context())
	agree(t, pool, cfg, seen)
	require.Eventually(t, func() bool { return seen.Stats().DelayedSince.IsZero() }, time.Minute, time.Millisecond)
}

func logIsTrimmedUpToOldestOpenTransaction(t *testing.T, pool *pgxpool.Pool) {
	cfg := newTable(t, pool)
	cfg.History = 10
	name, log := sqlName(cfg), cfg.Log()
	count := func() (n int) {
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM `+log).Scan(&n))
		return n
	}
	table := sitesIn(t, pool, cfg)
	begin, err := table.List(t.Context())
	require.NoError(t, err)
	open, err := pool.Begin(t.Context())
	require.NoError(t, err)
	exec(t, open, `INSERT INTO `+name+` VALUES ('late', 1)`)
	for i := range 100 {
		exec(t, pool, `INSERT INTO `+name+` VALUES ($1, 1)`, fmt.Sprint(i))
	}
	// A watch trims when it begins.
	watchOnce := func(after informer.Version) error {
		for _, err := range table.Watch(t.Context(), after) {
			return err
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	for _, err := range table.Watch(ctx, begin.Version) {
		require.ErrorIs(t, err, context.DeadlineExceeded, "nothing can be reported")
	}
	assert.Equal(t, 101, count(), "nothing is trimmed")
	require.NoError(t, open.Commit(t.Context()))
	inf := follow(t, table)
	require.Eventually(t, func() bool { return count() <= 11 }, 30*time.Second, 10*time.Millisecond)
	agree(t, pool, cfg, inf)
	require.ErrorIs(t, watchOnce(begin.Version), informer.ErrExpired)
	require.ErrorIs(t, watchOnce(inf.Version()+1000), informer.ErrExpired, "the server was restored from a backup")
	last, err := table.List(t.Context())
	require.NoError(t, err)
	exec(t, pool, `DELETE FROM `+log+`; INSERT INTO `+log+` DEFAULT VALUES`)
	require.ErrorIs(t, watchOnce(last.Version), informer.ErrExpired, "the next transaction may be missing")
}

func invalidTableArgumentsAreRejected(t *testing.T, pool *pgxpool.Pool) {
	exec(t, pool, `CREATE TABLE keyless (a integer, b integer NOT NULL UNIQUE, d integer NOT NULL)`)
	exec(t, pool, `CREATE TABLE fine (a integer PRIMARY KEY)`)
	exec(t, pool, `CREATE VIEW seen AS SELECT * FROM fine`)
	for _, c := range []struct {
		cfg  postgres.TableConfig
		want string
	}{
		{postgres.TableConfig{}, "TableConfig.Table is empty"},
		{postgres.TableConfig{Table: "a\x00"}, `TableConfig.Table is "a\x00", must not contain NUL`},
		{postgres.TableConfig{Table: strings.Repeat("x", 64)}, "TableConfig.Table has 64 bytes"},
		{postgres.TableConfig{Table: "fine", History: -1}, "TableConfig.History is -1, must not be negative"},
		{postgres.TableConfig{Table: "fine", Poll: -1}, "TableConfig.Poll is -1ns, must not be negative"},
		{postgres.TableConfig{Table: "fine", Key: []string{""}}, "TableConfig.Key[0] is empty"},
		{postgres.TableConfig{Table: "missing"}, `table "public"."missing": there is no such table`},
		{postgres.TableConfig{Table: "seen"}, `table "public"."seen": there is no such table`},
		{postgres.TableConfig{Table: "keyless"}, "it has no primary key: set TableConfig.Key"},
		{postgres.TableConfig{Table: "keyless", Key: []string{"a"}}, `its column "a", which TableConfig.Key names, may be null`},
		{postgres.TableConfig{Table: "keyless", Key: []string{"c"}}, `it has no column "c", which TableConfig.Key names`},
		{postgres.TableConfig{Table: "keyless", Key: []string{"d"}}, `it has no unique index on exactly "d", which is the key`},
		{postgres.TableConfig{Table: "keyless", Key: []string{"b", "d"}}, `it has no unique index on exactly "b", "d", which is the key`},
		{postgres.TableConfig{Table: "keyless", Key: []string{"b"}, Columns: []string{"d"}}, `TableConfig.Columns lacks "b", which TableConfig.Key names`},
		{postgres.TableConfig{Table: "fine", Columns: []string{"b"}}, `it has no column "b", which TableConfig.Columns names`},
		{postgres.TableConfig{Table: "fine", Key: []string{"setpoint_xid"}}, `TableConfig.Key names "setpoint_xid", which is a column of the log`},
	} {
		require.ErrorContains(t, postgres.InstallTable(t.Context(), pool, c.cfg), c.want)
		_, err := postgres.NewTable(t.Context(), pool, pgx.RowTo[int], c.cfg)
		require.ErrorContains(t, err, c.want)
	}
	cfg := postgres.TableConfig{Table: "fine"}
	_, err := postgres.TableSQL(cfg)
	require.ErrorContains(t, err, "postgres: TableSQL: TableConfig.Key is empty")
	open := func() error {
		_, err := postgres.NewTable(t.Context(), pool, pgx.RowTo[int], cfg)
		return err
	}
	const drifted = `its triggers are missing, disabled, or of another log than "setpoint"."public.fine": call postgres.InstallTable`
	require.ErrorContains(t, open(), drifted)
	require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg))
	require.NoError(t, open())
	exec(t, pool, `ALTER TABLE fine DISABLE TRIGGER setpoint_delete`)
	require.ErrorContains(t, open(), drifted)
	require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg), "it may be called again")
	require.NoError(t, open())
	text, err := postgres.TableSQL(postgres.TableConfig{Table: "keyless", Key: []string{"b"}})
	require.NoError(t, err)
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), text)
		return err
	}))
	_, err = postgres.NewTable(t.Context(), pool, pgx.RowTo[int], postgres.TableConfig{Table: "keyless", Key: []string{"b"}})
	require.NoError(t, err)
	assert.PanicsWithValue(t, "postgres: NewTable called with a nil pool or scan", func() {
		_, _ = postgres.NewTable[int](t.Context(), pool, nil, cfg)
	})
}

// Every name of a TableConfig is hostile, and so are the rows.
func namesAndRowsMayContainAnyCharacters(t *testing.T, pool *pgxpool.Pool) {
	exec(t, pool, `CREATE TABLE witness (a integer)`)
	for i, name := range []string{
		`a"; DROP TABLE witness; --`, `'; DROP TABLE witness; --`, `it's`, `$$`, `$$; DROP TABLE witness; --`, `$setpoint0$`, `{table}`, `{key}`, `\`, `%s`, `a.b`, `Ünï`, "tab\t", strings.Repeat("x", 60),
	} {
		quoted := func(name string) string { return pgx.Identifier{name}.Sanitize() }
		cfg := postgres.TableConfig{
			Table: name, TableSchema: "s " + name, Key: []string{name}, Columns: []string{name, "v" + name}, Schema: fmt.Sprint(i) + name,
		}
		table := quoted(cfg.TableSchema) + "." + quoted(name)
		exec(t, pool, `CREATE SCHEMA `+quoted(cfg.TableSchema))
		exec(t, pool, `CREATE TABLE `+table+` (`+quoted(name)+` text PRIMARY KEY, `+quoted("v"+name)+` integer NOT NULL, other text)`)
		require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg), name)
		source, err := postgres.NewTable(t.Context(), pool, pgx.RowToStructByPos[site], cfg)
		require.NoError(t, err, name)
		inf := follow(t, source)
		want := map[string]site{}
		for _, key := range dbtest.Hostile() {
			if !utf8.ValidString(key) || strings.Contains(key, "\x00") || len(key) > 1000 { // the server refuses these
				continue
			}
			exec(t, pool, `INSERT INTO `+table+` VALUES ($1, 1, $1)`, key)
			exec(t, pool, `UPDATE `+table+` SET `+quoted("v"+name)+` = 2`)
			want[key] = site{key, 2}
		}
		exec(t, pool, `INSERT INTO `+table+` VALUES ('gone', 1, '')`)
		exec(t, pool, `DELETE FROM `+table+` WHERE `+quoted(name)+` = 'gone'`)
		var v informer.Version
		require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
			if v, err = source.VersionOf(t.Context(), tx); err == nil {
				_, err = tx.Exec(t.Context(), `INSERT INTO `+table+` VALUES ('last', 1, '')`)
			}
			return err
		}))
		want["last"] = site{"last", 1}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		require.NoError(t, inf.WaitForVersion(ctx, v), name)
		cancel()
		assert.Equal(t, want, cached(inf), name)
		_, err = source.Delay(t.Context())
		require.NoError(t, err)
	}
	exec(t, pool, `SELECT FROM witness`)
}

// A role that may write the table, and nothing else, writes as before.
func writerNeedsNoRightsOnLog(t *testing.T, pool *pgxpool.Pool) {
	cfg := newTable(t, pool)
	exec(t, pool, `CREATE ROLE clerk`)
	exec(t, pool, `GRANT SELECT, INSERT, UPDATE, DELETE ON `+sqlName(cfg)+` TO clerk`)
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		exec(t, tx, `SET LOCAL ROLE clerk`)
		exec(t, tx, `INSERT INTO `+sqlName(cfg)+` VALUES ('a', 1)`)
		exec(t, tx, `UPDATE `+sqlName(cfg)+` SET rev = 2`)
		exec(t, tx, `DELETE FROM `+sqlName(cfg))
		_, err := tx.Exec(t.Context(), `SAVEPOINT s`)
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `SELECT FROM `+cfg.Log())
		require.ErrorContains(t, err, "permission denied")
		_, err = tx.Exec(t.Context(), `ROLLBACK TO s`)
		return err
	}))
}

func rowThatScanRefusesIsUnread(t *testing.T, pool *pgxpool.Pool) {
	cfg := newTable(t, pool)
	table := sitesIn(t, pool, cfg)
	before, err := table.List(t.Context())
	require.NoError(t, err)
	for _, values := range []string{`('a', 1)`, `('b', NULL)`, `('c', 3)`} {
		exec(t, pool, `INSERT INTO `+sqlName(cfg)+` VALUES `+values)
	}
	list, err := table.List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []site{{"a", 1}, {"c", 3}}, list.Items)
	require.Len(t, list.Unread, 1)
	assert.Equal(t, site{Name: "b"}, list.Unread[0].Object)
	require.ErrorContains(t, list.Unread[0].Err, "cannot scan NULL into *int")
	var got []string
	for e, err := range table.Watch(t.Context(), before.Version) {
		require.NoError(t, err)
		if e.Type == informer.Bookmark {
			continue
		}
		got = append(got, fmt.Sprint(e.Type, e.Object))
		if len(got) == 3 {
			assert.Equal(t, []string{"Modified {a 1}", "Unreadable {b 0}", "Modified {c 3}"}, got)
			exec(t, pool, `UPDATE `+sqlName(cfg)+` SET rev = 2 WHERE name = 'b'`)
		} else if len(got) == 4 {
			assert.Equal(t, "Modified {b 2}", got[3])
			break
		}
	}

	// A scan that decodes a column fails for a row with only a key too. It is enough that it sets the key.
	decodes, err := postgres.NewTable(t.Context(), pool, func(row pgx.CollectableRow) (s site, err error) {
		var rev *int
		if err := row.Scan(&s.Name, &rev); err != nil {
			return s, err
		}
		if rev == nil || *rev == 3 {
			return s, errors.New("it is not JSON")
		}
		s.Rev = *rev
		return s, nil
	}, cfg)
	require.NoError(t, err)
	list, err = decodes.List(t.Context())
	require.NoError(t, err)
	assert.Empty(t, list.Missing)
	require.Len(t, list.Unread, 1)
	assert.Equal(t, site{Name: "c"}, list.Unread[0].Object)
	exec(t, pool, `DELETE FROM `+sqlName(cfg)+` WHERE name = 'a'`)
	for e, err := range decodes.Watch(t.Context(), list.Version) {
		require.NoError(t, err)
		if e.Type == informer.Deleted {
			assert.Equal(t, site{Name: "a"}, e.Object)
			break
		}
	}
}

func rowOfWhichScanRefusesTheKeyIsMissing(t *testing.T, pool *pgxpool.Pool) {
	cfg := newTable(t, pool)
	broken := errors.New("broken")
	table, err := postgres.NewTable(t.Context(), pool, func(pgx.CollectableRow) (site, error) { return site{}, broken }, cfg)
	require.NoError(t, err)
	before, err := table.List(t.Context())
	require.NoError(t, err)
	exec(t, pool, `INSERT INTO `+sqlName(cfg)+` VALUES ('a', 1)`)
	list, err := table.List(t.Context())
	require.NoError(t, err)
	require.Len(t, list.Missing, 1)
	require.ErrorIs(t, list.Missing[0], broken)
	require.ErrorContains(t, list.Missing[0], "nor the row with only its key")
	for _, err := range table.Watch(t.Context(), before.Version) {
		require.ErrorIs(t, err, broken)
		require.ErrorIs(t, err, informer.ErrExpired, "only a list can say what is missing")
	}
}
