//go:build linux

package postgres_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/postgres"
)

// Each of these has broken a writer or a watch of a table.
func TestTableIsFollowedWhateverItLooksLike(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=off", "wal_level=logical", "autovacuum=off")
	for name, test := range map[string]func(t *testing.T, pool *pgxpool.Pool){
		"columns with the names of aliases and variables":    columnsWithAnyNames,
		"domains that are not null or get a constraint":      domainsWithConstraints,
		"keys that are equal and written differently":        equalKeysWrittenDifferently,
		"rows that a reader may not see":                     rowsThatReaderMayNotSee,
		"a reader that may not trim":                         readerThatMayNotTrim,
		"a session that only reads":                          sessionThatOnlyReads,
		"sessions that are serializable":                     serializableSessions,
		"triggers that write the same row":                   triggersThatWriteSameRow,
		"scan functions of every kind":                       scanFunctionsOfEveryKind,
		"a scan function that needs more than a key":         scanThatNeedsMoreThanKey,
		"temporary tables with the names of others":          temporaryTables,
		"a table that inherits":                              inheritedRows,
		"an unlogged table with a deferrable key":            unloggedTable,
		"a schema that is first in the path, with operators": hostileSearchPath,
	} {
		t.Run(name, func(t *testing.T) { test(t, connect(t, server.Addr())) })
	}
}

// plainRow is a row as text.
type plainRow = map[string]string

// textRows reads rows of any type: the key, which is the first column, and all columns as text.
func textRow(r pgx.CollectableRow) (plainRow, error) {
	row := plainRow{}
	for i, value := range r.RawValues() {
		if name := r.FieldDescriptions()[i].Name; value != nil {
			row[name] = fmt.Sprintf("%x", value)
		}
	}
	return row, nil
}

// followed is an informer of a table of any type.
type followed struct {
	t     *testing.T
	pool  *pgxpool.Pool
	table *postgres.Table[plainRow]
	inf   *informer.Informer[string, plainRow]
}

// followAny runs an informer of a table of any type, whose key is in some columns. pool is that of the reader.
func followAny(t *testing.T, pool *pgxpool.Pool, cfg postgres.TableConfig, key ...string) followed {
	t.Helper()
	table, err := postgres.NewTable(t.Context(), pool, textRow, cfg)
	require.NoError(t, err)
	inf, err := informer.New(table, func(r plainRow) string {
		var text strings.Builder
		for _, column := range key {
			text.WriteString(r[column] + "/")
		}
		return text.String()
	}, informer.Config{})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- inf.Run(ctx) }() // ends with stop, at the end of the test
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	seen, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.NoError(t, inf.WaitForVersion(seen, 1))
	return followed{t, pool, table, inf}
}

// both returns the rows of a list and those of the cache, when the cache has the version of a transaction that begins now.
func (m followed) both(writer *pgxpool.Pool) (want, got map[string]plainRow) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), 20*time.Second)
	defer cancel()
	var v informer.Version
	require.NoError(m.t, pgx.BeginTxFunc(ctx, writer, pgx.TxOptions{AccessMode: pgx.ReadWrite}, func(tx pgx.Tx) (err error) {
		v, err = m.table.VersionOf(ctx, tx)
		return err
	}))
	require.NoError(m.t, m.inf.WaitForVersion(ctx, v))
	l, err := m.table.List(ctx)
	require.NoError(m.t, err)
	want = map[string]plainRow{}
	for _, r := range l.Items {
		want[m.inf.Key(r)] = r
	}
	return want, maps.Collect(m.inf.All())
}

// agrees fails unless the cache has the rows of the table.
func (m followed) agrees() {
	m.t.Helper()
	want, got := m.both(m.pool)
	require.Equal(m.t, want, got)
}

