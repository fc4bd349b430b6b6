//go:build linux

package mysql_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/store/mysql/internal/tabletest"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/leasetest"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/mysql"
	"github.com/setpoint-go/setpoint/store/storetest"
)

// migrated creates the tables of a Backend in a database of its own. It returns two pools for the database.
func migrated(t testing.TB, server *servertest.Server) (one, two *sql.DB) {
	t.Helper()
	one = newDatabase(t, server)
	require.NoError(t, mysql.Migrate(t.Context(), one, mysql.Config{}))
	return one, tabletest.Connect(t, server, databaseOf(t, one))
}

// databaseOf returns the name of the default database of a pool.
func databaseOf(t testing.TB, db *sql.DB) (name string) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(context.WithoutCancel(t.Context()), "SELECT DATABASE()").Scan(&name))
	return name
}

// open opens the tables of a Backend.
func open(t testing.TB, db *sql.DB, cfg mysql.Config) *mysql.Backend {
	t.Helper()
	b, err := mysql.Open(t.Context(), db, cfg)
	require.NoError(t, err)
	return b
}

// followApps runs an informer of the objects of db until the test ends.
func followApps(t testing.TB, db backend.Backend) *store.Informer[dbtest.App] {
	t.Helper()
	inf, err := informer.New(dbtest.Apps(t, db), store.Key[dbtest.App], informer.Config{OnError: func(error) {}})
	require.NoError(t, err)
	dbtest.Follow(t, inf)
	return inf
}

// forget removes the history.
func forget(ctx context.Context, db *sql.DB) error {
	return tabletest.InTx(ctx, db, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE setpoint_state SET horizon = version")
		if err == nil {
			_, err = tx.ExecContext(ctx, "DELETE FROM setpoint_changes")
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, "DELETE FROM setpoint_objects WHERE deleted = 1")
		}
		return err
	})

}

func TestSuiteThroughTwoHandles(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	storetest.Run(t, func(t *testing.T) storetest.Database {
		one, two := migrated(t, server)
		cfg := mysql.Config{History: 2000, Poll: 5 * time.Millisecond}
		return storetest.Database{
			Handles:   []backend.Backend{open(t, one, cfg), open(t, two, cfg)},
			Remembers: 2000,
			Expire:    func(string) error { return forget(t.Context(), one) },
			// The second transaction cannot write before the first one has committed.
			Overlap: func(first, second func(ctx context.Context) error, look func()) error {
				in := func(db *sql.DB, f func(ctx context.Context) error) error {
					return tabletest.InTx(t.Context(), db, func(tx *sql.Tx) error { return f(mysql.WithTx(t.Context(), tx)) })
				}
				if err := in(one, first); err != nil {
					return err
				}
				look()
				return in(two, second)
			},
		}
	})
}

func TestTablesHoldLeases(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	leasetest.Run(t, func(t *testing.T) leasetest.Backend {
		one, _ := migrated(t, server)
		proxy := servertest.NewProxy(t, server.Addr())
		leases := func(addr string) leaderelect.LeaseStore {
			db, err := tabletest.OpenPool(tabletest.DSN("root", addr, databaseOf(t, one), ""))
			require.NoError(t, err)
			t.Cleanup(func() { _ = db.Close() }) // a connection may be broken
			return dbtest.Leases(t, open(t, db, mysql.Config{}))
		}
		return leasetest.Backend{
			Store:    leases(proxy.Addr()),
			Reopen:   func() leaderelect.LeaseStore { return leases(server.Addr()) },
			Drop:     proxy.Stall,
			Heal:     proxy.Heal,
			CutReply: proxy.CutNextReply,
			Restart:  server.Restart,
		}
	})
}
