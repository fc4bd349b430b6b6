//go:build linux

package backendtest

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
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
	db, err := newMariaDB(user, addr, "test", options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func newMariaDB(user, addr, database, options string) (*sql.DB, error) {
	cfg, err := mysql.ParseDSN(user + "@tcp(" + addr + ")/" + database + "?" + options)
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

// The options of the driver: one that store/mysql/README.md recommends, and its defaults, with other meanings of affected rows.
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

	t.Run("keys compare by bytes", func(t *testing.T) {
		ctx, table := context.Background(), newTable()
		for _, options := range []string{recommended, foundRows, "charset=latin1&interpolateParams=true", "charset=utf8"} {
			s := leasesIn(t, openMariaDB(t, "root", server.Addr(), options), sqllease.MySQL, table)
			keys := []string{"acme", "ACME", "acme ", "acm\u00e9", "acme\x00", "\xff", "日本", "\U0001f600", "", " ", strings.Repeat("k", 1999) + "a", strings.Repeat("k", 1999) + "b"}
			for i, key := range keys {
				_, err := s.Create(ctx, leaderelect.Entry{Key: key, Value: []byte(key), Term: uint64(i)})
				require.NoError(t, err, "%q", key)
				_, err = s.Create(ctx, leaderelect.Entry{Key: key})
				require.ErrorIs(t, err, leaderelect.ErrConflict, "%q", key)
			}
			list, err := s.List(ctx, "")
			require.NoError(t, err)
			require.Len(t, list, len(keys))
			for i, key := range keys {
				e, err := s.Get(ctx, key)
				require.NoError(t, err)
				require.Equal(t, key, string(e.Value))
				e, err = s.Update(ctx, e)
				require.NoError(t, err)
				stale := e
				_, err = s.Update(ctx, e)
				require.NoError(t, err)
				_, err = s.Update(ctx, stale)
				require.ErrorIs(t, err, leaderelect.ErrConflict)
				require.NoError(t, guardOf(direct, s)(ctx, key, uint64(i), func() {}))
			}
			_, err = direct.Exec(`DELETE FROM ` + table)
			require.NoError(t, err)
		}
	})

	t.Run("a statement that has waited for innodb_lock_wait_timeout is repeated until its context ends", func(t *testing.T) {
		ctx, table := context.Background(), newTable()
		s := leasesIn(t, openMariaDB(t, "root", server.Addr(), "innodb_lock_wait_timeout=1"), sqllease.MySQL, table)
		e, err := s.Create(ctx, leaderelect.Entry{Key: "lease", Term: 1})
		require.NoError(t, err)
		tx, err := direct.Begin()
		require.NoError(t, err)
		defer tx.Rollback()
		_, err = tx.Exec(`SELECT 1 FROM ` + table + ` FOR UPDATE`)
		require.NoError(t, err)
		short, cancel := context.WithTimeout(ctx, 1500*time.Millisecond)
		defer cancel()
		_, err = s.Update(short, e)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, leaderelect.ErrConflict)
		release := time.AfterFunc(2500*time.Millisecond, func() { _ = tx.Rollback() })
		defer release.Stop()
		began := time.Now()
		_, err = s.Update(ctx, e)
		if err != nil { // the call whose context has ended may have been done
			require.ErrorIs(t, err, leaderelect.ErrConflict)
		}
		require.Greater(t, time.Since(began), 2*time.Second)
	})

	t.Run("many processes create a table at once", func(t *testing.T) {
		table := newTable()
		errs := make(chan error, 8)
		for range cap(errs) {
			go func() { // ends with its answer, which the test waits for
				s, err := sqllease.New(direct, sqllease.Config{Dialect: sqllease.MySQL, Table: table})
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
		onlyOneCreates(t, leasesIn(t, direct, sqllease.MySQL, newTable()))
	})

	t.Run("histories are linearizable", func(t *testing.T) {
		linearizable(t, func(t *testing.T) cluster {
			table := newTable()
			c := cluster{restart: server.Restart}
			for range clients {
				p := servertest.NewProxy(t, server.Addr())
				c.proxies = append(c.proxies, p)
				c.stores = append(c.stores, leasesIn(t, openMariaDB(t, "root", p.Addr(), recommended), sqllease.MySQL, table))
			}
			return c
		})
	})
}

// levels are the isolation levels in which a guard is used.
var levels = []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelReadCommitted}

// lockWaits waits until n statements wait for row locks. INNODB_TRX would remain as it was first read, if it is read all the time.
func lockWaits(t testing.TB, db *sql.DB, n int) {
	t.Helper()
	awaitCount(t, db, n, `SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS'`)
}

// A guard and a takeover that overlap come one after the other, whichever is first.
func TestMariaDBGuardAndTakeoverExcludeEachOther(t *testing.T) {
	t.Parallel()
	server := servertest.MariaDB(t, "innodb-flush-log-at-trx-commit=2")
	db := openMariaDB(t, "root", server.Addr(), "interpolateParams=true&innodb_lock_wait_timeout=30")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i, level := range levels {
		setUp := func(t *testing.T, name string) (*sqllease.Store, leaderelect.Entry) {
			s := leasesIn(t, db, sqllease.MySQL, fmt.Sprintf("%s_%d", name, i))
			e, err := s.Create(ctx, leaderelect.Entry{Key: "lease", Term: 7})
			require.NoError(t, err)
			_, err = s.Create(ctx, leaderelect.Entry{Key: "lease2", Term: 7})
			require.NoError(t, err)
			return s, e
		}
		begin := func(t *testing.T) *sql.Tx {
			tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
			require.NoError(t, err)
			t.Cleanup(func() { _ = tx.Rollback() })
			return tx
		}
		t.Run(fmt.Sprint(level, ", the guard is first"), func(t *testing.T) {
			s, e := setUp(t, "guard")
			one, two := begin(t), begin(t)
			require.NoError(t, s.GuardTerm(ctx, one, "lease", 7))
			require.NoError(t, s.GuardTerm(ctx, two, "lease", 7), "guards do not wait for each other")
			for range 3 {
				var err error
				e, err = s.Update(ctx, e)
				require.NoError(t, err, "renewals do not wait")
			}
			lockWaits(t, db, 0)
			taken := make(chan error, 1)
			go func() { // ends when both transactions have
				next := e
				next.Term = 8
				_, err := s.Update(ctx, next)
				taken <- err
			}()
			lockWaits(t, db, 1)
			require.NoError(t, one.Commit())
			lockWaits(t, db, 1)
			require.Empty(t, taken, "the takeover waits for both")
			require.NoError(t, s.GuardTerm(ctx, two, "lease", 7), "it is still guarded")
			require.NoError(t, two.Commit())
			require.NoError(t, <-taken)
			require.ErrorIs(t, s.GuardTerm(ctx, begin(t), "lease", 7), sqllease.ErrFenced)
			require.NoError(t, s.GuardTerm(ctx, begin(t), "lease", 8))
		})
		for _, commits := range []bool{true, false} {
			t.Run(fmt.Sprint(level, ", the takeover is first and commits: ", commits), func(t *testing.T) {
				table := fmt.Sprint("takeover_", commits)
				s, _ := setUp(t, table)
				takeover, fresh, old := begin(t), begin(t), begin(t)
				var n int
				require.NoError(t, old.QueryRow(fmt.Sprintf("SELECT count(*) FROM %s_%d", table, i)).Scan(&n), "it has a snapshot")
				_, err := takeover.Exec(fmt.Sprintf("UPDATE %s_%d SET term = 8, version = 'b' WHERE name = 'lease'", table, i))
				require.NoError(t, err)
				guarded := make(chan error, 2)
				for _, tx := range []*sql.Tx{fresh, old} {
					go func() { guarded <- s.GuardTerm(ctx, tx, "lease", 7) }() // ends when the takeover has
				}
				lockWaits(t, db, 2)
				require.NoError(t, s.GuardTerm(ctx, begin(t), "lease2", 7), "the guard of another lease does not wait")
				require.Empty(t, guarded)
				end := takeover.Rollback
				if commits {
					end = takeover.Commit
				}
				require.NoError(t, end())
				for range cap(guarded) {
					if err := <-guarded; commits {
						require.ErrorIs(t, err, sqllease.ErrFenced)
					} else {
						require.NoError(t, err)
					}
				}
			})
		}
	}
}

// A deadlock ends a transaction in the server, with its guard, and sql.Tx does not know. store/mysql/README.md says so.
func TestMariaDBDeadlockEndsGuard(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := openMariaDB(t, "root", servertest.MariaDB(t, "innodb-flush-log-at-trx-commit=2").Addr(), recommended)
	s := leasesIn(t, db, sqllease.MySQL, "leases")
	e, err := s.Create(ctx, leaderelect.Entry{Key: "lease", Term: 1})
	require.NoError(t, err)
	for _, statement := range []string{`CREATE TABLE work (id int PRIMARY KEY, v int)`, `INSERT INTO work SELECT seq, 0 FROM seq_1_to_100`} {
		_, err := db.Exec(statement)
		require.NoError(t, err)
	}
	guarded, other := must(db.Begin()), must(db.Begin())
	defer other.Rollback()
	_, err = other.Exec(`UPDATE work SET v = 1 WHERE id > 2`) // so much that it survives the deadlock
	require.NoError(t, err)
	require.NoError(t, s.GuardTerm(ctx, guarded, "lease", 1))
	_, err = guarded.Exec(`UPDATE work SET v = 2 WHERE id = 1`)
	require.NoError(t, err)
	waits := make(chan error, 1)
	go func() { // ends with the deadlock
		_, err := other.Exec(`UPDATE work SET v = 1 WHERE id = 1`)
		waits <- err
	}()
	lockWaits(t, db, 1)
	_, err = guarded.Exec(`UPDATE work SET v = 2 WHERE id = 3`)
	require.ErrorIs(t, err, &mysql.MySQLError{Number: 1213})
	require.NoError(t, <-waits)

	e.Term = 2
	_, err = s.Update(ctx, e)
	require.NoError(t, err, "nothing guards the term any more")
	_, err = guarded.Exec(`UPDATE work SET v = 2 WHERE id = 2`)
	require.NoError(t, err)
	require.NoError(t, guarded.Rollback())
	var v int
	require.NoError(t, db.QueryRow(`SELECT v FROM work WHERE id = 2`).Scan(&v))
	require.Equal(t, 2, v, "it was on its own")
}
