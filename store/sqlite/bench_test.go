package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/sqlite"
)

// bare is the floor: a table of keys and values in a file with the same settings, used through the driver alone.
func bare(b *testing.B) *sql.DB {
	db, err := sql.Open("sqlite", filepath.Join(b.TempDir(), "bare.db")+
		"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)")
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	_, err = db.Exec("CREATE TABLE objects (key TEXT PRIMARY KEY, version INTEGER NOT NULL, value BLOB NOT NULL) STRICT")
	require.NoError(b, err)
	return db
}

// BenchmarkWrite compares updates, each with one fsync, by one writer and by sixteen.
func BenchmarkWrite(b *testing.B) {
	for _, writers := range []int{1, 16} {
		b.Run(fmt.Sprintf("writers=%d/bare", writers), func(b *testing.B) {
			db := bare(b)
			db.SetMaxOpenConns(1)
			dbtest.EachWrite(b, writers, func(_ context.Context, w, i int) error {
				tx, err := db.Begin()
				if err != nil {
					return err
				}
				defer func() { _ = tx.Rollback() }()
				key := fmt.Sprint(w)
				var version int
				if err := tx.QueryRow("SELECT version FROM objects WHERE key = ?", key).Scan(&version); err != nil && err != sql.ErrNoRows {
					return err
				}
				_, err = tx.Exec("INSERT INTO objects VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET version = excluded.version, value = excluded.value",
					key, version+1, fmt.Appendf(nil, `{"Image":"%s%d"}`, dbtest.Image, i))
				if err != nil {
					return err
				}
				return tx.Commit()
			})
		})
		b.Run(fmt.Sprintf("writers=%d/setpoint", writers), func(b *testing.B) {
			dbtest.UpdateApps(b, open(b, filepath.Join(b.TempDir(), "x.db"), sqlite.Config{}), writers)
		})
	}
}

// BenchmarkWatched measures updates by one writer while sixteen watches of the same handle tell each of them.
func BenchmarkWatched(b *testing.B) {
	db := open(b, filepath.Join(b.TempDir(), "x.db"), sqlite.Config{})
	ctx, stop := context.WithCancel(b.Context())
	var g sync.WaitGroup
	defer g.Wait()
	defer stop()
	for range 16 {
		g.Go(func() { // ends with stop
			for range db.Watch(ctx, "app", backend.Query{}, 0) {
			}
		})
	}
	dbtest.UpdateApps(b, db, 1)
	b.ReportMetric(float64(db.Reader().Stats().MaxIdleClosed)/float64(b.N), "closed/op")
}

// BenchmarkLatency compares the time from a commit to the handler of an informer with that to a reader that looks every 20 ms, as a watch
// does. The writer has the handle of the reader, or another one, as in another process.
func BenchmarkLatency(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		db, seen := bare(b), make(chan time.Time, 1)
		exec := func(query string, args ...any) error {
			_, err := db.Exec(query, args...)
			return err
		}
		require.NoError(b, exec("INSERT INTO objects VALUES ('a', 0, x'')"))
		ctx, stop := context.WithCancel(b.Context())
		var reading sync.WaitGroup
		reading.Go(func() { // ends with stop
			look := time.NewTicker(20 * time.Millisecond)
			defer look.Stop()
			for at := 0; ; {
				select {
				case <-look.C:
				case <-ctx.Done():
					return
				}
				var value []byte
				switch err := db.QueryRow("SELECT version, value FROM objects WHERE version > ?", at).Scan(&at, &value); err {
				case nil:
					seen <- time.Now()
				case sql.ErrNoRows:
				default:
					b.Error(err)
				}
			}
		})
		dbtest.Latency(b, seen, func(i int) error {
			return exec("UPDATE objects SET version = ?, value = ? WHERE key = 'a'", i+1, fmt.Appendf(nil, `{"Image":"%d"}`, i))
		})
		stop()
		reading.Wait()
	})
	for _, handles := range []int{1, 2} {
		b.Run(fmt.Sprintf("handles=%d/setpoint", handles), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "x.db")
			reader := open(b, path, sqlite.Config{})
			writer := reader
			if handles == 2 {
				writer = open(b, path, sqlite.Config{})
			}
			dbtest.AppLatency(b, reader, writer)
		})
	}
}

var rowCount = dbtest.Rows()

// BenchmarkList compares a list of objects, decoded, with the same number of rows that the driver reads and encoding/json decodes.
func BenchmarkList(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		db := bare(b)
		fillBare(b, db, *rowCount)
		dbtest.EachRead(b, *rowCount, func() (int, error) { return len(readBare(b, db, 0)), nil })
	})
	b.Run("setpoint", func(b *testing.B) {
		db := open(b, filepath.Join(b.TempDir(), "x.db"), sqlite.Config{})
		fill(b, db, *rowCount)
		dbtest.List(b, dbtest.Apps(b, db), *rowCount)
	})
}

