package postgres_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/postgres"
)

// BenchmarkWrite compares updates of objects by one writer and by sixteen, each with one fsync, with what pgx takes to read a row,
// compare its version, and write it in a transaction.
func BenchmarkWrite(b *testing.B) {
	pool := connect(b, servertest.Cluster{Disk: true}.Start(b).Addr())
	for _, writers := range []int{1, 16} {
		b.Run(fmt.Sprintf("writers=%d/bare", writers), func(b *testing.B) {
			exec(b, pool, "DROP TABLE IF EXISTS bare; CREATE TABLE bare (key text PRIMARY KEY, version bigint NOT NULL, value jsonb NOT NULL)")
			for w := range writers {
				exec(b, pool, fmt.Sprintf("INSERT INTO bare VALUES ('%d', 1, '{}')", w))
			}
			dbtest.EachWrite(b, writers, func(ctx context.Context, w, i int) error {
				return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					var version int
					key := fmt.Sprint(w)
					if err := tx.QueryRow(ctx, "SELECT version FROM bare WHERE key = $1 FOR UPDATE", key).Scan(&version); err != nil {
						return err
					}
					_, err := tx.Exec(ctx, "UPDATE bare SET version = $2, value = $3 WHERE key = $1",
						key, version+1, fmt.Sprintf(`{"Image":"%s%d"}`, dbtest.Image, i))
					return err
				})
			})
		})
		b.Run(fmt.Sprintf("writers=%d/setpoint", writers), func(b *testing.B) {
			dbtest.UpdateApps(b, open(b, pool, postgres.Config{Schema: newSchema(b, pool)}), writers)
		})
	}
}

// BenchmarkTrigger compares writes to a table of the user, each a transaction of one statement, without the triggers that write the
// change log, with them, and with triggers that do not notify.
func BenchmarkTrigger(b *testing.B) {
	pool := connect(b, servertest.Cluster{Disk: true}.Start(b).Addr())
	for _, writers := range []int{1, 16} {
		for _, trigger := range []string{"none", "quiet", "notify"} {
			b.Run(fmt.Sprintf("writers=%d/trigger=%s", writers, trigger), func(b *testing.B) {
				table := fmt.Sprintf("sites_%d_%s", writers, trigger)
				exec(b, pool, "DROP TABLE IF EXISTS "+table+"; CREATE TABLE "+table+" (name text PRIMARY KEY, servers integer NOT NULL)")
				for w := range writers {
					exec(b, pool, fmt.Sprintf("INSERT INTO %s VALUES ('%d', 1)", table, w))
				}
				if trigger != "none" {
					cfg := postgres.TableConfig{Table: table, WithoutNotify: trigger == "quiet"}
					require.NoError(b, postgres.InstallTable(b.Context(), pool, cfg))
				}
				dbtest.EachWrite(b, writers, func(ctx context.Context, w, i int) error {
					_, err := pool.Exec(ctx, "UPDATE "+table+" SET servers = $2 WHERE name = $1", fmt.Sprint(w), i)
					return err
				})
			})
		}
	}
}

// BenchmarkBulk compares an update of all rows by one statement without the triggers and with them. It reports the bytes of the log, and of
// the write-ahead log, for each row.
func BenchmarkBulk(b *testing.B) {
	pool := connect(b, servertest.Postgres(b, "fsync=off", "max_wal_size=8GB", "autovacuum=off").Addr())
	read := func(query string) (n int64) {
		require.NoError(b, pool.QueryRow(b.Context(), query).Scan(&n))
		return n
	}
	for _, trigger := range []bool{false, true} {
		b.Run(fmt.Sprintf("trigger=%t", trigger), func(b *testing.B) {
			var wal int64
			before := read(`SELECT pg_database_size(current_database())`)
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				table := fmt.Sprintf("bulk_%t_%d", trigger, i)
				exec(b, pool, fmt.Sprintf(`DROP TABLE IF EXISTS %[1]s; CREATE TABLE %[1]s (name text PRIMARY KEY, email text, servers integer NOT NULL)
					WITH (fillfactor = 45); INSERT INTO %[1]s SELECT 'tenant ' || n, n || '@example.com', 1 FROM generate_series(1, %[2]d) n`, table, *rows))
				if trigger {
					require.NoError(b, postgres.InstallTable(b.Context(), pool, postgres.TableConfig{Table: table}))
				}
				exec(b, pool, "CHECKPOINT")
				before = read(`SELECT pg_database_size(current_database())`)
				wal -= read(`SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint`)
				b.StartTimer()
				exec(b, pool, "UPDATE "+table+" SET servers = 2")
				b.StopTimer()
				wal += read(`SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint`)
				b.StartTimer()
			}
			b.ReportMetric(float64(wal)/float64(b.N*(*rows)), "wal-B/row")
			b.ReportMetric(float64(read(`SELECT pg_database_size(current_database())`)-before)/float64(*rows), "grown-B/row")
		})
	}
}

