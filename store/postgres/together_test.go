//go:build linux

package postgres_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/postgres"
)

// writeTogether makes writes by several writers, each to its own key, and checks that each has a version of its own.
func writeTogether(t *testing.T, db *postgres.Backend, writers, writes int) {
	t.Helper()
	written := make([][]backend.Record, writers)
	var g sync.WaitGroup
	for w := range writers {
		g.Go(func() {
			for range writes {
				r, err := dbtest.Put(t.Context(), db, fmt.Sprint(w), "{}")
				assert.NoError(t, err)
				written[w] = append(written[w], r)
			}
		})
	}
	g.Wait()
	seen := make(map[informer.Version]bool)
	for w := range writers {
		for _, r := range written[w] {
			assert.False(t, seen[r.Version])
			seen[r.Version] = true
		}
		r, err := db.Get(t.Context(), "app", fmt.Sprint(w))
		require.NoError(t, err)
		assert.Equal(t, written[w][writes-1].Version, r.Version)
	}
	assert.Len(t, seen, writers*writes)
}

func TestWritersThatComeTogetherShareTransactions(t *testing.T) {
	t.Parallel()
	const writers, writes = 16, 25
	pool := connect(t, servertest.Postgres(t, "fsync=off").Addr())
	cfg := postgres.Config{Schema: newSchema(t, pool)}
	db := open(t, pool, cfg)
	writeTogether(t, db, writers, writes)
	// The row of a write that was not the last of its key is of the transaction that has superseded it.
	var transactions int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(DISTINCT xmin::text) FROM `+
		pgx.Identifier{cfg.Schema, "objects"}.Sanitize()+` WHERE NOT latest`).Scan(&transactions))
	assert.Less(t, transactions, writers*(writes-1))
}

func TestAWriteThatTheServerRefusesFailsAlone(t *testing.T) {
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
	writeTogether(t, db, 8, 25)
	g.Wait()
}