// agreesSoon waits until it has, for a change that a watch finds when it checks the table.
func (m followed) agreesSoon() {
	m.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		want, got := m.both(m.pool)
		if reflect.DeepEqual(want, got) {
			return
		}
		require.Less(m.t, time.Now(), deadline, "%v, want %v", got, want)
	}
}

// install creates a table and its log.
func install(t *testing.T, pool *pgxpool.Pool, sql string, cfg postgres.TableConfig) postgres.TableConfig {
	t.Helper()
	if cfg.Poll == 0 {
		cfg.Poll = 100 * time.Millisecond
	}
	cfg.Schema = "log of " + cfg.Table
	exec(t, pool, sql)
	require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg))
	return cfg
}

func columnsWithAnyNames(t *testing.T, pool *pgxpool.Pool) {
	for i, name := range []string{
		"o", "r", "t", "e", "m", "l", "new_rows", "new", "found", "tg_op", "horizon", "?column?", "public",
	} {
		column := pgx.Identifier{name}.Sanitize()
		for _, of := range []string{
			"(%s text PRIMARY KEY, v integer NOT NULL)", "(key_ text PRIMARY KEY, v integer NOT NULL, %s text)",
		} {
			table := fmt.Sprintf("named_%d_%d", i, len(of))
			key := name
			if strings.HasPrefix(of, "(key_") {
				key = "key_"
			}
			cfg := install(t, pool, `CREATE TABLE `+table+` `+fmt.Sprintf(of, column), postgres.TableConfig{Table: table})
			source, err := postgres.NewTable(t.Context(), pool, textRow, cfg)
			require.NoError(t, err)
			before, err := source.List(t.Context())
			require.NoError(t, err)
			quoted := pgx.Identifier{key}.Sanitize()
			for _, statement := range []string{
				`INSERT INTO TT (K, v) VALUES ('a', 1), ('b', 1), ('c', 1)`, `UPDATE TT SET v = 2`, `UPDATE TT SET v = 3 WHERE K = 'a'`,
				`UPDATE TT SET K = K || '!' WHERE v < 3`, `DELETE FROM TT WHERE K = 'a'`,
			} {
				exec(t, pool, strings.NewReplacer("TT", table, "K", quoted).Replace(statement))
			}
			kinds := map[informer.EventType]int{} // a is modified and deleted, and so are b and c under the old key
			for e, err := range source.Watch(t.Context(), before.Version) {
				require.NoError(t, err, name)
				kinds[e.Type]++
				if kinds[informer.Modified] == 2 && kinds[informer.Deleted] >= 3 {
					break
				}
			}
		}
	}
}

func domainsWithConstraints(t *testing.T, pool *pgxpool.Pool) {
	exec(t, pool, `CREATE DOMAIN name_of AS text NOT NULL CHECK (value <> ''); CREATE DOMAIN amount AS numeric(10,2) NOT NULL; CREATE DOMAIN day_of AS date NOT NULL`)
	exec(t, pool, `CREATE DOMAIN number_of AS amount`)
	cfg := install(t, pool, `CREATE TABLE domained (n name_of, a number_of, d day_of, c char(5), v amount, PRIMARY KEY (n, a, d, c))`,
		postgres.TableConfig{Table: "domained"})
	m := followAny(t, pool, cfg, "n", "a", "d", "c")
	exec(t, pool, `INSERT INTO domained VALUES ('a', 1.5, '2020-01-02', 'x', 1), ('b', 1.5, '2020-01-02', 'x', 1), ('c', 1, '2020-01-02', '', 1)`)
	older := begin(t, pool, cfg)
	exec(t, older, `SELECT pg_current_xact_id()`)
	exec(t, pool, `UPDATE domained SET v = 2`)
	exec(t, pool, `UPDATE domained SET a = 3 WHERE n = 'a'`)
	exec(t, pool, `DELETE FROM domained WHERE n = 'c'`)
	source, err := postgres.NewTable(t.Context(), pool, textRow, cfg)
	require.NoError(t, err)
	_, err = source.List(t.Context())
	require.NoError(t, err, "while an older transaction is open")
	older.commit()
	m.agrees()
	exec(t, pool, `DELETE FROM domained WHERE n = 'b'`)
	exec(t, pool, `ALTER DOMAIN name_of ADD CHECK (value < 'b')`) // holds for the rows, but not for keys that were deleted
	exec(t, pool, `ALTER TABLE domained ADD COLUMN later name_of DEFAULT 'a'`)
	m.agreesSoon()
	exec(t, pool, `ALTER DOMAIN name_of ADD CHECK (value > 'a') NOT VALID`)
	exec(t, pool, `DELETE FROM domained`)
	m.agrees()
}