// BenchmarkLatency compares the time from a commit to the handler of an informer of objects, and of a table, with that to a client that
// reads after a notification. There are three such clients. Two do what a watch has to do: they read what follows the last version that they
// have read, so that they miss no change and could resume. That of objects reads the rows with later versions, and that of a table reads a
// page of the change log, up to the first open transaction, with the current rows. The third one, called row, only reads the row that it
// knows to have changed.
func BenchmarkLatency(b *testing.B) {
	pool := connect(b, servertest.Cluster{Disk: true}.Start(b).Addr())
	b.Run("row/bare", func(b *testing.B) {
		exec(b, pool, "CREATE TABLE IF NOT EXISTS news (key text PRIMARY KEY, version integer NOT NULL, value jsonb NOT NULL)")
		exec(b, pool, "INSERT INTO news VALUES ('a', 0, '{}') ON CONFLICT DO NOTHING")
		latencyByHand(b, pool, func() error {
			var app dbtest.App
			return pool.QueryRow(b.Context(), "SELECT value FROM news WHERE key = 'a'").Scan(&app)
		}, "UPDATE news SET version = version + 1, value = jsonb_build_object('Image', $1::text) WHERE key = 'a'")
	})
	b.Run("objects/bare", func(b *testing.B) {
		const n = 10_000 // so that the server reads the index on the version, as with any real table
		exec(b, pool, "DROP TABLE IF EXISTS bare")
		bareRows(b, pool, n)
		last := informer.Version(n)
		latencyByHand(b, pool, func() error {
			readBare(b, pool, true, func(o *store.Object[dbtest.App]) { last = o.Version }, "WHERE version > $1 ORDER BY version LIMIT 100", last)
			return nil
		}, fmt.Sprintf("UPDATE bare SET version = %d + $1::text::integer, value = jsonb_build_object('Image', $1::text) WHERE key = 'key 1'", n+1))
	})
	b.Run("table/bare", func(b *testing.B) {
		cfg := newTable(b, pool)
		exec(b, pool, "INSERT INTO "+sqlName(cfg)+" VALUES ('a', 0)")
		var log byHand
		latencyByHand(b, pool, func() error {
			_, err := log.read(b.Context(), pool, cfg)
			return err
		}, "UPDATE "+sqlName(cfg)+" SET rev = $1::text::integer + 1 WHERE name = 'a'")
	})
	b.Run("objects/setpoint", func(b *testing.B) {
		cfg := postgres.Config{Schema: newSchema(b, pool)}
		dbtest.AppLatency(b, open(b, pool, cfg), open(b, pool, cfg))
	})
	b.Run("table/setpoint", func(b *testing.B) {
		cfg := newTable(b, pool)
		exec(b, pool, "INSERT INTO "+sqlName(cfg)+" VALUES ('a', 0)")
		table, err := postgres.NewTable(b.Context(), pool, func(row pgx.CollectableRow) (s site, err error) { // as the client by hand scans it
			err = row.Scan(&s.Name, &s.Rev)
			return s, err
		}, cfg)
		require.NoError(b, err)
		dbtest.HandlerLatency(b, table, siteName, func(i int) error {
			_, err := pool.Exec(b.Context(), "UPDATE "+sqlName(cfg)+" SET rev = $1 WHERE name = 'a'", i+1)
			return err
		})
	})
}

