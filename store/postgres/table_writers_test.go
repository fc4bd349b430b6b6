//go:build linux

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/postgres"
)

// overlappingTransaction makes a few random changes to a few rows, and commits or rolls back after a while.
func overlappingTransaction(ctx context.Context, pool *pgxpool.Pool, table string, random *rand.Rand) error {
	rollback := errors.New("roll back")
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		for range 1 + random.IntN(4) {
			name, other, rev := fmt.Sprint(random.IntN(5)), fmt.Sprint(random.IntN(5)), random.IntN(1000)
			var err error
			switch random.IntN(7) {
			case 0, 1:
				_, err = tx.Exec(ctx, `INSERT INTO `+table+` VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET rev = excluded.rev`, name, rev)
			case 2:
				_, err = tx.Exec(ctx, `UPDATE `+table+` SET rev = $2 WHERE name = $1`, name, rev)
			case 3:
				_, err = tx.Exec(ctx, `DELETE FROM `+table+` WHERE name = $1`, name)
			case 4:
				_, err = tx.Exec(ctx, `UPDATE `+table+` SET name = $2 WHERE name = $1 AND NOT EXISTS (SELECT FROM `+table+` WHERE name = $2)`, name, other)
			case 5:
				_, err = tx.Exec(ctx, `SELECT pg_current_xact_id()`) // it has a number long before it writes
				time.Sleep(time.Duration(random.IntN(int(2 * time.Millisecond))))
			case 6: // a savepoint has a number of its own
				err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
					_, err := tx.Exec(ctx, `UPDATE `+table+` SET rev = $2 WHERE name = $1`, name, rev)
					return err
				})
			}
			if err != nil {
				return err
			}
		}
		if random.IntN(5) == 0 {
			return rollback
		}
		return nil
	})
	var refused *pgconn.PgError
	if errors.Is(err, rollback) || errors.As(err, &refused) && (refused.Code == "40P01" || refused.Code == "23505") { // deadlock, duplicate key
		return nil
	}
	return err
}

// Eight writers change five rows in overlapping transactions. Informers that list at any time converge to the table.
func TestTableCachesMatchTableDespiteOverlaps(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=off", "deadlock_timeout=10ms")
	pool := connect(t, server.Addr())
	const tables, writers, transactions = 4, 8, 20
	for i := range tables {
		cfg := newTable(t, pool)
		caches := []*informer.Informer[string, site]{follow(t, sitesIn(t, pool, cfg))}
		errs := make(chan error)
		for w := range writers {
			go func() { // the test waits for its error
				random := rand.New(rand.NewPCG(uint64(i), uint64(w)))
				for range transactions * (*cycles) {
					if err := overlappingTransaction(t.Context(), pool, sqlName(cfg), random); err != nil {
						errs <- err
						return
					}
				}
				errs <- nil
			}()
		}
		for w := range writers {
			require.NoError(t, <-errs)
			if w%3 == 0 {
				caches = append(caches, follow(t, sitesIn(t, pool, cfg)))
			}
		}
		for _, inf := range caches {
			agree(t, pool, cfg, inf)
		}
		// A replay of all events from the beginning has the same result.
		replayed := replay(t, sitesIn(t, pool, cfg), caches[0].Version())
		assert.Len(t, replayed, caches[0].Indexer().Len())
		for name, s := range replayed {
			got, _ := caches[0].Get(name)
			assert.Equal(t, s, got)
		}
		if t.Failed() {
			return
		}
	}
}

// replay applies the events of a table from its installation up to a version.
func replay(t *testing.T, table *postgres.Table[site], upTo informer.Version) map[string]site {
	t.Helper()
	rows := map[string]site{}
	from, err := table.Installed(t.Context())
	require.NoError(t, err)
	applyEvents(t, table, rows, from, upTo)
	return rows
}
