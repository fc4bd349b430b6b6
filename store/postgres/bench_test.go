package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/postgres"
)

var image = strings.Repeat("registry.example/app:", 10)

// eachWrite makes b.N writes by several writers.
func eachWrite(b *testing.B, writers int, write func(ctx context.Context, writer, i int) error) {
	var g sync.WaitGroup
	var next atomic.Int64
	b.ResetTimer()
	for w := range writers {
		g.Go(func() { // ends after the last write, and is waited for below
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if err := write(b.Context(), w, int(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	g.Wait()
}

// BenchmarkWrite compares updates of objects by one writer and by sixteen, each with one fsync, with what pgx takes to read a row,
// compare its version, and write it in a transaction.
func BenchmarkWrite(b *testing.B) {
	pool := connect(b, servertest.Postgres(b).Addr())
	for _, writers := range []int{1, 16} {
		b.Run(fmt.Sprintf("writers=%d/bare", writers), func(b *testing.B) {
			exec(b, pool, "DROP TABLE IF EXISTS bare; CREATE TABLE bare (key text PRIMARY KEY, version bigint NOT NULL, value jsonb NOT NULL)")
			for w := range writers {
				exec(b, pool, fmt.Sprintf("INSERT INTO bare VALUES ('%d', 1, '{}')", w))
			}
			eachWrite(b, writers, func(ctx context.Context, w, i int) error {
				return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					var version int
					key := fmt.Sprint(w)
					if err := tx.QueryRow(ctx, "SELECT version FROM bare WHERE key = $1 FOR UPDATE", key).Scan(&version); err != nil {
						return err
					}
					_, err := tx.Exec(ctx, "UPDATE bare SET version = $2, value = $3 WHERE key = $1",
						key, version+1, fmt.Sprintf(`{"Image":"%s%d"}`, image, i))
					return err
				})
			})
		})
		b.Run(fmt.Sprintf("writers=%d/setpoint", writers), func(b *testing.B) {
			s := dbtest.Apps(b, open(b, pool, postgres.Config{Schema: newSchema(b, pool)}))
			objects := make([]store.Object[dbtest.App], writers)
			for w := range objects {
				var err error
				objects[w], err = s.Create(b.Context(), store.Object[dbtest.App]{Key: fmt.Sprint(w)})
				require.NoError(b, err)
			}
			eachWrite(b, writers, func(ctx context.Context, w, i int) (err error) {
				objects[w].Value.Image = fmt.Sprint(image, i)
				objects[w], err = s.Update(ctx, objects[w])
				return err
			})
		})
	}
}

// BenchmarkTrigger compares writes to a table of the user, each a transaction of one statement, without the triggers that write the
// change log, with them, and with triggers that do not notify.
func BenchmarkTrigger(b *testing.B) {
	pool := connect(b, servertest.Postgres(b).Addr())
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
				eachWrite(b, writers, func(ctx context.Context, w, i int) error {
					_, err := pool.Exec(ctx, "UPDATE "+table+" SET servers = $2 WHERE name = $1", fmt.Sprint(w), i)
					return err
				})
			})
		}
	}
}
