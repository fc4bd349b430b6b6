//go:build linux

package backendtest

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "github.com/lib/pq"              // the driver "postgres"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/leasetest"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
)

// openPostgres returns a pool of connections to an address, by one of the drivers.
func openPostgres(t testing.TB, driver, addr string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, "postgres://postgres@"+addr+"/postgres?sslmode=disable")
	require.NoError(t, err)
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// leasesIn returns a store in a table of its own.
func leasesIn(t testing.TB, db *sql.DB, d sqllease.Dialect, table string) *sqllease.Store {
	t.Helper()
	s, err := sqllease.New(db, sqllease.Config{Dialect: d, Table: table})
	require.NoError(t, err)
	require.NoError(t, s.EnsureTable(context.Background()))
	return s
}

// guardOf is the recipe of s for the suite.
func guardOf(db *sql.DB, s *sqllease.Store) func(ctx context.Context, key string, term uint64, f func()) error {
	return func(ctx context.Context, key string, term uint64, f func()) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // after a commit it does nothing
		if err := s.GuardTerm(ctx, tx, key, term); err != nil {
			return err
		}
		f()
		return tx.Commit()
	}
}

// leadingOf is the recipe of s for the leadership of a context.
func leadingOf(db *sql.DB, s *sqllease.Store) func(ctx context.Context, f func()) error {
	return func(ctx context.Context, f func()) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // does nothing after a commit
		if err := s.Guard(ctx, tx); err != nil {
			return err
		}
		f()
		return tx.Commit()
	}
}

