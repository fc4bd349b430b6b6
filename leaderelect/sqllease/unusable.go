package sqllease

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-go/setpoint/retry"
)

// call is whileBusy for a statement on the table. If no call can work, it marks the error with retry.Permanent, and says what to do.
func (s *Store) call(ctx context.Context, f func() error) error {
	err := s.whileBusy(ctx, f)
	if err == nil || errors.Is(err, sql.ErrNoRows) {
		s.works.Store(true)
		return err
	}
	if ctx.Err() != nil {
		return err
	}
	lasting := isLasting(err)
	if s.works.Load() && !lasting {
		return err // an outage, which must not cause more statements
	}
	if slices.Contains(mysqlDenied, mysqlNumber(err)) {
		return retry.Permanent(err)
	}
	if reason := s.reason(ctx); reason != "" {
		return retry.Permanent(fmt.Errorf("%s: %w", reason, err))
	}
	if lasting {
		return retry.Permanent(err)
	}
	return err
}

// reason returns why no statement on the table can work, and what to do; "" if the table does not show that.
func (s *Store) reason(ctx context.Context) string {
	have, err := s.inspect(ctx)
	switch {
	case err != nil:
		return s.wrongDialect(ctx)
	case len(have.columns) == 0:
		return fmt.Sprintf("there is no table %s: call EnsureTable, or execute its DDL", s.stmt.table)
	}
	for _, problem := range s.problems(have) {
		if strings.HasSuffix(problem, s.stmt.inLine()) { // a column is missing
			return problem
		}
	}
	return ""
}

// only has a statement of each dialect that the others do not have.
var only = map[Dialect]string{
	Postgres: `SELECT current_setting('server_version_num')`,
	SQLite:   `SELECT sqlite_version()`,
	MySQL:    `SELECT @@version_comment`,
}

// wrongDialect returns what to do if the database has another dialect; otherwise "". It is called after a statement of the dialect has
// failed.
func (s *Store) wrongDialect(ctx context.Context) string {
	for _, other := range dialects {
		if other == s.stmt.dialect {
			continue
		}
		var version string
		err := s.whileBusy(ctx, func() error { return s.db.QueryRowContext(ctx, only[other]).Scan(&version) })
		if err == nil {
			return fmt.Sprintf("Config.Dialect is %v, and the database is %v: set Config.Dialect to sqllease.%v", s.stmt.dialect, other, other)
		}
	}
	return ""
}

// isLasting reports whether an outage cannot cause err. Drivers of Postgres report a SQLSTATE, drivers of SQLite a result
// code, and drivers of MySQL an error number: its SQLSTATE 42000 also has too many connections.
func isLasting(err error) bool {
	if number := mysqlNumber(err); number != 0 {
		return slices.Contains(mysqlDenied, number) || slices.Contains(mysqlUnusable, number)
	}
	if e, ok := errorWith[interface{ SQLState() string }](err); ok {
		state := e.SQLState()
		// Class 42 is a missing table or column, no privilege, or a syntax error. The others are a wrong password or role, a
		// missing database, and a missing schema. A standby (25006) and a server that starts (57P03) are in other classes.
		return len(state) == 5 && slices.Contains([]string{"42", "28", "3D", "3F"}, state[:2])
	}
	if e, ok := errorWith[interface{ Code() int }](err); ok {
		return slices.Contains([]int{sqliteError, sqlitePerm, sqliteReadOnly, sqliteCantOpen, sqliteAuth, sqliteNotADatabase, sqliteReadOnlyDirectory}, e.Code())
	}
	return false
}

// Result codes of SQLite, without the variants that pass by themselves.
const (
	sqliteError             = 1 // no such table, or a syntax error
	sqlitePerm              = 3
	sqliteReadOnly          = 8
	sqliteCantOpen          = 14
	sqliteAuth              = 23
	sqliteNotADatabase      = 26
	sqliteReadOnlyDirectory = 1544
)

// errorWith returns the first error in the tree of err that is a T.
func errorWith[T any](err error) (T, bool) {
	var e T
	ok := errors.As(err, &e)
	return e, ok
}
