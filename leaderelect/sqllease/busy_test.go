package sqllease_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
)

// sqliteError is an error of the driver modernc.org/sqlite.
type sqliteError int

func (e sqliteError) Code() int     { return int(e) }
func (e sqliteError) Error() string { return fmt.Sprintf("SQLite error %d", int(e)) }

// The codes of SQLite: the file is locked, another process repairs it after a crash, and the transaction has read a state that others have
// replaced.
const (
	busy         sqliteError = 5
	busyRecovery sqliteError = 261
	busySnapshot sqliteError = 517
)

// calls are all calls that wait for the lock of the file.
func calls(s *sqllease.Store) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Get":    func(ctx context.Context) error { _, err := s.Get(ctx, "lease"); return err },
		"List":   func(ctx context.Context) error { _, err := s.List(ctx, ""); return err },
		"Create": func(ctx context.Context) error { _, err := s.Create(ctx, leaderelect.Entry{Key: "new"}); return err },
		"Update": func(ctx context.Context) error {
			_, err := s.Update(ctx, leaderelect.Entry{Key: "lease", Version: "v", Term: 1})
			return err
		},
		"EnsureTable": s.EnsureTable,
		"Transact": func(ctx context.Context) error {
			work, depose := leaderelect.Appoint(ctx, "lease", 1)
			defer depose(nil)
			return s.Transact(work, func(*sql.Tx) error { return nil })
		},
	}
}

func TestSQLiteCallWaitsForLockUntilContextEnds(t *testing.T) {
	for name := range calls(nil) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, s := newStore(t, sqllease.Config{Dialect: sqllease.SQLite})
				server.rows["lease"] = []driver.Value{"lease", int64(1), "v", []byte("{}")}
				server.before = func(query string) error {
					if strings.HasPrefix(query, "ROLLBACK") {
						return nil
					}
					return busy
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				begin := time.Now()
				err := calls(s)[name](ctx)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorIs(t, err, busy)
				assert.Equal(t, time.Second, time.Since(begin))

				synctest.Wait() // database/sql rolls back in the background
				released := time.Now().Add(time.Second)
				server.before = func(string) error {
					if time.Now().Before(released) {
						return busyRecovery
					}
					return nil
				}
				server.types = map[string]string{"value": "blob"}
				require.NoError(t, calls(s)[name](t.Context()))
				assert.WithinDuration(t, released, time.Now(), 10*time.Millisecond)
			})
		})
	}
}

// After a deadlock the server has undone the transaction, and what came next would be on its own. So Transact begins another one.
func TestMySQLStatementThatWasUndoneIsRepeated(t *testing.T) {
	for number, undone := range map[uint16]bool{1205: true, 1213: true, 1317: false, 1062: false} {
		for name := range calls(nil) {
			t.Run(fmt.Sprint(name, number), func(t *testing.T) {
				server, s := newStore(t, sqllease.Config{Dialect: sqllease.MySQL})
				server.rows["lease"] = []driver.Value{"lease", int64(1), "v", []byte("{}")}
				failed := false
				server.before = func(query string) error {
					switch {
					case query == "BEGIN":
						server.log = append(server.log, query)
					case query != "ROLLBACK" && !failed:
						failed = true
						server.log = append(server.log, "FAILED")
						return mysqlError{number}
					}
					return nil
				}
				err := calls(s)[name](t.Context())
				switch {
				case number == 1062 && (name == "Create" || name == "Update"): // a unique key has the value
					require.ErrorIs(t, err, leaderelect.ErrConflict)
				case undone:
					require.NoError(t, err)
				default:
					require.ErrorIs(t, err, mysqlError{number})
					require.NotErrorIs(t, err, leaderelect.ErrConflict)
				}
				if name == "Transact" && undone {
					require.Equal(t, []string{"BEGIN", "FAILED", "ROLLBACK", "BEGIN", s.GuardQuery(), "COMMIT"}, server.log)
				}
			})
		}
	}
}

func TestCauseOfContextIsNoAnswer(t *testing.T) {
	for _, dialect := range []sqllease.Dialect{sqllease.SQLite, sqllease.Postgres, sqllease.MySQL} {
		_, s := newStore(t, sqllease.Config{Dialect: dialect})
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(sql.ErrNoRows) // as an errgroup does after a query without a result
		_, err := s.Get(ctx, "lease")
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, leaderelect.ErrNotFound)
	}
}

func TestOtherErrorsAreNotRetried(t *testing.T) {
	for what, c := range map[string]struct {
		dialect sqllease.Dialect
		err     sqliteError
	}{
		"a transaction on an old snapshot": {sqllease.SQLite, busySnapshot},
		"on Postgres":                      {sqllease.Postgres, busy},
	} {
		t.Run(what, func(t *testing.T) {
			server, s := newStore(t, sqllease.Config{Dialect: c.dialect})
			server.before = func(query string) error {
				if strings.HasPrefix(query, "ROLLBACK") {
					return nil
				}
				return c.err
			}
			for name, call := range calls(s) {
				require.ErrorIs(t, call(t.Context()), c.err, name)
			}
		})
	}
}
