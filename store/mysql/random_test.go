//go:build linux

package mysql_test

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/mysql"
	"github.com/setpoint-go/setpoint/store/mysql/internal/tabletest"
)

var cycles = flag.Int("cycles", 2, "how often each fault happens")

// TestMain makes the test binary a writer process if the environment says so.
func TestMain(m *testing.M) {
	tabletest.WriterMain()
	dbtest.WriterMain(openStore)
	flag.Parse()
	dbtest.LimitParallel("4") // each server and each process needs memory
	os.Exit(m.Run())
}

// newTable creates a table of a kind, and its log, in a database of its own.
func newTable(t testing.TB, server *servertest.Server, k tabletest.Kind) (database string, db *sql.DB, table *mysql.Table[tabletest.Entry]) {
	t.Helper()
	db = newDatabase(t, server)
	k.CreateIn(t, db)
	cfg := mysql.TableConfig{Table: "T", Key: k.Named, Columns: k.Columns(), Poll: 2 * time.Millisecond}
	require.NoError(t, mysql.InstallTable(t.Context(), db, cfg))
	table, err := mysql.NewTable(t.Context(), db, func(row mysql.Row) (tabletest.Entry, error) { return k.Scan(row) }, cfg)
	require.NoError(t, err)
	require.NoError(t, db.QueryRow("SELECT DATABASE()").Scan(&database))
	return database, db, table
}

// delayOf returns a function that says what delays a table.
func delayOf(t testing.TB, table *mysql.Table[tabletest.Entry]) func() string {
	return func() string {
		delay, err := table.Delay(context.WithoutCancel(t.Context()))
		return fmt.Sprintf("delay %+v %v", delay, err)
	}
}

// advance waits until the log has so many more numbers.
func advance(t testing.TB, db *sql.DB, by int) {
	t.Helper()
	last := func() (n int) {
		require.NoError(t, db.QueryRow(`SELECT MAX(setpoint_n) FROM setpoint_T`).Scan(&n))
		return n
	}
	goal, looks := last()+by, 0
	require.Eventually(t, func() bool {
		if looks++; looks%100 == 0 {
			tabletest.EndPrepared(t, db) // of a writer that was killed, whose locks stop the others
		}
		return last() >= goal
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
			for range *cycles {
				p := tabletest.StartWriters(t, 3, server.Addr(), database, name, uint64(len(mirrors)), "ROW", "ROW", "MIXED")
				for range 2 {
					advance(t, db, 100)
					p.Kill()
				}
				if len(mirrors) < 3 {
					mirrors = append(mirrors, tabletest.NewMirror(t, table))
				}
				advance(t, db, 100)
				p.Stop()
				tabletest.EndPrepared(t, db)
				for _, m := range mirrors {
					require.NoError(t, m.Compare(t.Context(), k, db, table, 20*time.Second, delayOf(t, table)))
				}
			}
			var n int
			require.NoError(t, db.QueryRow("SELECT COUNT(*) FROM setpoint_T").Scan(&n))
			lists, ends := mirrors[0].Lists()
			t.Logf("%d kills, %d changes, %d lists of the first of %d caches, %v", 2**cycles, n, lists, len(mirrors), ends)
		})
	}
}