// onlyOneCreates creates records, each several times at once.
func onlyOneCreates(t *testing.T, s *sqllease.Store) {
	t.Helper()
	ctx := context.Background()
	for round := range 100 {
		errs, start := make(chan error, 8), make(chan struct{})
		for range cap(errs) {
			go func() { // ends with its answer, which the test waits for
				<-start
				_, err := s.Create(ctx, leaderelect.Entry{Key: fmt.Sprint(round), Term: 1})
				errs <- err
			}()
		}
		close(start)
		won := 0
		for range cap(errs) {
			if err := <-errs; err == nil {
				won++
			} else {
				require.ErrorIs(t, err, leaderelect.ErrConflict)
			}
		}
		require.Equal(t, 1, won)
	}
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=off") // a server that is killed has given its writes to the system
	direct := openPostgres(t, "pgx", server.Addr())
	var tables atomic.Int32
	newTable := func() string { return fmt.Sprintf("leases_%d", tables.Add(1)) }

	t.Run("is a lease store", func(t *testing.T) {
		leasetest.Run(t, func(t *testing.T) leasetest.Backend {
			p, table := servertest.NewProxy(t, server.Addr()), newTable()
			far := leasesIn(t, openPostgres(t, "pgx", p.Addr()), sqllease.Postgres, table)
			near := leasesIn(t, direct, sqllease.Postgres, table)
			sessions, err := sqllease.NewSessions(direct, sqllease.SessionsConfig{})
			require.NoError(t, err)
			return leasetest.Backend{
				Store:    far,
				Sessions: sessions,
				Reopen:   func() leaderelect.LeaseStore { return near },
				Delete: func(key string) {
					_, err := direct.Exec(`DELETE FROM `+table+` WHERE name = $1`, key)
					require.NoError(t, err)
				},
				Idle:     500 * time.Millisecond,
				Drop:     p.Stall,
				Heal:     p.Heal,
				CutReply: p.CutNextReply,
				Restart:  server.Restart,
				Lock: func() func() {
					tx, err := direct.Begin()
					require.NoError(t, err)
					_, err = tx.Exec(`LOCK TABLE ` + table + ` IN ACCESS EXCLUSIVE MODE`)
					require.NoError(t, err)
					return func() { assert.NoError(t, tx.Rollback()) }
				},
				Guard: leasetest.Guard{Do: guardOf(direct, near), Leading: leadingOf(direct, near), Refused: sqllease.ErrFenced},
			}
		})
	})

	t.Run("with lib/pq is a lease store, except if the network drops everything", func(t *testing.T) {
		leasetest.Run(t, func(t *testing.T) leasetest.Backend {
			p := servertest.NewProxy(t, server.Addr())
			s := leasesIn(t, openPostgres(t, "postgres", p.Addr()), sqllease.Postgres, newTable())
			return leasetest.Backend{Store: s, CutReply: p.CutNextReply, Restart: server.Restart}
		})
	})

	t.Run("with lib/pq, which may hang in a call, an elector abandons the call in time", func(t *testing.T) {
		p := servertest.NewProxy(t, server.Addr())
		var ended error
		elector, err := leaderelect.New(leaderelect.Config{
			Store: leasesIn(t, openPostgres(t, "postgres", p.Addr()), sqllease.Postgres, newTable()), Key: "lease",
			LeaseDuration: 1500 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
			OnStartedLeading: func(_ context.Context, l *leaderelect.Leadership) error {
				p.Stall()
				began := time.Now()
				<-l.Context().Done()
				assert.LessOrEqual(t, time.Since(began), 1200*time.Millisecond) // RenewDeadline is 1s
				ended = l.Err()
				p.Heal() // or the call would not return
				return nil
			},
		})
		require.NoError(t, err)
		require.ErrorIs(t, elector.RunOnce(context.Background()), leaderelect.ErrLeaseExpired)
		require.ErrorIs(t, ended, leaderelect.ErrLeaseExpired)
	})

	for _, mode := range []string{"exec", "simple_protocol"} { // what poolers in transaction mode need
		t.Run("without prepared statements, in mode "+mode, func(t *testing.T) {
			ctx := context.Background()
			db, err := sql.Open("pgx", "postgres://postgres@"+server.Addr()+"/postgres?sslmode=disable&default_query_exec_mode="+mode)
			require.NoError(t, err)
			t.Cleanup(func() { _ = db.Close() })
			s := leasesIn(t, db, sqllease.Postgres, newTable())
			have, err := s.Create(ctx, leaderelect.Entry{Key: `it's \a`, Term: 1, Value: []byte("\x00\xff'")})
			require.NoError(t, err)
			_, err = s.Create(ctx, have)
			require.ErrorIs(t, err, leaderelect.ErrConflict)
			have.Term = 2
			have, err = s.Update(ctx, have)
			require.NoError(t, err)
			got, err := s.Get(ctx, have.Key)
			require.NoError(t, err)
			assert.Equal(t, have, got)
			list, err := s.List(ctx, "it")
			require.NoError(t, err)
			assert.Equal(t, []leaderelect.Entry{have}, list)
			guard := guardOf(db, s)
			require.NoError(t, guard(ctx, have.Key, 2, func() {}))
			require.ErrorIs(t, guard(ctx, have.Key, 1, func() {}), sqllease.ErrFenced)
		})
	}

	t.Run("many processes create a table at once", func(t *testing.T) {
		table := newTable()
		errs := make(chan error, 8)
		for range cap(errs) {
			go func() { // ends with its answer, which the test waits for
				s, err := sqllease.New(direct, sqllease.Config{Table: table})
				if err == nil {
					err = s.EnsureTable(context.Background())
				}
				errs <- err
			}()
		}
		for range cap(errs) {
			assert.NoError(t, <-errs)
		}
	})

	t.Run("concurrent creations of one record only conflict", func(t *testing.T) {
		onlyOneCreates(t, leasesIn(t, direct, sqllease.Postgres, newTable()))
	})

	t.Run("a renewal is a heap-only update", func(t *testing.T) {
		ctx, table := context.Background(), newTable()
		s := leasesIn(t, direct, sqllease.Postgres, table)
		e, err := s.Create(ctx, leaderelect.Entry{Key: "lease", Term: 1, Value: []byte("a")})
		require.NoError(t, err)
		for range 20 {
			e, err = s.Update(ctx, e)
			require.NoError(t, err)
		}
		var updates, hot int
		require.Eventually(t, func() bool { // the server counts a moment later
			err := direct.QueryRow(`SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = $1`, table).Scan(&updates, &hot)
			return err == nil && updates == 20
		}, patience, 50*time.Millisecond)
		assert.Equal(t, 20, hot)
	})

	t.Run("a foreign key on the term is a guard", func(t *testing.T) {
		ctx, table := context.Background(), newTable()
		s := leasesIn(t, direct, sqllease.Postgres, table)
		e, err := s.Create(ctx, leaderelect.Entry{Key: "lease", Term: 1})
		require.NoError(t, err)
		_, err = direct.Exec(`CREATE TABLE by_` + table + ` (name text, term bigint, FOREIGN KEY (name, term) REFERENCES ` + table + ` (name, term))`)
		require.NoError(t, err)
		_, err = direct.Exec(`INSERT INTO by_` + table + ` VALUES ('lease', 2)`)
		require.Error(t, err)

		tx, err := direct.Begin()
		require.NoError(t, err)
		defer tx.Rollback()
		_, err = tx.Exec(`INSERT INTO by_` + table + ` VALUES ('lease', 1)`)
		require.NoError(t, err)
		e, err = s.Update(ctx, e) // does not wait
		require.NoError(t, err)
		e.Term = 2
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		_, err = s.Update(short, e) // waits
		require.Error(t, err)
		require.NotErrorIs(t, err, leaderelect.ErrConflict)
	})

	t.Run("histories are linearizable", func(t *testing.T) {
		linearizable(t, func(t *testing.T) cluster {
			table := newTable()
			c := cluster{restart: server.Restart}
			for range clients {
				p := servertest.NewProxy(t, server.Addr())
				c.proxies = append(c.proxies, p)
				c.stores = append(c.stores, leasesIn(t, openPostgres(t, "pgx", p.Addr()), sqllease.Postgres, table))
			}
			return c
		})
	})
}
