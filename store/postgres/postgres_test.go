//go:build linux

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/postgres"
)

var errGone = errors.New("gone")

func TestPostgres(t *testing.T) {
	server := servertest.Postgres(t, "fsync=off")
	pool := connect(t, server.Addr())
	for name, test := range map[string]func(t *testing.T, server *servertest.Server, pool *pgxpool.Pool){
		"Open rejects an unusable schema":                         refusedSchemas,
		"Migrate is idempotent and safe to call concurrently":     migrateAtOnce,
		"a schema may have any name":                              anyName,
		"hostile strings are data":                                hostileStrings,
		"the query of a watch is not JIT-compiled":                readIsNotCompiled,
		"terms may have the largest value":                        greatTerms,
		"objects and rows commit together":                        joined,
		"a transaction on an old snapshot writes nothing":         oldSnapshot,
		"transactions that write several objects do not deadlock": noDeadlock,
		"waiting for another writer ends with the context":        waits,
		"an overtaken write restarts":                             overtaken,
		"the history is trimmed":                                  trimmed,
		"a lost listener only costs time":                         lostListener,
		"a change before the listener listens is found at once":   lateListener,
		"a list is in order without its index":                    orderedList,
		"the last watch releases its connection":                  givesUp,
		"a damaged record is named":                               damaged,
		"the view shows live objects":                             view,
		"without prepared statements":                             poolerModes,
	} {
		t.Run(name, func(t *testing.T) { test(t, server, pool) })
	}
}

func refusedSchemas(t *testing.T, _ *servertest.Server, pool *pgxpool.Pool) {
	_, err := postgres.Open(t.Context(), pool, postgres.Config{Schema: "missing"})
	require.EqualError(t, err, `postgres: open schema "missing": it does not exist: call postgres.Migrate once`)

	half := newSchema(t, pool)
	_, err = pool.Exec(t.Context(), `DROP TABLE "`+half+`".fences`)
	require.NoError(t, err)
	for _, err := range []error{postgres.Migrate(t.Context(), pool, postgres.Config{Schema: half}), second(postgres.Open(t.Context(), pool, postgres.Config{Schema: half}))} {
		require.ErrorContains(t, err, "it is incomplete: it has no table fences")
	}
	other := newSchema(t, pool)
	for _, layout := range []string{"0", "3"} {
		_, err = pool.Exec(t.Context(), `UPDATE "`+other+`".state SET layout = `+layout)
		require.NoError(t, err)
		for _, err := range []error{postgres.Migrate(t.Context(), pool, postgres.Config{Schema: other}), second(postgres.Open(t.Context(), pool, postgres.Config{Schema: other}))} {
			require.ErrorContains(t, err, "it has layout "+layout+", this version of the library needs 2")
		}
	}
	for _, c := range []struct {
		cfg  postgres.Config
		want string
	}{
		{postgres.Config{History: -1}, "Config.History is -1, must not be negative"},
		{postgres.Config{Poll: -1}, "Config.Poll is -1ns, must not be negative"},
		{postgres.Config{Schema: strings.Repeat("x", 64)}, "Config.Schema has 64 bytes, must not have more than 63"},
		{postgres.Config{Schema: "a\x00"}, `Config.Schema is "a\x00", must not contain NUL`},
		{postgres.Config{Schema: "$user"}, `Config.Schema is "$user", which Postgres takes for the name of the user`},
	} {
		_, err := postgres.Open(t.Context(), pool, c.cfg)
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, postgres.Migrate(t.Context(), pool, c.cfg), c.want)
		_, err = postgres.SQL(c.cfg)
		require.ErrorContains(t, err, c.want)
	}
	assert.PanicsWithValue(t, "postgres: Open called with a nil pool", func() { _, _ = postgres.Open(t.Context(), nil, postgres.Config{}) })
	assert.PanicsWithValue(t, "postgres: Migrate called with a nil pool", func() { _ = postgres.Migrate(t.Context(), nil, postgres.Config{}) })
}