// BenchmarkTakeover measures what a new leader does before its first reconcile, if its predecessor has just written: raise the fence, read the
// latest version, and wait until the cache has it.
func BenchmarkTakeover(b *testing.B) {
	pool := connect(b, servertest.Cluster{Disk: true}.Start(b).Addr())
	reconcile := func(context.Context, string) (controller.Result, error) { return controller.Result{}, nil }
	b.Run("objects", func(b *testing.B) {
		apps, err := store.Open[dbtest.App](open(b, pool, postgres.Config{Schema: newSchema(b, pool)}), "app", store.Config[dbtest.App]{})
		require.NoError(b, err)
		inf, err := informer.New(apps, store.Key[dbtest.App], informer.Config{})
		require.NoError(b, err)
		c, err := controller.New("apps", reconcile, controller.Config[string]{}, controller.For(inf))
		require.NoError(b, err)
		o, err := apps.Create(b.Context(), store.Object[dbtest.App]{Key: "a"})
		require.NoError(b, err)
		takeOver(b, inf, c, func(i int) error {
			o.Value.Image = fmt.Sprint(i)
			var err error
			o, err = apps.Update(b.Context(), o)
			return err
		})
	})
	b.Run("table", func(b *testing.B) {
		cfg := newTable(b, pool)
		exec(b, pool, "INSERT INTO "+sqlName(cfg)+" VALUES ('a', 0)")
		table, err := postgres.NewTable(b.Context(), pool, pgx.RowToStructByName[site], cfg)
		require.NoError(b, err)
		inf, err := informer.New(table, siteName, informer.Config{})
		require.NoError(b, err)
		c, err := controller.New("sites", reconcile, controller.Config[string]{}, controller.For(inf))
		require.NoError(b, err)
		takeOver(b, inf, c, func(i int) error {
			_, err := pool.Exec(b.Context(), "UPDATE "+sqlName(cfg)+" SET rev = $1 WHERE name = 'a'", i+1)
			return err
		})
	})
}

// takeOver measures how long c catches up in a new term after a write.
func takeOver(b *testing.B, inf interface {
	Run(ctx context.Context) error
	Synced() <-chan struct{}
}, c *controller.Controller[string], write func(i int) error) {
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = inf.Run(ctx) }) // ends with stop
	<-inf.Synced()
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		require.NoError(b, write(i))
		work, depose := leaderelect.Appoint(ctx, "bench", uint64(i+1))
		b.StartTimer()
		require.NoError(b, c.CatchUp(work))
		depose(nil)
	}
	stop()
	running.Wait()
}

// latencyByHand measures the time from an update to the end of read, which is called after each notification.
func latencyByHand(b *testing.B, pool *pgxpool.Pool, read func() error, update string) {
	listener, err := pool.Acquire(b.Context())
	require.NoError(b, err)
	defer listener.Release()
	exec(b, listener, "LISTEN news")
	ctx, stop := context.WithCancel(b.Context())
	seen := make(chan time.Time, 1)
	var reading sync.WaitGroup
	reading.Go(func() { // ends with stop
		for {
			if _, err := listener.Conn().WaitForNotification(ctx); err != nil {
				return
			}
			if err := read(); err != nil {
				b.Error(err)
			}
			seen <- time.Now()
		}
	})
	dbtest.Latency(b, seen, func(i int) error {
		return pgx.BeginFunc(b.Context(), pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(b.Context(), update, fmt.Sprint(i))
			if err == nil {
				_, err = tx.Exec(b.Context(), "NOTIFY news")
			}
			return err
		})
	})
	stop()
	reading.Wait()
}

var rows = dbtest.Rows()

// bareRows makes the table bare, with the values of the objects that fill makes.
func bareRows(b *testing.B, pool *pgxpool.Pool, n int) {
	exec(b, pool, `CREATE TABLE bare (key text COLLATE "C" PRIMARY KEY, version bigint NOT NULL UNIQUE, uid uuid NOT NULL, generation bigint NOT NULL,
		created timestamptz NOT NULL, value jsonb NOT NULL)`)
	exec(b, pool, `INSERT INTO bare SELECT 'key ' || n, n, gen_random_uuid(), 1, now(), $2::jsonb FROM generate_series(1, $1::integer) n`,
		n, fmt.Sprintf(`{"Image":"%s"}`, dbtest.Image))
	exec(b, pool, "ANALYZE bare")
}

