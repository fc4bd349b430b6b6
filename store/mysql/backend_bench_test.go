//go:build linux

package mysql_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/setpoint-go/setpoint/store/mysql/internal/tabletest"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/mysql"
)

// durable are the settings of a server whose commits are on the disk, and one flush each.
var durable = []string{"innodb-flush-log-at-trx-commit=1", "innodb-buffer-pool-size=256M", "innodb-log-file-size=256M"}

// BenchmarkWrite compares updates of objects by one writer and by sixteen with what the driver takes to read a row, compare its version, and write
// it in a transaction. Each transaction is flushed.
func BenchmarkWrite(b *testing.B) {
	server := servertest.MariaDBIn(b, os.TempDir(), durable...)
	for _, writers := range []int{1, 16} {
		b.Run(fmt.Sprintf("writers=%d/bare", writers), func(b *testing.B) {
			db := newDatabase(b, server)
			db.SetMaxIdleConns(writers)
			tabletest.Do(b, db, "CREATE TABLE bare (name VARBINARY(100) PRIMARY KEY, version BIGINT NOT NULL, value LONGBLOB NOT NULL)")
			for w := range writers {
				tabletest.Do(b, db, "INSERT INTO bare VALUES (?, 1, '{}')", fmt.Sprint(w))
			}
			dbtest.EachWrite(b, writers, func(ctx context.Context, w, i int) error {
				return tabletest.InTx(ctx, db, func(tx *sql.Tx) error {
					var version int
					name := fmt.Sprint(w)
					if err := tx.QueryRowContext(ctx, "SELECT version FROM bare WHERE name = ? FOR UPDATE", name).Scan(&version); err != nil {
						return err
					}
					_, err := tx.ExecContext(ctx, "UPDATE bare SET version = ?, value = ? WHERE name = ?",
						version+1, fmt.Sprintf(`{"Image":"%s%d"}`, dbtest.Image, i), name)
					return err
				})

			})
		})
		b.Run(fmt.Sprintf("writers=%d/setpoint", writers), func(b *testing.B) {
			one, _ := migrated(b, server)
			one.SetMaxIdleConns(2 * writers)
			dbtest.UpdateApps(b, open(b, one, mysql.Config{}), writers)
		})
	}
}

// BenchmarkCreate measures creations of objects by one writer and by sixteen.
func BenchmarkCreate(b *testing.B) {
	server := servertest.MariaDBIn(b, os.TempDir(), durable...)
	for _, writers := range []int{1, 16} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			one, _ := migrated(b, server)
			one.SetMaxIdleConns(2 * writers)
			s := dbtest.Apps(b, open(b, one, mysql.Config{}))
			dbtest.EachWrite(b, writers, func(ctx context.Context, _, i int) error {
				_, err := s.Create(ctx, store.Object[dbtest.App]{Key: fmt.Sprint("key ", i), Value: dbtest.App{Image: dbtest.Image}})
				return err
			})
		})
	}
}

// BenchmarkAppLatency measures the time from a commit to the handler of an informer, through the Backend that has written, and through another.
func BenchmarkAppLatency(b *testing.B) {
	server := servertest.MariaDBIn(b, os.TempDir(), durable...)
	for _, through := range []string{"same", "other"} {
		b.Run(through, func(b *testing.B) {
			one, two := migrated(b, server)
			writer := open(b, one, mysql.Config{})
			reader := writer
			if through == "other" {
				reader = open(b, two, mysql.Config{})
			}
			dbtest.AppLatency(b, reader, writer)
		})
	}
}

// BenchmarkApps compares a get, a list, and a watch of many changes with what the driver takes to read as many rows.
func BenchmarkApps(b *testing.B) {
	one, _ := migrated(b, servertest.MariaDBIn(b, os.TempDir(), durable...))
	db := open(b, one, mysql.Config{History: 10 * *rows})
	s := dbtest.Apps(b, db)
	o, err := s.Create(b.Context(), store.Object[dbtest.App]{Key: "key", Value: dbtest.App{Image: dbtest.Image}})
	require.NoError(b, err)
	l, err := s.List(b.Context())
	require.NoError(b, err)
	copies(b, one, *rows)
	const value = "SELECT `key`, record, value FROM setpoint_objects WHERE kind = 'App'"
	bare := func(query string) (n int, err error) {
		rows, err := one.QueryContext(b.Context(), query)
		if err != nil {
			return 0, err
		}
		var all []store.Object[dbtest.App]
		for rows.Next() {
			var key string
			var record, value []byte
			if err := rows.Scan(&key, &record, &value); err != nil {
				return n, err
			}
			all = append(all, store.Object[dbtest.App]{Key: key})
			if err := json.Unmarshal(value, &all[n].Value); err != nil {
				return n, err
			}
			n++
		}
		return n, rows.Err()
	}
	b.Run("get/bare", func(b *testing.B) {
		dbtest.EachRead(b, 1, func() (int, error) { return bare(value + " AND `key` = 'key'") })
	})
	b.Run("get/setpoint", func(b *testing.B) {
		dbtest.EachRead(b, 1, func() (int, error) {
			_, err := s.Get(b.Context(), o.Key)
			return 1, err
		})
	})
	b.Run("list/bare", func(b *testing.B) {
		dbtest.EachRead(b, *rows, func() (int, error) { return bare(value + " ORDER BY `key`") })
	})
	b.Run("list/setpoint", func(b *testing.B) { dbtest.List(b, s, *rows) })
	b.Run("drain/bare", func(b *testing.B) {
		dbtest.EachRead(b, *rows-1, func() (int, error) {
			return bare(fmt.Sprintf("SELECT `key`, record, value FROM setpoint_changes WHERE kind = 'App' AND version > %d ORDER BY version", l.Version))
		})
	})
	b.Run("drain/setpoint", func(b *testing.B) { dbtest.Drain(b, s, l.Version, *rows-1) })
}

// copies makes copies of the only object in the tables, by SQL, which is fast, until there are n objects.
func copies(t testing.TB, db *sql.DB, n int) {
	t.Helper()
	const version = "version + (seq - 1) * 1024"
	tabletest.Do(t, db, fmt.Sprintf("INSERT INTO setpoint_changes SELECT kind, CONCAT('key ', seq), "+version+", deleted, record, value, seq "+
		"FROM setpoint_objects, seq_2_to_%d", n))

	tabletest.Do(t, db, fmt.Sprintf("INSERT INTO setpoint_objects SELECT kind, CONCAT('key ', seq), "+version+", deleted, record, value "+
		"FROM setpoint_objects, seq_2_to_%d", n))

	tabletest.Do(t, db, "UPDATE setpoint_state SET version = (SELECT MAX(version) FROM setpoint_changes), n = (SELECT MAX(n) FROM setpoint_changes)")
}
