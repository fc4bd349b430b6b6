//go:build linux

package backendtest

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/leasetest"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
)

// openMariaDB returns a pool of connections of a user to an address, with options of the driver.
func openMariaDB(t testing.TB, user, addr, options string) *sql.DB {
	t.Helper()
	db, err := newMariaDB(user, addr, options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func newMariaDB(user, addr, options string) (*sql.DB, error) {
	cfg, err := mysql.ParseDSN(user + "@tcp(" + addr + ")/test?" + options)
	if err != nil {
		return nil, err
	}
	cfg.Logger = &mysql.NopLogger{} // or it logs each connection that is cut
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8)
	return db, nil
}

// The options of the driver: one that docs/operating.md recommends, and its defaults, with other meanings of affected rows.
const (
	recommended = "interpolateParams=true&innodb_lock_wait_timeout=2"
	foundRows   = "clientFoundRows=true&innodb_lock_wait_timeout=2"
)

func TestMariaDB(t *testing.T) {
	t.Parallel()
	server := servertest.MariaDB(t, "innodb-flush-log-at-trx-commit=2") // a server that is killed has given its writes to the system
	direct := openMariaDB(t, "root", server.Addr(), recommended)
	var tables atomic.Int32
	newTable := func() string { return fmt.Sprintf("leases_%d", tables.Add(1)) }

	for _, options := range []string{recommended, foundRows} {
		t.Run("is a lease store, with "+options, func(t *testing.T) {
			leasetest.Run(t, func(t *testing.T) leasetest.Backend {
				p, table := servertest.NewProxy(t, server.Addr()), newTable()
				far := leasesIn(t, openMariaDB(t, "root", p.Addr(), options), sqllease.MySQL, table)
				near := leasesIn(t, direct, sqllease.MySQL, table)
				sessions, err := sqllease.NewSessions(direct, sqllease.SessionsConfig{Dialect: sqllease.MySQL})
				require.NoError(t, err)
				return leasetest.Backend{
					Store:    far,
					Sessions: sessions,
					Reopen:   func() leaderelect.LeaseStore { return near },
					Delete: func(key string) {
						_, err := direct.Exec(`DELETE FROM `+table+` WHERE name = ?`, key)
						require.NoError(t, err)
					},
					Idle:     500 * time.Millisecond,
					Drop:     p.Stall,
					Heal:     p.Heal,
					CutReply: p.CutNextReply,
					Restart:  server.Restart,
					Lock: func() func() {
						conn, err := direct.Conn(context.Background())
						require.NoError(t, err)
						_, err = conn.ExecContext(context.Background(), `LOCK TABLES `+table+` WRITE`)
						require.NoError(t, err)
						return func() {
							_, err := conn.ExecContext(context.Background(), `UNLOCK TABLES`)
							assert.NoError(t, err)
							assert.NoError(t, conn.Close())
						}
					},
					Guard: leasetest.Guard{Do: guardOf(direct, near), Leading: leadingOf(direct, near), Refused: sqllease.ErrFenced},
				}
			})
		})
	}
}
