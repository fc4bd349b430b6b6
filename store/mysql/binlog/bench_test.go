//go:build linux

package binlog_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/setpoint-go/setpoint/store/mysql/internal/tabletest"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/store/mysql"
	"github.com/setpoint-go/setpoint/store/mysql/binlog"
)

var rows = dbtest.Rows()

// ways are the ways to follow a table.
var ways = []string{"none", "binlog", "triggers"}

// sourceOf returns a source of the table sites, or nothing.
func sourceOf(b *testing.B, way string, db *sql.DB, cfg binlog.TableConfig) informer.ListWatcher[site] {
	switch way {
	case "binlog":
		return sitesIn(b, db, cfg)
	case "triggers":
		cfg := mysql.TableConfig{Table: "sites"}
		require.NoError(b, mysql.InstallTable(b.Context(), db, cfg))
		table, err := mysql.NewTable(b.Context(), db, tabletest.ScanSite, cfg)
		require.NoError(b, err)
		return table
	}
	return nil
}

// BenchmarkWrite compares writes to a table of the user, each a transaction of one statement, that nobody follows, and that an informer follows in
// each way. The server has a binary log. The data are in memory, so no write waits for a disk, which would make the difference smaller.
func BenchmarkWrite(b *testing.B) {
	server := newServer(b, "log-bin-trust-function-creators")
	for _, writers := range []int{1, 16} {
		for _, way := range ways {
			b.Run(fmt.Sprintf("writers=%d/way=%s", writers, way), func(b *testing.B) {
				db := newSites(b, server)
				db.SetMaxIdleConns(writers)
				for w := range writers {
					tabletest.Do(b, db, tabletest.PutSite, fmt.Sprint(w), 0)
				}
				if source := sourceOf(b, way, db, sitesOn(server)); source != nil {
					tabletest.Follow(b, source, tabletest.SiteName)
				}
				dbtest.EachWrite(b, writers, func(ctx context.Context, w, i int) error {
					_, err := db.ExecContext(ctx, "UPDATE sites SET rev = ? WHERE name = ?", i, fmt.Sprint(w))
					return err
				})
			})
		}
	}
}

// BenchmarkLatency measures the time from a commit of another program to the handler of an informer.
func BenchmarkLatency(b *testing.B) {
	server := newServer(b, "log-bin-trust-function-creators")
	for _, way := range ways[1:] {
		b.Run("way="+way, func(b *testing.B) {
			db := newSites(b, server)
			tabletest.Do(b, db, tabletest.PutSite, "a", 0)
			dbtest.HandlerLatency(b, sourceOf(b, way, db, sitesOn(server)), tabletest.SiteName, func(i int) error {
				_, err := db.ExecContext(b.Context(), "UPDATE sites SET rev = ?", i+1)
				return err
			})
		})
	}
}

// BenchmarkDrain compares watches that resume before as many changes as there are rows.
func BenchmarkDrain(b *testing.B) {
	server := newServer(b, "log-bin-trust-function-creators", "innodb-buffer-pool-size=256M", "innodb-log-file-size=256M")
	for _, way := range ways[1:] {
		b.Run("way="+way, func(b *testing.B) {
			db := newSites(b, server)
			tabletest.Do(b, db, fmt.Sprintf("INSERT INTO sites SELECT CONCAT('tenant ', seq), 1 FROM seq_1_to_%d", *rows))
			source := sourceOf(b, way, db, sitesOn(server))
			l, err := source.List(b.Context())
			require.NoError(b, err)
			tabletest.Do(b, db, "UPDATE sites SET rev = 2")
			dbtest.Drain(b, source, l.Version, *rows)
		})
	}
}
