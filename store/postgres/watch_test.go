//go:build linux

package postgres_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/postgres"
)

// A watch that reads few changes finds those that were written, wherever it is: in the history of several kinds, where it is trimmed, and
// around gaps. Or it finds that it does not know them.
func TestFewChangesAreThoseThatWereWritten(t *testing.T) {
	t.Parallel()
	pool := connect(t, servertest.Postgres(t, "fsync=off").Addr())
	schema := newSchema(t, pool)
	db := open(t, pool, postgres.Config{Schema: schema, History: 60})
	random := rand.New(rand.NewPCG(1, 1))
	written := map[string][]backend.Change{} // of each kind
	var versions []informer.Version
	known := map[int]int{} // how often changes were known, by their number
	for round := range 12 {
		for i := range 1 + random.IntN(30) {
			kind := fmt.Sprint("kind ", random.IntN(3))
			r, err := db.Transact(t.Context(), kind, fmt.Sprint(random.IntN(40)), nil, func(backend.Record) (*backend.Record, error) {
				return &backend.Record{Meta: []byte("{}"), Value: fmt.Append(nil, i), Deleted: random.IntN(4) == 0}, nil
			})
			require.NoError(t, err)
			written[kind] = append(written[kind], backend.Change{Record: r, Version: r.Version})
			versions = append(versions, r.Version)
		}
		switch round % 4 {
		case 1: // a crash, before the next write
			exec(t, pool, fmt.Sprintf(`DELETE FROM "%s".incarnation`, schema))
		case 3: // a crash that a watch at a lost version has noticed
			exec(t, pool, fmt.Sprintf(`WITH gap AS (INSERT INTO "%s".gaps SELECT version, version + 1000 FROM "%[1]s".state RETURNING before)
				UPDATE "%[1]s".state SET version = before FROM gap`, schema))
		}
		ask := map[informer.Version]bool{0: true}
		for _, v := range versions {
			ask[v-1], ask[v], ask[v+1], ask[v+2] = true, true, true, true
		}
		for v := range ask {
			for _, kind := range []string{"kind 0", "kind 1", "kind without records"} {
				got, upTo, ok, err := db.Few(t.Context(), kind, v)
				require.NoError(t, err)
				if !ok {
					continue
				}
				i, _ := slices.BinarySearchFunc(written[kind], v+1, func(c backend.Change, v informer.Version) int { return cmp.Compare(c.Version, v) })
				require.Equal(t, slices.Concat(written[kind][i:]), slices.Concat(got), "after version %d", v)
				require.Equal(t, versions[len(versions)-1], upTo)
				known[len(got)]++
			}
		}
	}
	for n := range 4 {
		assert.Greater(t, known[n], 10, "%v", known)
	}
}

// A gap in the versions without a write, which a watch at a lost version leaves, is a change of no record. The other watches pass it.
func TestIdleWatchPassesGap(t *testing.T) {
	t.Parallel()
	pool := connect(t, servertest.Postgres(t, "fsync=off").Addr())
	schema := newSchema(t, pool)
	db := open(t, pool, postgres.Config{Schema: schema, Poll: 10 * time.Millisecond})
	r, err := dbtest.Put(t.Context(), db, "a", "1")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	left := false
	for c, err := range db.Watch(ctx, "app", backend.Query{}, 0) {
		require.NoError(t, err)
		if !left {
			require.Equal(t, r, c.Record)
			exec(t, pool, fmt.Sprintf(`DELETE FROM "%s".incarnation`, schema))
			for _, err := range open(t, pool, postgres.Config{Schema: schema}).Watch(ctx, "app", backend.Query{}, r.Version+1) {
				require.ErrorIs(t, err, backend.ErrExpired)
			}
			left = true
		}
		if c.Version > r.Version+1<<40 {
			break
		}
	}
}

// A session keeps the plans by which watches read a few changes. Planning takes longer than reading.
func TestReadOfFewChangesIsNotPlannedAgain(t *testing.T) {
	t.Parallel()
	pool := connect(t, servertest.Postgres(t, "fsync=off").Addr())
	schema := newSchema(t, pool)
	db := open(t, pool, postgres.Config{Schema: schema})
	_, err := dbtest.Put(t.Context(), db, "a", "1")
	require.NoError(t, err)
	exec(t, pool, fmt.Sprintf(`INSERT INTO "%s".objects SELECT n, kind, 'key ' || n, latest, deleted, record, value
		FROM "%[1]s".objects, generate_series(2, 10000) n; ANALYZE "%[1]s".objects`, schema))
	cfg := seeded(t, pool, 10_000)
	exec(t, pool, `ANALYZE `+sqlName(cfg)+`; ANALYZE `+cfg.Log())
	var last uint64
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT setpoint_xid FROM `+cfg.Log()+` ORDER BY 1 DESC LIMIT 1`).Scan(&last))
	prepare, page := sitesIn(t, pool, cfg).PageQueries()
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		exec(t, tx, prepare)
		for range 10 {
			exec(t, tx, page, fmt.Sprint(last), int64(math.MaxInt64))
			exec(t, tx, db.FewQuery(), "app", int64(10_000))
		}
		for _, query := range []string{page, db.FewQuery()} {
			var plans int
			require.NoError(t, tx.QueryRow(t.Context(), `SELECT custom_plans FROM pg_prepared_statements WHERE statement = $1`, query).Scan(&plans))
			assert.LessOrEqual(t, plans, 5, "the server tries five plans first: %s", query)
		}
		return nil
	}))
}

// A watch takes its connection for notifications out of the pool. So it leaves the pool as large as it was, even if that is one connection.
func TestWatchLeavesPoolFree(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=off")
	near := connect(t, server.Addr())
	small, err := pgxpool.New(t.Context(), "postgres://postgres@"+server.Addr()+"/postgres?sslmode=disable&pool_max_conns=1")
	require.NoError(t, err)
	t.Cleanup(small.Close)
	db := open(t, small, postgres.Config{Schema: newSchema(t, near), Poll: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	write := func(value string) {
		_, err := dbtest.Put(ctx, db, "a", value)
		require.NoError(t, err)
	}
	write("first")
	for c, err := range db.Watch(ctx, "app", backend.Query{}, 0) {
		require.NoError(t, err)
		if value := string(c.Record.Value); value == "first" {
			write("second")
		} else if value == "second" {
			break
		}
	}
}

// The runbook for refused writes reads the terms with this query.
func TestFencesTableHasGreatestTerms(t *testing.T) {
	t.Parallel()
	pool := connect(t, servertest.Postgres(t, "fsync=off").Addr())
	require.NoError(t, postgres.Migrate(t.Context(), pool, postgres.Config{}))
	_, err := dbtest.Put(t.Context(), open(t, pool, postgres.Config{}), "a", "1", backend.Fence{Lease: "shop", Term: 57})
	require.NoError(t, err)
	page, err := os.ReadFile("../../docs/operating.md")
	require.NoError(t, err)
	query := regexp.MustCompile("`(SELECT lease, term [^`]+)`").FindSubmatch(page)
	require.NotNil(t, query)
	var lease string
	var term int
	require.NoError(t, pool.QueryRow(t.Context(), string(query[1])).Scan(&lease, &term))
	assert.Equal(t, "shop 57", fmt.Sprint(lease, " ", term))
}
