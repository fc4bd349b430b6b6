//go:build linux

package mysql_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"testing"

	"github.com/setpoint-go/setpoint/store/mysql/internal/tabletest"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/mysql"
)

var rows = dbtest.Rows()

// BenchmarkTrigger compares writes to a table of the user, each a transaction of one statement, without the triggers that write the log, and
// with them. Each transaction is synced to the disk.
func BenchmarkTrigger(b *testing.B) {
	server := servertest.MariaDBIn(b, os.TempDir(), durable...)
	for _, writers := range []int{1, 16} {
		for _, trigger := range []bool{false, true} {
			b.Run(fmt.Sprintf("writers=%d/trigger=%t", writers, trigger), func(b *testing.B) {
				db := newDatabase(b, server)
				db.SetMaxIdleConns(writers)
				tabletest.Do(b, db, tabletest.CreateSites)
				for w := range writers {
					tabletest.Do(b, db, tabletest.PutSite, fmt.Sprint(w), 0)
				}
				if trigger {
					require.NoError(b, mysql.InstallTable(b.Context(), db, sites))
				}
				dbtest.EachWrite(b, writers, func(ctx context.Context, w, i int) error {
					_, err := db.ExecContext(ctx, "UPDATE sites SET rev = ? WHERE name = ?", i, fmt.Sprint(w))
					return err
				})
			})
		}
	}
}

// BenchmarkBulk compares an update of all rows by one statement without the triggers and with them.
func BenchmarkBulk(b *testing.B) {
	server := newServer(b, "innodb-buffer-pool-size=256M", "innodb-log-file-size=256M")
	for _, trigger := range []bool{false, true} {
		b.Run(fmt.Sprintf("trigger=%t", trigger), func(b *testing.B) {
			db := filled(b, newDatabase(b, server), trigger)
			for i := 0; b.Loop(); i++ {
				tabletest.Do(b, db, "UPDATE sites SET rev = ?", i)
			}
		})
	}
}

// filled creates a table with many rows.
func filled(b *testing.B, db *sql.DB, trigger bool) *sql.DB {
	tabletest.Do(b, db, tabletest.CreateSites)
	tabletest.Do(b, db, fmt.Sprintf("INSERT INTO sites SELECT CONCAT('tenant ', seq), 1 FROM seq_1_to_%d", *rows))
	if trigger {
		require.NoError(b, mysql.InstallTable(b.Context(), db, sites))
	}
	return db
}

// BenchmarkLatency measures the time from a commit to the handler of an informer: of a transaction that calls VersionOf, of one after which Wake
// is called, and of one of another program, which waits for TableConfig.Poll.
func BenchmarkLatency(b *testing.B) {
	server := newServer(b)
	for _, how := range []string{"version", "wake", "poll"} {
		b.Run(how, func(b *testing.B) {
			cfg := sites
			cfg.Poll = 0 // the default
			db := newSites(b, server, cfg)
			tabletest.Do(b, db, tabletest.PutSite, "a", 0)
			table := sitesIn(b, db, cfg)
			dbtest.HandlerLatency(b, table, tabletest.SiteName, func(i int) error {
				err := tabletest.InTx(b.Context(), db, func(tx *sql.Tx) error {
					_, err := tx.ExecContext(b.Context(), "UPDATE sites SET rev = ?", i+1)
					if err == nil && how == "version" {
						_, err = table.VersionOf(b.Context(), tx)
					}
					return err
				})

				if how == "wake" {
					table.Wake()
				}
				return err
			})
		})
	}
}

// BenchmarkList compares a list with a reader of rows.
func BenchmarkList(b *testing.B) {
	db := filled(b, newDatabase(b, newServer(b, "innodb-buffer-pool-size=256M")), true)
	b.Run("bare", func(b *testing.B) {
		dbtest.EachRead(b, *rows, func() (int, error) { return bareRows(b, db, "SELECT name, rev FROM sites") })
	})
	b.Run("setpoint", func(b *testing.B) { dbtest.List(b, sitesIn(b, db, sites), *rows) })
}

// bareRows reads the rows of a query.
func bareRows(b *testing.B, db *sql.DB, query string) (n int, err error) {
	rows, err := db.QueryContext(b.Context(), query)
	if err != nil {
		return 0, err
	}
	var all []site
	for rows.Next() {
		s, err := tabletest.ScanSite(rows)
		if err != nil {
			return 0, err
		}
		all = append(all, s)
	}
	return len(all), rows.Err()
}

// BenchmarkDrain compares a watch that resumes before as many changes as there are rows with one statement that joins the log with the table.
func BenchmarkDrain(b *testing.B) {
	db := filled(b, newDatabase(b, newServer(b, "innodb-buffer-pool-size=256M", "innodb-log-file-size=256M")), true)
	table := sitesIn(b, db, sites)
	l, err := table.List(b.Context())
	require.NoError(b, err)
	tabletest.Do(b, db, "UPDATE sites SET rev = 2")
	b.Run("bare", func(b *testing.B) {
		dbtest.EachRead(b, *rows, func() (int, error) {
			return bareRows(b, db, fmt.Sprintf("SELECT t.name, t.rev FROM setpoint_sites l JOIN sites t ON t.name = l.name WHERE l.setpoint_n > %d ORDER BY l.setpoint_n", l.Version>>20))
		})
	})
	b.Run("setpoint", func(b *testing.B) { dbtest.Drain(b, table, l.Version, *rows) })
}
