//go:build linux

package binlog_test

import (
	"database/sql"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/mysql/binlog"
	"github.com/setpoint-go/setpoint/store/mysql/internal/tabletest"
)

var cycles = flag.Int("cycles", 2, "how often each fault happens")

// TestMain makes the test binary a writer or a reader if the environment says so.
func TestMain(m *testing.M) {
	tabletest.WriterMain()
	readerMain()
	flag.Parse()
	dbtest.LimitParallel("4") // each server and each process needs memory
	os.Exit(m.Run())
}

type site = tabletest.Site

// newDatabase creates a database, and returns a pool for it.
var newDatabase = tabletest.NewDatabases()

func newServer(t testing.TB, settings ...string) *servertest.Server {
	t.Helper()
	return servertest.MariaDB(t, append([]string{"innodb-flush-log-at-trx-commit=2", "log-bin=log", "binlog-format=ROW"}, settings...)...)
}

// sitesOn is the config of a table of a server.
func sitesOn(server *servertest.Server) binlog.TableConfig {
	return binlog.TableConfig{Table: "sites", DSN: "root@tcp(" + server.Addr() + ")/"}
}

// newSites creates a table in a database of its own.
func newSites(t testing.TB, server *servertest.Server) *sql.DB {
	t.Helper()
	db := newDatabase(t, server)
	tabletest.Do(t, db, tabletest.CreateSites)
	return db
}

func sitesIn(t testing.TB, db *sql.DB, cfg binlog.TableConfig) *binlog.Table[site] {
	t.Helper()
	table, err := binlog.NewTable(t.Context(), db, tabletest.ScanSite, cfg)
	require.NoError(t, err)
	return table
}

func TestTableKeepsTheSourceContract(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	informertest.Run(t, func(t *testing.T) informertest.Subject[site] {
		db := newSites(t, server)
		table := sitesIn(t, db, sitesOn(server))
		table.SetCheckPeriod(100 * time.Millisecond)
		table.SetPatience(2 * time.Second) // or the server notices the end of a reader late
		s := tabletest.Subject(t, db, table)
		s.Objects = 2*1000 + 100 // three pages
		tabletest.Do(t, db, "CREATE TABLE others (n INT AUTO_INCREMENT PRIMARY KEY)")
		s.Bookmark = func() error {
			_, err := db.Exec("INSERT INTO others VALUES ()")
			return err
		}
		s.Expire = func() error { purge(t, db); return nil }
		s.Restart = func() error {
			time.Sleep(1100 * time.Millisecond) // the server notes the second in which a file has begun
			tabletest.Do(t, db, "DELETE FROM sites")
			tabletest.Do(t, db, "RESET MASTER")
			return nil
		}
		return s
	})
}

// purge removes all files of the binary log but a new one. The server keeps a file that a reader has open.
func purge(t testing.TB, db *sql.DB) {
	t.Helper()
	tabletest.Do(t, db, "FLUSH BINARY LOGS")
	var first, last string
	rows, err := db.Query("SHOW BINARY LOGS")
	require.NoError(t, err)
	for rows.Next() {
		require.NoError(t, rows.Scan(&last, new(int)))
	}
	require.NoError(t, rows.Err())
	require.Eventually(t, func() bool {
		_, err := db.Exec("PURGE BINARY LOGS TO '" + last + "'")
		return err == nil && db.QueryRow("SHOW BINARY LOGS").Scan(&first, new(int)) == nil && first == last
	}, 30*time.Second, 10*time.Millisecond)
}
