package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/store"
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

var image = strings.Repeat("registry.example/app:", 10)

// BenchmarkWrite compares updates, each with one fsync, by one writer and by sixteen.
func BenchmarkWrite(b *testing.B) {
	for _, writers := range []int{1, 16} {
		each := func(b *testing.B, write func(writer, i int) error) {
			var g sync.WaitGroup
			var next atomic.Int64
			b.ResetTimer()
			for w := range writers {
				g.Go(func() {
					for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
						if err := write(w, int(i)); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			g.Wait()
		}
		b.Run(fmt.Sprintf("writers=%d/bare", writers), func(b *testing.B) {
			db := bare(b)
			db.SetMaxOpenConns(1)
			each(b, func(w, i int) error {
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
					key, version+1, fmt.Appendf(nil, `{"Image":"%s%d"}`, image, i))
				if err != nil {
					return err
				}
				return tx.Commit()
			})
		})
		b.Run(fmt.Sprintf("writers=%d/setpoint", writers), func(b *testing.B) {
			s := dbtest.Apps(b, open(b, filepath.Join(b.TempDir(), "x.db"), sqlite.Config{}))
			objects := make([]store.Object[dbtest.App], writers)
			for w := range objects {
				var err error
				objects[w], err = s.Create(b.Context(), store.Object[dbtest.App]{Key: fmt.Sprint(w)})
				require.NoError(b, err)
			}
			each(b, func(w, i int) (err error) {
				objects[w].Value.Image = fmt.Sprint(image, i)
				objects[w], err = s.Update(b.Context(), objects[w])
				return err
			})
		})
	}
}

// BenchmarkHandler measures the time from a commit to the handler of an informer, through the same handle and through
// another one, as of another process.
func BenchmarkHandler(b *testing.B) {
	for _, same := range []bool{true, false} {
		b.Run(fmt.Sprintf("samehandle=%v", same), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "x.db")
			reader := open(b, path, sqlite.Config{})
			writer := reader
			if !same {
				writer = open(b, path, sqlite.Config{})
			}
			inf, err := informer.New(dbtest.Apps(b, reader), store.Key[dbtest.App], informer.Config{})
			require.NoError(b, err)
			seen := make(chan time.Time, 1)
			_, err = inf.AddHandler(informer.Handler[string, store.Object[dbtest.App]]{
				OnAdd:    func(store.Object[dbtest.App], bool) { seen <- time.Now() },
				OnUpdate: func(_, _ store.Object[dbtest.App]) { seen <- time.Now() },
				OnDelete: func(cache.Tombstone[string, store.Object[dbtest.App]]) {},
			})
			require.NoError(b, err)
			ctx, stop := context.WithCancel(b.Context())
			done := make(chan error)
			go func() { done <- inf.Run(ctx) }()
			s := dbtest.Apps(b, writer)
			o, err := s.Create(ctx, store.Object[dbtest.App]{Key: "a"})
			require.NoError(b, err)
			<-seen
			var longest, all time.Duration
			for i := 0; b.Loop(); i++ {
				o.Value.Image = fmt.Sprint(i)
				o, err = s.Update(ctx, o)
				require.NoError(b, err)
				committed := time.Now()
				latency := max((<-seen).Sub(committed), 0) // the handler may be called before Update returns
				longest, all = max(longest, latency), all+latency
			}
			b.ReportMetric(float64(longest.Microseconds()), "µs-max")
			b.ReportMetric(float64(all.Microseconds())/float64(b.N), "µs-mean")
			stop()
			require.NoError(b, <-done)
		})
	}
}

// BenchmarkList compares a list of 100,000 objects, decoded, with the same number of rows read by the driver.
func BenchmarkList(b *testing.B) {
	const n = 100_000
	b.Run("bare", func(b *testing.B) {
		db := bare(b)
		tx, err := db.Begin()
		require.NoError(b, err)
		for i := range n {
			_, err := tx.Exec("INSERT INTO objects VALUES (?, 1, ?)", fmt.Sprintf("%06d", i), fmt.Appendf(nil, `{"Image":"%s"}`, image))
			require.NoError(b, err)
		}
		require.NoError(b, tx.Commit())
		for b.Loop() {
			rows, err := db.Query("SELECT key, version, value FROM objects ORDER BY key")
			require.NoError(b, err)
			count := 0
			for rows.Next() {
				var key string
				var version int
				var value []byte
				require.NoError(b, rows.Scan(&key, &version, &value))
				count++
			}
			require.NoError(b, rows.Err())
			require.Equal(b, n, count)
		}
	})
	b.Run("setpoint", func(b *testing.B) {
		db := open(b, filepath.Join(b.TempDir(), "x.db"), sqlite.Config{})
		s := dbtest.Apps(b, db)
		tx, err := db.DB().Begin()
		require.NoError(b, err)
		for i := range n {
			_, err := s.Create(sqlite.WithTx(b.Context(), tx), store.Object[dbtest.App]{Key: fmt.Sprintf("%06d", i), Value: dbtest.App{Image: image}})
			require.NoError(b, err)
		}
		require.NoError(b, tx.Commit())
		for b.Loop() {
			l, err := s.List(b.Context())
			require.NoError(b, err)
			require.Len(b, l.Items, n)
		}
	})
}