// BenchmarkDrain compares a watch that comes back after a pause, in which there were many changes, with the same number of rows that
// the driver reads by version and encoding/json decodes.
func BenchmarkDrain(b *testing.B) {
	changes := *rowCount / 10
	b.Run("bare", func(b *testing.B) {
		db := bare(b)
		fillBare(b, db, *rowCount)
		dbtest.EachRead(b, changes, func() (int, error) { return len(readBare(b, db, *rowCount-changes)), nil })
	})
	b.Run("setpoint", func(b *testing.B) {
		db := open(b, filepath.Join(b.TempDir(), "x.db"), sqlite.Config{})
		fill(b, db, *rowCount)
		dbtest.Drain(b, dbtest.Apps(b, db), informer.Version(*rowCount-changes), changes)
	})
}

// fillBare makes rows, each with a version of its own.
func fillBare(b *testing.B, db *sql.DB, n int) {
	_, err := db.Exec("CREATE INDEX by_version ON objects (version)")
	require.NoError(b, err)
	_, err = db.Exec(`WITH RECURSIVE i (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < ?)
		INSERT INTO objects SELECT 'key ' || n, n, ? FROM i`, n, fmt.Appendf(nil, `{"Image":"%s"}`, dbtest.Image))
	require.NoError(b, err)
}

// readBare reads the rows after a version.
func readBare(b *testing.B, db *sql.DB, after int) (apps []dbtest.App) {
	query := "SELECT key, version, value FROM objects WHERE version > ? ORDER BY version"
	if after == 0 {
		query = "SELECT key, version, value FROM objects WHERE version > ? ORDER BY key"
	}
	rows, err := db.Query(query, after)
	require.NoError(b, err)
	for rows.Next() {
		var key string
		var version int
		var value []byte
		var app dbtest.App
		require.NoError(b, rows.Scan(&key, &version, &value))
		require.NoError(b, json.Unmarshal(value, &app))
		apps = append(apps, app)
	}
	require.NoError(b, rows.Err())
	return apps
}

// fill makes objects, each with a version of its own, as copies of one that the package has written.
func fill(b *testing.B, db *sqlite.Backend, n int) {
	_, err := dbtest.Apps(b, db).Create(b.Context(), store.Object[dbtest.App]{Key: "key 1", Value: dbtest.App{Image: dbtest.Image}})
	require.NoError(b, err)
	_, err = db.DB().Exec(`WITH RECURSIVE i (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM i WHERE n < ?)
		INSERT INTO setpoint_log SELECT n, kind, 'key ' || n, latest, deleted, record FROM i, setpoint_log`, n)
	require.NoError(b, err)
	_, err = db.DB().Exec(`UPDATE setpoint_state SET version = ?`, n)
	require.NoError(b, err)
}

// sitesFile creates a file with a table of n sites, in WAL mode, with a value of synchronous and perhaps the triggers of a Table.
func sitesFile(b *testing.B, synchronous string, triggers bool, n int) *sql.DB {
	b.Helper()
	db, err := sql.Open("sqlite", filepath.Join(b.TempDir(), "sites.db")+
		"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)&_pragma=synchronous("+synchronous+")")
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	do(b, db, `CREATE TABLE sites (name TEXT NOT NULL PRIMARY KEY, rev INTEGER)`)
	if triggers {
		require.NoError(b, sqlite.InstallTable(b.Context(), db, sqlite.TableConfig{Table: "sites"}))
	}
	fillSites(b, db, n)
	return db
}

func fillSites(b *testing.B, db *sql.DB, n int) {
	b.Helper()
	do(b, db, `WITH RECURSIVE i (n) AS (SELECT 1 WHERE ? > 0 UNION ALL SELECT n + 1 FROM i WHERE n < ?) INSERT INTO sites SELECT 'site ' || n, 1 FROM i`, n, n)
}