func second(_ *postgres.Backend, err error) error { return err }

func migrateAtOnce(t *testing.T, _ *servertest.Server, pool *pgxpool.Pool) {
	cfg := postgres.Config{Schema: "many at once"}
	errs := make(chan error)
	const n = 8
	for range n {
		go func() { errs <- postgres.Migrate(t.Context(), pool, cfg) }() // the test waits for it
	}
	for range n {
		require.NoError(t, <-errs)
	}
	_, err := dbtest.Put(t.Context(), open(t, pool, cfg), "a", "1")
	require.NoError(t, err)
	require.NoError(t, postgres.Migrate(t.Context(), pool, cfg))
	r, err := open(t, pool, cfg).Get(t.Context(), "app", "a")
	require.NoError(t, err)
	assert.Equal(t, "1", string(r.Value))
}

func anyName(t *testing.T, _ *servertest.Server, pool *pgxpool.Pool) {
	for _, name := range []string{`a"; DROP TABLE state; --`, `it's`, `$$`, `{schema}`, `Ünï`, "pg temp", strings.Repeat("x", 63)} {
		cfg := postgres.Config{Schema: name}
		require.NoError(t, postgres.Migrate(t.Context(), pool, cfg), name)
		db := open(t, pool, cfg)
		_, err := dbtest.Put(t.Context(), db, "a", "1")
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		for c, err := range db.Watch(ctx, "app", backend.Query{}, 0) {
			require.NoError(t, err)
			assert.Equal(t, "a", c.Record.Key)
			break
		}
		cancel()
	}
}

func greatTerms(t *testing.T, _ *servertest.Server, pool *pgxpool.Pool) {
	db := open(t, pool, postgres.Config{Schema: newSchema(t, pool)})
	const greatest = ^uint64(0)
	_, err := dbtest.Put(t.Context(), db, "a", "1", backend.Fence{Lease: "shop", Term: greatest})
	require.NoError(t, err)
	_, err = dbtest.Put(t.Context(), db, "a", "2", backend.Fence{Lease: "shop", Term: greatest - 1})
	require.ErrorIs(t, err, backend.ErrFenced)
	_, err = dbtest.Put(t.Context(), db, "a", "2", backend.Fence{Lease: "shop", Term: greatest})
	require.NoError(t, err)
}

func joined(t *testing.T, _ *servertest.Server, pool *pgxpool.Pool) {
	schema := newSchema(t, pool)
	db := open(t, pool, postgres.Config{Schema: schema})
	s := dbtest.Apps(t, db)
	_, err := pool.Exec(t.Context(), "CREATE TABLE orders (id text)")
	require.NoError(t, err)
	orders := func() (n int) {
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM orders").Scan(&n))
		return n
	}
	order := func(tx pgx.Tx) {
		_, err := tx.Exec(t.Context(), "INSERT INTO orders VALUES ('1')")
		require.NoError(t, err)
	}
	require.ErrorIs(t, inTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
		order(tx)
		_, err = s.Create(ctx, store.Object[dbtest.App]{Key: "a"})
		require.NoError(t, err)
		_, err = s.Get(ctx, "a")
		require.NoError(t, err, "the transaction sees its own write")
		_, err = s.Get(t.Context(), "a")
		require.ErrorIs(t, err, store.ErrNotFound, "no other process does")
		return errGone
	}), errGone)
	_, err = s.Get(t.Context(), "a")
	require.ErrorIs(t, err, store.ErrNotFound)
	assert.Zero(t, orders())

	var a, b store.Object[dbtest.App]
	require.NoError(t, inTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) (err error) {
		a, err = s.Create(ctx, store.Object[dbtest.App]{Key: "a"})
		require.NoError(t, err)
		_, err = s.Create(ctx, store.Object[dbtest.App]{Key: "a"})
		require.ErrorIs(t, err, store.ErrExists, "a rejection does not end the transaction")
		order(tx)
		b, err = s.Create(ctx, store.Object[dbtest.App]{Key: "b"})
		return err
	}))
	require.Greater(t, b.Version, a.Version)
	assert.Equal(t, 1, orders())
	l, err := s.List(t.Context())
	require.NoError(t, err)
	assert.Len(t, l.Items, 2)
	assert.Equal(t, b.Version, l.Version)
}