// readBare calls use with each row that the rest of a query finds. The row has its metadata if metadata is set, and otherwise only its key
// and its value. pgx decodes the value by encoding/json.
func readBare(b *testing.B, pool *pgxpool.Pool, metadata bool, use func(*store.Object[dbtest.App]), rest string, args ...any) (n int) {
	var o store.Object[dbtest.App]
	columns, into := "key, value", []any{&o.Key, &o.Value}
	if metadata {
		columns += ", version, uid::text, generation, created"
		into = append(into, &o.Version, &o.UID, &o.Generation, &o.Created)
	}
	found, err := pool.Query(b.Context(), "SELECT "+columns+" FROM bare "+rest, args...)
	require.NoError(b, err)
	_, err = pgx.ForEachRow(found, into, func() error {
		n++
		use(&o)
		return nil
	})
	require.NoError(b, err)
	return n
}

// fill makes objects, each with a version of its own, as copies of one that the package has written.
func fill(b *testing.B, pool *pgxpool.Pool, n int) store.Store[dbtest.App] {
	schema := newSchema(b, pool)
	s := dbtest.Apps(b, open(b, pool, postgres.Config{Schema: schema}))
	_, err := s.Create(b.Context(), store.Object[dbtest.App]{Key: "key 1", Value: dbtest.App{Image: dbtest.Image}})
	require.NoError(b, err)
	exec(b, pool, fmt.Sprintf(`SET search_path = "%s"; INSERT INTO objects
		SELECT n, kind, 'key ' || n, latest, deleted, record, value FROM objects, generate_series(2, %d) n;
		UPDATE state SET version = %[2]d; ANALYZE objects; RESET search_path`, schema, n))
	return s
}

// fillTable makes rows of a table with a change log, and returns its source and the version before the last changes.
func fillTable(b *testing.B, pool *pgxpool.Pool, n, changes int) (*postgres.Table[site], postgres.TableConfig, informer.Version) {
	cfg := newTable(b, pool)
	exec(b, pool, fmt.Sprintf("INSERT INTO %s SELECT 'key ' || n, 1 FROM generate_series(1, %d) n", sqlName(cfg), n))
	exec(b, pool, "ANALYZE "+sqlName(cfg))
	table := sitesIn(b, pool, cfg)
	l, err := table.List(b.Context())
	require.NoError(b, err)
	// Each change is a transaction, as those of a service are.
	exec(b, pool, fmt.Sprintf(`DO $$ BEGIN FOR n IN 1..%d LOOP
		UPDATE %s SET rev = 2 WHERE name = 'key ' || n; COMMIT; END LOOP; END $$`, changes, sqlName(cfg)))
	exec(b, pool, "ANALYZE "+cfg.Log())
	return table, cfg, l.Version
}

// BenchmarkList compares a list of objects, decoded, and a list of the rows of a table, with the same number of rows that pgx reads
// and decodes. For objects there are two bare clients. One reads rows that have what an object has: a version, an id, a generation, and a
// time besides the key and the value. The other one reads only the key and the value, which is less than a store has to read.
func BenchmarkList(b *testing.B) {
	pool := connect(b, servertest.Postgres(b, "fsync=off", "max_wal_size=4GB").Addr())
	bareRows(b, pool, *rows)
	objects := fill(b, pool, *rows)
	table, cfg, _ := fillTable(b, pool, *rows, 0)
	b.Run("objects/bare", func(b *testing.B) {
		dbtest.EachRead(b, *rows, func() (int, error) {
			var all []store.Object[dbtest.App]
			return readBare(b, pool, true, func(o *store.Object[dbtest.App]) { all = append(all, *o) }, "ORDER BY key"), nil
		})
	})
	b.Run("objects/values", func(b *testing.B) {
		dbtest.EachRead(b, *rows, func() (int, error) {
			var all []dbtest.App
			return readBare(b, pool, false, func(o *store.Object[dbtest.App]) { all = append(all, o.Value) }, "ORDER BY key"), nil
		})
	})
	b.Run("objects/setpoint", func(b *testing.B) { dbtest.List(b, objects, *rows) })
	b.Run("table/bare", func(b *testing.B) {
		dbtest.EachRead(b, *rows, func() (int, error) { return readSites(b, pool, "SELECT * FROM "+sqlName(cfg)) })
	})
	b.Run("table/setpoint", func(b *testing.B) { dbtest.List(b, table, *rows) })
}