func equalKeysWrittenDifferently(t *testing.T, pool *pgxpool.Pool) {
	exec(t, pool, `CREATE COLLATION insensitive (provider = icu, locale = 'und-u-ks-level2', deterministic = false)`)
	exec(t, pool, `CREATE EXTENSION citext SCHEMA public`)
	for i, c := range []struct{ column, key, other string }{
		{`text COLLATE insensitive`, "acme", "Acme"}, {`numeric`, "1.0", "1.00"}, {`citext`, "acme", "ACME"}, {`float8`, "0", "-0"},
	} {
		table := fmt.Sprintf("written_%d", i)
		cfg := install(t, pool, fmt.Sprintf(`CREATE TABLE %s (k %s PRIMARY KEY, v integer)`, table, c.column), postgres.TableConfig{Table: table})
		m := followAny(t, pool, cfg, "k")
		exec(t, pool, fmt.Sprintf(`INSERT INTO %s VALUES ('%s', 1)`, table, c.key))
		m.agrees()
		exec(t, pool, fmt.Sprintf(`UPDATE %s SET k = '%s'`, table, c.other))
		m.agrees()
		exec(t, pool, fmt.Sprintf(`UPDATE %s SET k = '%s', v = 2`, table, c.key))
		exec(t, pool, fmt.Sprintf(`DELETE FROM %s`, table))
		exec(t, pool, fmt.Sprintf(`INSERT INTO %s VALUES ('%s', 3)`, table, c.other))
		m.agrees()
		exec(t, pool, fmt.Sprintf(`DELETE FROM %s`, table))
		m.agrees()
	}
}

func poolAs(t *testing.T, pool *pgxpool.Pool, role string, settings map[string]string) *pgxpool.Pool {
	t.Helper()
	cfg := pool.Config()
	if role != "" {
		cfg.ConnConfig.User = role
	}
	maps.Copy(cfg.ConnConfig.RuntimeParams, settings)
	other, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(other.Close)
	return other
}

// mayRead lets a role read a table, its log, and what all logs share.
func mayRead(t *testing.T, pool *pgxpool.Pool, cfg postgres.TableConfig, role string) {
	t.Helper()
	schema := pgx.Identifier{cfg.Schema}.Sanitize()
	exec(t, pool, `GRANT USAGE ON SCHEMA `+schema+` TO `+role+`; GRANT SELECT ON ALL TABLES IN SCHEMA `+schema+` TO `+role)
}

func rowsThatReaderMayNotSee(t *testing.T, pool *pgxpool.Pool) {
	cfg := install(t, pool, `CREATE TABLE guarded (id integer PRIMARY KEY, owner text NOT NULL, v integer);
		ALTER TABLE guarded ENABLE ROW LEVEL SECURITY; CREATE ROLE limited LOGIN; GRANT SELECT ON guarded TO limited;
		CREATE POLICY own ON guarded USING (owner = current_user)`, postgres.TableConfig{Table: "guarded"})
	mayRead(t, pool, cfg, "limited")
	m := followAny(t, poolAs(t, pool, "limited", nil), cfg, "id")
	exec(t, pool, `INSERT INTO guarded VALUES (1, 'limited', 1), (2, 'other', 1), (3, 'limited', 1)`)
	m.agrees()
	exec(t, pool, `UPDATE guarded SET v = 2`)
	exec(t, pool, `UPDATE guarded SET owner = 'other' WHERE id = 1`)
	exec(t, pool, `UPDATE guarded SET owner = 'limited' WHERE id = 2`)
	m.agrees()
	exec(t, pool, `DELETE FROM guarded WHERE owner = 'other'`)
	m.agrees()
	exec(t, pool, `ALTER POLICY own ON guarded USING (false)`)
	m.agreesSoon()
}