func oldSnapshot(t *testing.T, _ *servertest.Server, pool *pgxpool.Pool) {
	s := dbtest.Apps(t, open(t, pool, postgres.Config{Schema: newSchema(t, pool)}))
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	ctx := postgres.WithTx(t.Context(), tx)
	_, err = s.Get(ctx, "a")
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = s.Create(t.Context(), store.Object[dbtest.App]{Key: "a", Value: dbtest.App{Image: "theirs"}})
	require.NoError(t, err)
	_, err = s.Create(ctx, store.Object[dbtest.App]{Key: "a", Value: dbtest.App{Image: "mine"}})
	var refused *pgconn.PgError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, "40001", refused.Code)
	require.NoError(t, tx.Rollback(t.Context()))
	a, err := s.Get(t.Context(), "a")
	require.NoError(t, err)
	assert.Equal(t, "theirs", a.Value.Image)
}

func noDeadlock(t *testing.T, _ *servertest.Server, pool *pgxpool.Pool) {
	dbtest.TransactionsDoNotDeadlock(t, open(t, pool, postgres.Config{Schema: newSchema(t, pool)}), inTxOf(pool))
}

func waits(t *testing.T, _ *servertest.Server, pool *pgxpool.Pool) {
	dbtest.WriteWaitsForTransaction(t, open(t, pool, postgres.Config{Schema: newSchema(t, pool)}), inTxOf(pool))
}

func overtaken(t *testing.T, _ *servertest.Server, pool *pgxpool.Pool) {
	cfg := postgres.Config{Schema: newSchema(t, pool)}
	dbtest.OvertakenWriteRestarts(t, open(t, pool, cfg), open(t, pool, cfg))
}