// readSites reads the rows that a query returns, and counts them.
func readSites(b *testing.B, pool *pgxpool.Pool, query string) (int, error) {
	found, err := pool.Query(b.Context(), query)
	require.NoError(b, err)
	all, err := pgx.CollectRows(found, pgx.RowToStructByName[site])
	return len(all), err
}

// BenchmarkDrain compares a watch that comes back after a pause, in which there were many changes, with the same number of rows that
// pgx reads by version and decodes, in a process that holds a list of all objects. The bare clients for objects are those of BenchmarkList.
// For a table there are two as well. One reads the change log in pages, as a program with bounded memory has to. The other one joins the
// whole log with the whole table in one statement. It may run on two cores of the server, and its memory grows with the log.
func BenchmarkDrain(b *testing.B) {
	changes := *rows / 10
	pool := connect(b, servertest.Postgres(b, "fsync=off", "max_wal_size=4GB").Addr())
	bareRows(b, pool, *rows)
	objects := fill(b, pool, *rows)
	table, cfg, before := fillTable(b, pool, *rows, changes)
	held, err := objects.List(b.Context()) // as the cache of a process that comes back holds them
	require.NoError(b, err)
	defer runtime.KeepAlive(held)
	const after = "WHERE version > $1 ORDER BY version"
	b.Run("objects/bare", func(b *testing.B) {
		dbtest.EachRead(b, changes, func() (int, error) {
			return readBare(b, pool, true, func(*store.Object[dbtest.App]) {}, after, *rows-changes), nil
		})
	})
	b.Run("objects/values", func(b *testing.B) {
		dbtest.EachRead(b, changes, func() (int, error) {
			return readBare(b, pool, false, func(*store.Object[dbtest.App]) {}, after, *rows-changes), nil
		})
	})
	b.Run("objects/setpoint", func(b *testing.B) { dbtest.Drain(b, objects, informer.Version(*rows-changes), changes) })
	b.Run("table/bare", func(b *testing.B) {
		var first uint64
		require.NoError(b, pool.QueryRow(b.Context(), "SELECT setpoint_xid FROM "+cfg.Log()+" ORDER BY setpoint_xid DESC OFFSET $1 LIMIT 1", changes-1).Scan(&first))
		dbtest.EachRead(b, changes, func() (int, error) {
			log := byHand{first - 1, math.MaxInt64}
			return log.read(b.Context(), pool, cfg)
		})
	})
	b.Run("table/once", func(b *testing.B) {
		query := fmt.Sprintf(`SELECT t.* FROM (SELECT * FROM %s ORDER BY setpoint_xid DESC LIMIT %d) c JOIN %s t ON t.name = c.name
			ORDER BY c.setpoint_xid, c.setpoint_seq`, cfg.Log(), changes, sqlName(cfg))
		dbtest.EachRead(b, changes, func() (int, error) { return readSites(b, pool, query) })
	})
	b.Run("table/setpoint", func(b *testing.B) { dbtest.Drain(b, table, before, changes) })
}

// byHand is a place in the change log of a table, which a client reads by hand.
type byHand struct {
	xid uint64
	id  int64
}

// read reads what the transactions after the place have written, in pages of 1,000: the entries of the log of a table, and the current row
// of each. It reads up to the first transaction that is still open, and moves the place there.
func (h *byHand) read(ctx context.Context, pool *pgxpool.Pool, cfg postgres.TableConfig) (n int, err error) {
	query := fmt.Sprintf(`SELECT c.setpoint_xid, c.setpoint_seq, t.* FROM %s c LEFT JOIN %s t ON t.name = c.name
		WHERE c.name IS NOT NULL AND (c.setpoint_xid, c.setpoint_seq) > ($1, $2) AND c.setpoint_xid < pg_snapshot_xmin(pg_current_snapshot())
		ORDER BY c.setpoint_xid, c.setpoint_seq LIMIT 1000`, cfg.Log(), sqlName(cfg))
	for {
		found, err := pool.Query(ctx, query, h.xid, h.id)
		if err != nil {
			return n, err
		}
		page, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (s site, err error) {
			err = row.Scan(&h.xid, &h.id, &s.Name, &s.Rev)
			return s, err
		})
		if err != nil {
			return n, err
		}
		if n += len(page); len(page) < 1000 {
			return n, nil
		}
	}
}