// lines is a log that a test reads.
type lines struct {
	mu   sync.Mutex // guards the text
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func readerThatMayNotTrim(t *testing.T, pool *pgxpool.Pool) {
	var log lines
	cfg := install(t, pool, `CREATE TABLE untrimmed (id integer PRIMARY KEY, v integer); CREATE ROLE reader LOGIN; GRANT SELECT ON untrimmed TO reader`,
		postgres.TableConfig{Table: "untrimmed", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	mayRead(t, pool, cfg, "reader")
	m := followAny(t, poolAs(t, pool, "reader", nil), cfg, "id")
	exec(t, pool, `INSERT INTO untrimmed VALUES (1, 1)`)
	m.agrees()
	assert.Equal(t, 1, strings.Count(log.String(), "cannot trim the log of a table, and leaves that to others"))
}

func sessionThatOnlyReads(t *testing.T, pool *pgxpool.Pool) {
	cfg := install(t, pool, `CREATE TABLE readable (id integer PRIMARY KEY, v integer)`, postgres.TableConfig{Table: "readable"})
	m := followAny(t, poolAs(t, pool, "", map[string]string{"default_transaction_read_only": "on"}), cfg, "id")
	exec(t, pool, `INSERT INTO readable VALUES (1, 1), (2, 1)`)
	m.agrees()
	exec(t, pool, `DELETE FROM readable WHERE id = 1`)
	m.agrees()
}

// The pool of the writers and that of the watch have the default.
func serializableSessions(t *testing.T, pool *pgxpool.Pool) {
	for _, level := range []string{"serializable", "repeatable read"} {
		pool := poolAs(t, pool, "", map[string]string{"default_transaction_isolation": level})
		table := "isolated_" + strings.Fields(level)[0]
		exec(t, pool, `CREATE TABLE `+table+` (id integer PRIMARY KEY, v integer)`)
		cfg := postgres.TableConfig{Table: table, Schema: "log of " + table, Poll: 100 * time.Millisecond}
		errs := make(chan error)
		for range 4 {
			go func() { errs <- postgres.InstallTable(t.Context(), pool, cfg) }() // the loop below waits for it
		}
		for range 4 {
			require.NoError(t, <-errs)
		}
		m := followAny(t, pool, cfg, "id")
		for n := range 20 {
			exec(t, pool, `INSERT INTO `+table+` VALUES ($1, 1)`, n)
			exec(t, pool, `UPDATE `+table+` SET v = v + 1 WHERE id = $1`, n/2)
		}
		exec(t, pool, `DELETE FROM `+table+` WHERE id < 5`)
		m.agrees()
	}
}

func triggersThatWriteSameRow(t *testing.T, pool *pgxpool.Pool) {
	cfg := install(t, pool, `CREATE TABLE echoed (id integer PRIMARY KEY, v integer);
		CREATE FUNCTION echo() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF TG_OP = 'INSERT' THEN
				UPDATE echoed SET v = v * 10 WHERE id = NEW.id;
			ELSIF NEW.v % 10 <> 0 THEN
				DELETE FROM echoed WHERE id = NEW.id; INSERT INTO echoed VALUES (NEW.id, NEW.v + 1);
			END IF;
			RETURN NULL;
		END $$;
		CREATE TRIGGER echo AFTER INSERT OR UPDATE ON echoed FOR EACH ROW EXECUTE FUNCTION echo()`, postgres.TableConfig{Table: "echoed"})
	m := followAny(t, pool, cfg, "id")
	exec(t, pool, `INSERT INTO echoed VALUES (1, 1), (2, 2)`)
	m.agrees()
	exec(t, pool, `UPDATE echoed SET v = 7 WHERE id = 1`)
	m.agrees()
	exec(t, pool, `UPDATE echoed SET v = 7`)
	m.agrees()
}

func scanFunctionsOfEveryKind(t *testing.T, pool *pgxpool.Pool) {
	cfg := install(t, pool, `CREATE TABLE scanned (name text PRIMARY KEY, rev integer NOT NULL)`, postgres.TableConfig{Table: "scanned"})
	scanned(t, pool, cfg, pgx.RowToMap, map[string]any{"name": "a", "rev": int32(2)}, map[string]any{"name": "b", "rev": nil})
	scanned(t, pool, cfg, pgx.RowToStructByPos[site], site{"a", 2}, site{Name: "b"})
	scanned(t, pool, cfg, pgx.RowToStructByName[site], site{"a", 2}, site{Name: "b"})
	scanned(t, pool, cfg, pgx.RowToAddrOfStructByNameLax[site], &site{"a", 2}, &site{Name: "b"})
	scanned(t, pool, cfg, func(r pgx.CollectableRow) (s site, err error) {
		err = r.Scan((*scanner)(&s))
		return s, err
	}, site{"a", 2}, site{Name: "b"})
	scanned(t, pool, cfg, func(r pgx.CollectableRow) (string, error) {
		var name string
		err := r.Scan(&name, nil)
		return name, err
	}, "a", "b")
}

// scanner implements pgx.RowScanner.
type scanner site

func (s *scanner) ScanRow(rows pgx.Rows) error { return rows.Scan(&s.Name, &s.Rev) }

func scanned[T any](t *testing.T, pool *pgxpool.Pool, cfg postgres.TableConfig, scan func(pgx.CollectableRow) (T, error), want, gone T) {
	t.Helper()
	table, err := postgres.NewTable(t.Context(), pool, scan, cfg)
	require.NoError(t, err)
	before, err := table.List(t.Context())
	require.NoError(t, err)
	exec(t, pool, `INSERT INTO scanned VALUES ('a', 2), ('b', 1)`)
	exec(t, pool, `DELETE FROM scanned WHERE name = 'b'`)
	var got []T
	for e, err := range table.Watch(t.Context(), before.Version) {
		require.NoError(t, err)
		if got = append(got, e.Object); len(got) == 2 {
			break
		}
	}
	assert.Equal(t, []T{want, gone}, got)
	l, err := table.List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []T{want}, l.Items)
	exec(t, pool, `DELETE FROM scanned`)
}

func scanThatNeedsMoreThanKey(t *testing.T, pool *pgxpool.Pool) {
	cfg := install(t, pool, `CREATE TABLE needed (name text PRIMARY KEY, rev integer NOT NULL)`, postgres.TableConfig{Table: "needed"})
	table, err := postgres.NewTable(t.Context(), pool, func(r pgx.CollectableRow) (s site, err error) {
		values, err := r.Values()
		if err == nil {
			s = site{values[0].(string), int(values[1].(int32))}
		}
		return s, err
	}, cfg)
	require.NoError(t, err)
	inf := follow(t, table)
	exec(t, pool, `INSERT INTO needed VALUES ('a', 1), ('b', 1)`)
	agree(t, pool, cfg, inf)
	exec(t, pool, `DELETE FROM needed WHERE name = 'a'`)
	agree(t, pool, cfg, inf)
}

func temporaryTables(t *testing.T, pool *pgxpool.Pool) {
	cfg := install(t, pool, `CREATE TABLE shadowed (id integer PRIMARY KEY, v integer)`, postgres.TableConfig{Table: "shadowed"})
	m := followAny(t, pool, cfg, "id")
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	_, err = conn.Conn().PgConn().Exec(t.Context(), `CREATE TEMPORARY TABLE shadowed (x text); CREATE TEMPORARY TABLE new_rows (x text); CREATE TEMPORARY TABLE old_rows (x text);
		CREATE TEMPORARY TABLE xid8 (x text); CREATE TEMPORARY TABLE text (x text); CREATE TEMPORARY TABLE epoch (x text); CREATE TEMPORARY TABLE "public.shadowed" (x text);
		INSERT INTO public.shadowed VALUES (1, 1), (2, 1); UPDATE public.shadowed SET v = 2; UPDATE public.shadowed SET id = 3 WHERE id = 1`).ReadAll()
	require.NoError(t, err)
	m.agrees()
	_, err = conn.Conn().PgConn().Exec(t.Context(), `DELETE FROM public.shadowed WHERE id = 2`).ReadAll()
	require.NoError(t, err)
	exec(t, conn, `DISCARD ALL`)
	m.agrees()
}

func inheritedRows(t *testing.T, pool *pgxpool.Pool) {
	cfg := install(t, pool, `CREATE TABLE parent (id integer PRIMARY KEY, v integer); CREATE TABLE child (PRIMARY KEY (id), more text) INHERITS (parent)`,
		postgres.TableConfig{Table: "parent"})
	exec(t, pool, `INSERT INTO child VALUES (10, 1), (11, 1)`)
	m := followAny(t, pool, cfg, "id")
	exec(t, pool, `INSERT INTO parent VALUES (1, 1)`)
	exec(t, pool, `CREATE TABLE late (PRIMARY KEY (id), a text) INHERITS (parent)`)
	exec(t, pool, `UPDATE parent SET v = 2`)
	exec(t, pool, `UPDATE parent SET id = id + 5`)
	m.agrees()
	exec(t, pool, `DELETE FROM parent WHERE id = 15`)
	m.agrees()
}

func unloggedTable(t *testing.T, pool *pgxpool.Pool) {
	cfg := install(t, pool, `CREATE UNLOGGED TABLE deferred (id integer PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v integer, twice integer GENERATED ALWAYS AS (v * 2) STORED)`,
		postgres.TableConfig{Table: "deferred"})
	m := followAny(t, pool, cfg, "id")
	exec(t, pool, `INSERT INTO deferred VALUES (1, 1), (2, 2), (3, 3)`)
	m.agrees()
	exec(t, pool, `UPDATE deferred SET id = 3 - id WHERE id < 3; UPDATE deferred SET id = 4 - id WHERE id <> 2`)
	exec(t, pool, `UPDATE deferred SET id = id % 3 + 1`)
	m.agrees()
}

func hostileSearchPath(t *testing.T, pool *pgxpool.Pool) {
	cfg := install(t, pool, `CREATE TABLE pathed (id integer PRIMARY KEY, name text, v integer)`, postgres.TableConfig{Table: "pathed"})
	exec(t, pool, `CREATE SCHEMA evil; CREATE FUNCTION evil.no(text, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'captured'; END $$;
		CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.no); CREATE OPERATOR evil.<> (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.no);
		CREATE FUNCTION evil.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE 'captured'; END $$;
		CREATE FUNCTION evil.current_setting(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'captured'; END $$`)
	m := followAny(t, pool, cfg, "id")
	writer := poolAs(t, pool, "", map[string]string{"search_path": "evil, pg_catalog"})
	for _, statement := range []string{
		`INSERT INTO public.pathed VALUES (1, 'a', 1), (2, 'b', 1)`, `UPDATE public.pathed SET v = 2`, `UPDATE public.pathed SET id = 5 WHERE id = 1`,
		`DELETE FROM public.pathed WHERE id = 2`, `TRUNCATE public.pathed`,
	} {
		exec(t, writer, statement)
		m.agrees()
	}
}