func trimmed(t *testing.T, _ *servertest.Server, pool *pgxpool.Pool) {
	const history = 10
	schema := newSchema(t, pool)
	db := open(t, pool, postgres.Config{Schema: schema, History: history})
	dbtest.HistoryIsTrimmed(t, db, open(t, pool, postgres.Config{Schema: schema}), history, func() (rows int) {
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM "`+schema+`".objects`).Scan(&rows))
		return rows
	})
}

// listeners returns the server processes that wait for a notification, of connections with the application name of pool.
func listeners(t *testing.T, pool *pgxpool.Pool) (pids []int32) {
	t.Helper()
	rows, err := pool.Query(t.Context(), "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN %' AND application_name = current_setting('application_name')")
	require.NoError(t, err)
	pids, err = pgx.CollectRows(rows, pgx.RowTo[int32])
	require.NoError(t, err)
	return pids
}

func lostListener(t *testing.T, _ *servertest.Server, pool *pgxpool.Pool) {
	db := open(t, pool, postgres.Config{Schema: newSchema(t, pool), Poll: 50 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	written := 0
	write := func() {
		written++
		_, err := dbtest.Put(ctx, db, "a", fmt.Sprint(written))
		require.NoError(t, err)
	}
	write()
	for c, err := range db.Watch(ctx, "app", backend.Query{}, 0) {
		require.NoError(t, err)
		if c.Record.Key == "" {
			continue
		}
		require.Equal(t, fmt.Sprint(written), string(c.Record.Value))
		if written == 5 {
			break
		}
		for _, pid := range listeners(t, pool) {
			_, err := pool.Exec(ctx, "SELECT pg_terminate_backend($1)", pid)
			require.NoError(t, err)
		}
		write()
	}
}

// The last notification of a change that commits after a watch has read, and before it listens, is lost.
func lateListener(t *testing.T, _ *servertest.Server, pool *pgxpool.Pool) {
	written := make(chan struct{})
	cfg := pool.Config()
	cfg.BeforeConnect = func(ctx context.Context, _ *pgx.ConnConfig) error {
		select {
		case <-written:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	slow, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer slow.Close()
	db := open(t, pool, postgres.Config{Schema: newSchema(t, pool), Poll: time.Hour, Listen: slow})
	_, err = dbtest.Put(t.Context(), db, "a", "1")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), backend.BookmarkInterval/2-500*time.Millisecond) // the next read of an idle watch
	defer cancel()
	var reported []string
	for c, err := range db.Watch(ctx, "app", backend.Query{}, 0) {
		require.NoError(t, err)
		if reported = append(reported, string(c.Record.Value)); len(reported) == 2 {
			break
		}
		_, err = dbtest.Put(ctx, db, "a", "2")
		require.NoError(t, err)
		close(written)
	}
	assert.Equal(t, []string{"1", "2"}, reported)
}

func orderedList(t *testing.T, _ *servertest.Server, pool *pgxpool.Pool) {
	cfg := pool.Config()
	cfg.ConnConfig.RuntimeParams["enable_indexscan"], cfg.ConnConfig.RuntimeParams["enable_bitmapscan"] = "off", "off"
	scans, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer scans.Close()
	db := open(t, scans, postgres.Config{Schema: newSchema(t, pool)})
	for _, key := range []string{"b", "c", "a"} {
		_, err := dbtest.Put(t.Context(), db, key, "1")
		require.NoError(t, err)
	}
	var keys []string
	for page, err := range db.List(t.Context(), "app", backend.Query{}) {
		require.NoError(t, err)
		for _, r := range page.Records {
			keys = append(keys, r.Key)
		}
	}
	assert.Equal(t, []string{"a", "b", "c"}, keys)
}

func givesUp(t *testing.T, server *servertest.Server, pool *pgxpool.Pool) {
	db := open(t, pool, postgres.Config{Schema: newSchema(t, pool), Poll: 10 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	watch := func(f func()) {
		_, err := dbtest.Put(ctx, db, "a", "1")
		require.NoError(t, err)
		for _, err := range db.Watch(ctx, "app", backend.Query{}, 0) {
			require.NoError(t, err)
			f()
			return
		}
	}
	count := func(want int) {
		t.Helper()
		for len(listeners(t, pool)) != want {
			require.NoError(t, ctx.Err(), "%d listeners, want %d", len(listeners(t, pool)), want)
			time.Sleep(time.Millisecond)
		}
	}
	for range 3 {
		watch(func() {
			count(1)
			watch(func() { count(1) }) // two watches share one
			count(1)
		})
		count(0)
	}
}

func damaged(t *testing.T, _ *servertest.Server, pool *pgxpool.Pool) {
	schema := newSchema(t, pool)
	db := open(t, pool, postgres.Config{Schema: schema})
	_, err := dbtest.Put(t.Context(), db, "a", "1")
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `UPDATE "`+schema+`".objects SET record = '\xff'`)
	require.NoError(t, err)
	_, err = db.Get(t.Context(), "app", "a")
	require.ErrorContains(t, err, `postgres: get app "a": the record of version 1: `)
	for _, err := range db.List(t.Context(), "app", backend.Query{}) {
		require.ErrorContains(t, err, "postgres: list app: the record of version 1: ")
	}
	for _, err := range db.Watch(t.Context(), "app", backend.Query{}, 0) {
		require.ErrorContains(t, err, "postgres: watch app: the record of version 1: ")
	}
	_, err = dbtest.Put(t.Context(), db, "a", "2")
	require.ErrorContains(t, err, `postgres: write app "a": the record of version 1: `)
}

func view(t *testing.T, _ *servertest.Server, pool *pgxpool.Pool) {
	schema := newSchema(t, pool)
	s := dbtest.Apps(t, open(t, pool, postgres.Config{Schema: schema}))
	for _, key := range []string{"a", "b"} {
		_, err := s.Create(t.Context(), store.Object[dbtest.App]{Key: key, Value: dbtest.App{Image: "image of " + key}})
		require.NoError(t, err)
	}
	_, err := s.Delete(t.Context(), "a")
	require.NoError(t, err)
	rows, err := pool.Query(t.Context(), `SELECT key || ': ' || (value->>'Image') FROM "`+schema+`".current WHERE kind = 'App'`)
	require.NoError(t, err)
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	assert.Equal(t, []string{"b: image of b"}, got)
}

// Poolers in transaction mode need these modes.
func poolerModes(t *testing.T, server *servertest.Server, pool *pgxpool.Pool) {
	for _, mode := range []string{"exec", "simple_protocol", "describe_exec", "cache_describe"} {
		plain, err := pgxpool.New(t.Context(), "postgres://postgres@"+server.Addr()+"/postgres?sslmode=disable&default_query_exec_mode="+mode)
		require.NoError(t, err)
		db := open(t, plain, postgres.Config{Schema: newSchema(t, pool)})
		_, err = dbtest.Put(t.Context(), db, `it's \a`, "\x00\xff'", backend.Fence{Lease: `it's \a`, Term: 7})
		require.NoError(t, err, mode)
		_, err = dbtest.Put(t.Context(), db, `it's \a`, "", backend.Fence{Lease: `it's \a`, Term: 6})
		require.ErrorIs(t, err, backend.ErrFenced, mode)
		r, err := db.Get(t.Context(), "app", `it's \a`)
		require.NoError(t, err, mode)
		assert.Equal(t, "\x00\xff'", string(r.Value), mode)
		for c, err := range db.Watch(t.Context(), "app", backend.Query{}, 0) {
			require.NoError(t, err, mode)
			assert.Equal(t, r, c.Record, mode)
			break
		}
		for p, err := range db.List(t.Context(), "app", backend.Query{Prefix: "it"}) {
			require.NoError(t, err, mode)
			assert.Equal(t, []backend.Record{r}, p.Records, mode)
		}
		plain.Close()
	}
}

// A planner without statistics expects many rows, and compiles what seems to be expensive: for 20 ms, at every poll of every watch.
func readIsNotCompiled(t *testing.T, _ *servertest.Server, pool *pgxpool.Pool) {
	schema := newSchema(t, pool)
	db := open(t, pool, postgres.Config{Schema: schema})
	_, err := dbtest.Put(t.Context(), db, "a", "1")
	require.NoError(t, err)
	exec(t, pool, fmt.Sprintf(`INSERT INTO "%s".objects SELECT n, kind, 'key ' || n, latest, deleted, record, value
		FROM "%[1]s".objects, generate_series(2, 10000) n`, schema))
	exec(t, pool, fmt.Sprintf(`ANALYZE "%s".objects`, schema))
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		exec(t, tx, `SET LOCAL jit_above_cost = 2000`) // the default is 100000, which larger objects reach
		rows, err := tx.Query(t.Context(), "EXPLAIN (ANALYZE) "+db.ChangesQuery(), "app", int64(5000), 256)
		require.NoError(t, err)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		assert.NotContains(t, strings.Join(plan, "\n"), "JIT")
		return nil
	}))
}

func hostileStrings(t *testing.T, server *servertest.Server, pool *pgxpool.Pool) {
	for _, mode := range []string{"cache_statement", "exec", "simple_protocol"} {
		far, err := pgxpool.New(t.Context(), "postgres://postgres@"+server.Addr()+"/postgres?sslmode=disable&default_query_exec_mode="+mode)
		require.NoError(t, err)
		dbtest.HostileStrings(t, open(t, far, postgres.Config{Schema: newSchema(t, pool)}))
		far.Close()
	}
}
