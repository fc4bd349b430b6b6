//go:build linux

package binlog_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/mysql"
	"github.com/setpoint-go/setpoint/store/mysql/binlog"
	"github.com/setpoint-go/setpoint/store/mysql/internal/tabletest"
)

// newTable creates a table of a kind in a database of its own.
func newTable(t testing.TB, server *servertest.Server, k tabletest.Kind) (database string, db *sql.DB, table *binlog.Table[tabletest.Entry]) {
	t.Helper()
	db = newDatabase(t, server)
	k.CreateIn(t, db)
	cfg := sitesOn(server)
	cfg.Table, cfg.Key, cfg.Columns = "T", k.Named, k.Columns()
	table, err := binlog.NewTable(t.Context(), db, func(row mysql.Row) (tabletest.Entry, error) { return k.Scan(row) }, cfg)
	require.NoError(t, err)
	require.NoError(t, db.QueryRow("SELECT DATABASE()").Scan(&database))
	return database, db, table
}

func noDelay() string { return "" }

// written is the number of bytes of the binary log.
func written(t testing.TB, table *binlog.Table[tabletest.Entry]) (n uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		v, err := table.LatestVersion(ctx)
		if err == nil {
			return uint64(v)
		}
		require.NoError(t, ctx.Err(), err)
	}
}

// advance waits until each of the writers may have written a number of transactions.
func advance(t testing.TB, db *sql.DB, table *binlog.Table[tabletest.Entry]) {
	t.Helper()
	goal, looks := written(t, table)+(50_000<<12), 0
	require.Eventually(t, func() bool {
		if looks++; looks%100 == 0 {
			tabletest.EndPrepared(t, db) // of a writer that was killed, whose locks stop the others
		}
		return written(t, table) >= goal
	}, time.Minute, 5*time.Millisecond)
}

// Writers of several processes, which are killed and restarted, write each kind of table at random. The caches equal the table in the end, no
// row goes back, and no deletion is invented.
func TestCachesMatchTablesDespiteRandomWriters(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	for name, k := range tabletest.Kinds() {
		t.Run(name, func(t *testing.T) {
			database, db, table := newTable(t, server, k)
			mirrors := []*tabletest.Mirror{tabletest.NewMirror(t, table)}
			begun := written(t, table)
			for range *cycles {
				p := tabletest.StartWriters(t, 3, server.Addr(), database, name, uint64(len(mirrors)), "ROW")
				for range 2 {
					advance(t, db, table)
					p.Kill()
				}
				if len(mirrors) < 3 {
					mirrors = append(mirrors, tabletest.NewMirror(t, table))
				}
				advance(t, db, table)
				p.Stop()
				tabletest.EndPrepared(t, db)
				for _, m := range mirrors {
					require.NoError(t, m.Compare(t.Context(), k, db, table, 20*time.Second, noDelay))
				}
			}
			lists, ends := mirrors[0].Lists()
			t.Logf("%d kills, %d kB of the binary log, %d lists of the first of %d caches, %v", 2**cycles, (written(t, table)-begun)>>22, lists, len(mirrors), ends)
		})
	}
}
