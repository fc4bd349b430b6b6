//go:build linux

package postgres_test

import (
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/postgres"
)

func TestConcurrentWritersShareTransactions(t *testing.T) {
	t.Parallel()
	const writers, writes = 16, 25
	pool := connect(t, servertest.Postgres(t, "fsync=off").Addr())
	cfg := postgres.Config{Schema: newSchema(t, pool)}
	db := open(t, pool, cfg)
	dbtest.WriteTogether(t, db, writers, writes)
	// The row of a write that was not the last of its key is of the transaction that has superseded it.
	var transactions int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(DISTINCT xmin::text) FROM `+
		pgx.Identifier{cfg.Schema, "objects"}.Sanitize()+` WHERE NOT latest`).Scan(&transactions))
	assert.Less(t, transactions, writers*(writes-1))
}

func TestRejectedWriteFailsAlone(t *testing.T) {
	t.Parallel()
	pool := connect(t, servertest.Postgres(t, "fsync=off").Addr())
	cfg := postgres.Config{Schema: newSchema(t, pool)}
	exec(t, pool, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$;
		CREATE TRIGGER bad BEFORE INSERT ON `+pgx.Identifier{cfg.Schema, "objects"}.Sanitize()+`
		FOR EACH ROW WHEN (NEW.key = 'bad') EXECUTE FUNCTION refuse()`)
	db := open(t, pool, cfg)
	var g sync.WaitGroup
	g.Go(func() {
		for range 50 {
			_, err := dbtest.Put(t.Context(), db, "bad", "{}")
			assert.ErrorContains(t, err, "refused")
		}
	})
	dbtest.WriteTogether(t, db, 8, 25)
	g.Wait()
}