// BenchmarkTrigger compares writes to a table of the user without the triggers that write the log, and with them.
func BenchmarkTrigger(b *testing.B) {
	const few = 1000
	for _, synchronous := range []string{"OFF", "FULL"} {
		for _, write := range []string{"insert", "update", "upsert", "delete"} {
			for _, triggers := range []bool{false, true} {
				b.Run(fmt.Sprintf("synchronous=%s/%s/triggers=%t", synchronous, write, triggers), func(b *testing.B) {
					n := few
					if write == "delete" {
						n = max(few, b.N)
					}
					db := sitesFile(b, synchronous, triggers, n)
					db.SetMaxOpenConns(1)
					text := map[string]string{
						"insert": `INSERT INTO sites VALUES ('new ' || ?1, ?1)`,
						"update": `UPDATE sites SET rev = ?1 WHERE name = 'site ' || (1 + ?1 % 1000)`,
						"upsert": `INSERT INTO sites VALUES ('site ' || (1 + ?1 % 1000), ?1) ON CONFLICT (name) DO UPDATE SET rev = excluded.rev`,
						"delete": `DELETE FROM sites WHERE name = 'site ' || (1 + ?1)`,
					}[write]
					statement, err := db.PrepareContext(b.Context(), text)
					require.NoError(b, err)
					defer func() { require.NoError(b, statement.Close()) }()
					b.ResetTimer()
					for i := range b.N {
						_, err := statement.ExecContext(b.Context(), i)
						require.NoError(b, err)
					}
				})
			}
		}
	}
}

// BenchmarkBulk compares one statement that writes 20,000 rows without the triggers and with them.
func BenchmarkBulk(b *testing.B) {
	for name, text := range map[string]string{"update": `UPDATE sites SET rev = rev + 1`, "delete all": `DELETE FROM sites`} {
		for _, triggers := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/triggers=%t", name, triggers), func(b *testing.B) {
				db := sitesFile(b, "OFF", triggers, 0)
				for b.Loop() {
					b.StopTimer()
					do(b, db, `DELETE FROM sites`)
					fillSites(b, db, 20_000)
					b.StartTimer()
					do(b, db, text)
				}
			})
		}
	}
}

// BenchmarkTableLatency measures the time from a commit to the handler of an informer of a table: by the version of the transaction, by Wake
// after the commit, and by the poll of 20 ms, as for another process.
func BenchmarkTableLatency(b *testing.B) {
	for _, by := range []string{"VersionOf", "Wake", "poll"} {
		b.Run(by, func(b *testing.B) {
			db := sitesFile(b, "FULL", true, 1)
			table := sitesIn(b, db, sqlite.TableConfig{Table: "sites"})
			dbtest.HandlerLatency(b, table, siteName, func(i int) error {
				err := inUserTx(b.Context(), db, func(tx *sql.Tx) error {
					_, err := tx.ExecContext(b.Context(), `UPDATE sites SET rev = ?`, i+2)
					if err == nil && by == "VersionOf" {
						_, err = table.VersionOf(b.Context(), tx)
					}
					return err
				})
				if by == "Wake" {
					table.Wake()
				}
				return err
			})
		})
	}
}

// BenchmarkTableRead compares a list, and a watch after changes of that many rows, with the driver alone, which reads the rows of the table.
func BenchmarkTableRead(b *testing.B) {
	n := *rowCount
	db := sitesFile(b, "OFF", true, 0)
	table := sitesIn(b, db, sqlite.TableConfig{Table: "sites", History: 10 * n})
	before, err := table.List(b.Context())
	require.NoError(b, err)
	fillSites(b, db, n)
	b.Run("bare", func(b *testing.B) {
		dbtest.EachRead(b, n, func() (int, error) {
			rows, err := db.QueryContext(b.Context(), `SELECT name, rev FROM sites`)
			if err != nil {
				return 0, err
			}
			var all []site
			for rows.Next() {
				s, err := scanSite(rows)
				if err != nil {
					return 0, err
				}
				all = append(all, s)
			}
			return len(all), rows.Err()
		})
	})
	b.Run("list", func(b *testing.B) { dbtest.List(b, table, n) })
	b.Run("drain", func(b *testing.B) { dbtest.Drain(b, table, before.Version, n) })
}

// BenchmarkTableMemory reports the memory of a cache of rows, beside a map of them.
func BenchmarkTableMemory(b *testing.B) {
	n := *rowCount
	db := sitesFile(b, "OFF", true, n)
	table := sitesIn(b, db, sqlite.TableConfig{Table: "sites"})
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			before := used()
			list, err := table.List(b.Context())
			require.NoError(b, err)
			all := make(map[string]site, n)
			for _, s := range list.Items {
				all[s.Name] = s
			}
			list.Items = nil
			b.ReportMetric(float64(used()-before)/float64(n), "B/object")
			runtime.KeepAlive(all)
		}
	})
	b.Run("setpoint", func(b *testing.B) {
		for b.Loop() {
			before := used()
			inf, err := informer.New(table, siteName, informer.Config{})
			require.NoError(b, err)
			ctx, stop := context.WithCancel(b.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = inf.Run(ctx) }) // ends with stop
			<-inf.Synced()
			b.ReportMetric(float64(used()-before)/float64(n), "B/object")
			stop()
			running.Wait()
		}
	})
}
