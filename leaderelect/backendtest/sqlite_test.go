//go:build linux

package backendtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/filelease"
	"github.com/setpoint-go/setpoint/leaderelect/leasetest"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
)

// forLeases is the busy_timeout of a pool that a store has for itself: the store waits until the end of its contexts.
const forLeases = 20 * time.Millisecond

// forWork is the busy_timeout of other pools.
const forWork = 5 * time.Second

// openSQLite returns a pool of connections to a file.
func openSQLite(t testing.TB, file, journal string, busy time.Duration) *sql.DB {
	t.Helper()
	db, err := newSQLite(file, journal, busy)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func newSQLite(file, journal string, busy time.Duration) (*sql.DB, error) {
	db, err := sql.Open("sqlite", fmt.Sprintf("file:%s?_pragma=busy_timeout(%d)&_pragma=journal_mode(%s)", file, busy.Milliseconds(), journal))
	if err == nil {
		db.SetMaxOpenConns(8)
		db.SetMaxIdleConns(8)
	}
	return db, err
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	for _, journal := range []string{"wal", "delete"} {
		t.Run("with journal_mode "+journal+" is a lease store", func(t *testing.T) {
			leasetest.Run(t, func(t *testing.T) leasetest.Backend {
				file := filepath.Join(t.TempDir(), "leases.db")
				db, other := openSQLite(t, file, journal, forLeases), openSQLite(t, file, journal, forWork)
				s := leasesIn(t, db, sqllease.SQLite, "leases")
				return leasetest.Backend{
					Store: s,
					Reopen: func() leaderelect.LeaseStore {
						return leasesIn(t, openSQLite(t, file, journal, forLeases), sqllease.SQLite, "leases")
					},
					Delete: func(key string) {
						_, err := other.Exec(`DELETE FROM leases WHERE name = ?`, key)
						require.NoError(t, err)
					},
					Idle: 200 * time.Millisecond,
					Lock: func() func() {
						conn, err := other.Conn(t.Context())
						require.NoError(t, err)
						_, err = conn.ExecContext(t.Context(), "BEGIN EXCLUSIVE")
						require.NoError(t, err)
						return func() {
							_, err := conn.ExecContext(context.Background(), "ROLLBACK")
							assert.NoError(t, errors.Join(err, conn.Close()))
						}
					},
					Guard: leasetest.Guard{Do: guardOf(other, s), Leading: leadingOf(other, s), Refused: sqllease.ErrFenced, Exclusive: true},
				}
			})
		})
	}

	t.Run("a guarded transaction on an old snapshot does not write", func(t *testing.T) {
		ctx, file := context.Background(), filepath.Join(t.TempDir(), "leases.db")
		db, other := openSQLite(t, file, "wal", forLeases), openSQLite(t, file, "wal", forWork)
		s := leasesIn(t, db, sqllease.SQLite, "leases")
		e, err := s.Create(ctx, leaderelect.Entry{Key: "lease", Term: 1})
		require.NoError(t, err)
		tx, err := other.Begin()
		require.NoError(t, err)
		defer tx.Rollback()
		var n int
		require.NoError(t, tx.QueryRow(`SELECT count(*) FROM leases`).Scan(&n))
		e.Term = 2
		_, err = s.Update(ctx, e)
		require.NoError(t, err)
		require.Error(t, s.GuardTerm(ctx, tx, "lease", 1))
	})

	t.Run("histories are linearizable", func(t *testing.T) {
		linearizable(t, func(t *testing.T) cluster {
			file := filepath.Join(t.TempDir(), "leases.db")
			var c cluster
			for range clients {
				c.stores = append(c.stores, leasesIn(t, openSQLite(t, file, "wal", forLeases), sqllease.SQLite, "leases"))
			}
			return c
		})
	})
}

func TestFiles(t *testing.T) {
	t.Parallel()
	t.Run("histories are linearizable", func(t *testing.T) {
		linearizable(t, func(t *testing.T) cluster {
			dir := t.TempDir()
			var c cluster
			for range clients {
				s, err := filelease.New(dir)
				require.NoError(t, err)
				c.stores = append(c.stores, s)
			}
			return c
		})
	})
}
