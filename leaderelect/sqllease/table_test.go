package sqllease_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
	"github.com/setpoint-go/setpoint/retry"
)

func TestMissingTableIsCreated(t *testing.T) {
	ctx := context.Background()
	server, s := newStore(t, sqllease.Config{})
	require.NoError(t, s.EnsureTable(ctx))
	assert.NotContains(t, server.log, s.DDL(), "the table exists, so EnsureTable needs no right to create it")

	server.table = false
	require.NoError(t, s.EnsureTable(ctx))
	assert.True(t, server.table)
	assert.True(t, slices.Contains(server.log, s.DDL()))
}

func TestConcurrentTableCreationSucceeds(t *testing.T) {
	server, s := newStore(t, sqllease.Config{})
	server.table = false
	server.after = func(query string) error {
		if strings.HasPrefix(query, "CREATE") {
			return errors.New("duplicate key in pg_type")
		}
		return nil
	}
	require.NoError(t, s.EnsureTable(context.Background()))

	server.table = false
	server.after = nil
	server.before = func(query string) error {
		if strings.HasPrefix(query, "CREATE") {
			return errNetwork
		}
		return nil
	}
	require.ErrorIs(t, s.EnsureTable(context.Background()), errNetwork)
}

func TestUnsafeTableIsRejectedWithRepairStatement(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*server)
		want   []string
	}{
		"no unique key on the name": {
			func(s *server) { s.keys = []string{"name,term"} },
			[]string{`no unique key on (name), so one lease could have several leaders; repair it with: CREATE UNIQUE INDEX "leases_name" ON "leases" (name)`},
		},
		"no unique key on name and term": {
			func(s *server) { s.keys = []string{"name"} },
			[]string{`no unique key on (name, term), so a takeover does not wait for guarded transactions; repair it with: CREATE UNIQUE INDEX "leases_name_term" ON "leases" (name, term)`},
		},
		"keys with an extra column": {
			func(s *server) { s.keys = []string{"name,zone", "name,term,zone"} },
			[]string{"no unique key on (name),", "no unique key on (name, term),"},
		},
		"only the name": {
			func(s *server) { s.types = map[string]string{"term": "-", "version": "-", "value": "-"} },
			[]string{"column term, version, value is missing", "Config.Table", `DROP TABLE "leases"; CREATE TABLE IF NOT EXISTS "leases"`},
		},
		"types that lose data": {
			func(s *server) {
				s.types = map[string]string{"name": "character(10)", "term": "integer", "value": "text"}
			},
			[]string{
				`column name has type "character(10)", must be text; repair it with: ALTER TABLE "leases" ALTER COLUMN name TYPE text`,
				`ALTER COLUMN term TYPE bigint`, `ALTER COLUMN value TYPE bytea`,
			},
		},
		"a column that is not written": {
			func(s *server) { s.extra = []driver.Value{"zone", "text", true} },
			[]string{`column zone needs a value that the store does not write; repair it with: ALTER TABLE "leases" DROP COLUMN "zone"`},
		},
		"a table that a crash empties": {
			func(s *server) { s.extra = []driver.Value{"(unlogged)", "", false} },
			[]string{`it forgets terms; repair it with: ALTER TABLE "leases" SET LOGGED`},
		},
	} {
		t.Run(what, func(t *testing.T) {
			server, s := newStore(t, sqllease.Config{})
			c.change(server)
			err := s.EnsureTable(t.Context())
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
			for line := range strings.Lines(err.Error()) {
				if strings.HasPrefix(line, "sqllease") {
					assert.True(t, strings.HasPrefix(line, `sqllease: check table "leases": `), line)
				}
			}
		})
	}
}

func TestUnsafeMySQLTableIsRejectedWithRepairStatement(t *testing.T) {
	for want, change := range map[string]func(*server){
		"the key on (name) is not the primary key, on which guards and renewals rely; repair it with: ALTER TABLE `leases` ADD PRIMARY KEY (name)": func(s *server) {
			s.keys = []string{"name ", "term,name"}
		},
		"so renewals wait for guarded transactions; repair it with: ALTER TABLE `leases` ADD UNIQUE (name, term)": func(s *server) {
			s.keys = []string{"name"}
		},
		`column name has type "varchar(255)", must be varbinary(2000); repair it with: ALTER TABLE ` + "`leases` MODIFY name varbinary(2000) NOT NULL": func(s *server) {
			s.types = map[string]string{"name": "varchar(255)"}
		},
		"repair it with: ALTER TABLE `leases` DROP COLUMN `zone`": func(s *server) { s.extra = []driver.Value{"zone", "text", true} },
		"its engine is MyISAM, must be InnoDB, so that a takeover waits for guarded transactions; repair it with: ALTER TABLE `leases` ENGINE=InnoDB": func(s *server) {
			s.extra = []driver.Value{"(engine)", "MyISAM", false}
		},
		"autocommit is off, so nothing would be committed: set autocommit=true": func(s *server) {
			s.extra = []driver.Value{"(autocommit)", "", false}
		},
	} {
		server, s := newStore(t, sqllease.Config{Dialect: sqllease.MySQL})
		require.NoError(t, s.EnsureTable(t.Context()))
		change(server)
		require.ErrorContains(t, s.EnsureTable(t.Context()), want)
	}
}

// The catalog of MySQL hides tables for which a role has no privilege.
func TestDeniedRoleIsNotToldToCreateTheTable(t *testing.T) {
	server, s := newStore(t, sqllease.Config{Dialect: sqllease.MySQL})
	server.table = false
	server.before = func(query string) error {
		if strings.Contains(query, "information_schema") {
			return nil
		}
		return mysqlError{1142}
	}
	for call, err := range everyCall(s) {
		assert.True(t, retry.IsPermanent(err), call)
		assert.ErrorIs(t, err, mysqlError{1142}, call)
		assert.NotContains(t, err.Error(), "EnsureTable", call)
	}
}

func TestTableWithExtraColumnsIsAccepted(t *testing.T) {
	server, s := newStore(t, sqllease.Config{})
	server.types = map[string]string{"name": "character varying"}
	server.extra = []driver.Value{"comment", "text", false}
	server.keys = []string{"name", "name,term", "version"}
	require.NoError(t, s.EnsureTable(t.Context()))
}

func TestCatalogReadErrorIsReturned(t *testing.T) {
	for _, part := range []string{"pg_index", "pg_class"} {
		server, s := newStore(t, sqllease.Config{})
		server.before = func(query string) error {
			if strings.Contains(query, part) {
				return errNetwork
			}
			return nil
		}
		require.ErrorIs(t, s.EnsureTable(t.Context()), errNetwork)
	}
}

// stateError is an error of a driver of Postgres, codeError one of a driver of SQLite, and mysqlError one of a driver of MySQL.
type (
	stateError string
	codeError  int
	mysqlError struct{ Number uint16 }
)

func (e mysqlError) Error() string { return fmt.Sprintf("Error %d", e.Number) }

func (e stateError) Error() string    { return "SQLSTATE " + string(e) }
func (e stateError) SQLState() string { return string(e) }
func (e codeError) Error() string     { return fmt.Sprintf("(%d)", int(e)) }
func (e codeError) Code() int         { return int(e) }

// everyCall makes every call of a store, and returns the errors by name.
func everyCall(s *sqllease.Store) map[string]error {
	errs := make(map[string]error)
	ctx := context.Background()
	_, errs["Get"] = s.Get(ctx, "lease")
	_, errs["Create"] = s.Create(ctx, leaderelect.Entry{Key: "lease", Term: 1})
	_, errs["Update"] = s.Update(ctx, leaderelect.Entry{Key: "lease", Version: "v", Term: 1})
	_, errs["List"] = s.List(ctx, "")
	return errs
}

func TestMissingTableIsAPermanentErrorThatNamesEnsureTable(t *testing.T) {
	server, s := newStore(t, sqllease.Config{})
	server.table = false
	for call, err := range everyCall(s) {
		assert.True(t, retry.IsPermanent(err), "%s: %v", call, err)
		assert.ErrorIs(t, err, errNoTable, call)
		assert.ErrorContains(t, err, `there is no table "leases": call EnsureTable, or execute its DDL: `, call)
	}
	server.table = true
	server.types = map[string]string{"version": "-"}
	server.before = func(query string) error {
		if strings.Contains(query, `FROM "leases"`) {
			return errNetwork
		}
		return nil
	}
	_, err := s.Get(t.Context(), "lease")
	assert.True(t, retry.IsPermanent(err))
	assert.ErrorContains(t, err, "column version is missing, so it is not a table of leases; ")
}

func TestOnlyErrorsThatLastArePermanent(t *testing.T) {
	for _, c := range []struct {
		dialect sqllease.Dialect
		err     error
		lasts   bool
	}{
		{sqllease.Postgres, stateError("42P01"), true},  // undefined table
		{sqllease.Postgres, stateError("42501"), true},  // no privilege
		{sqllease.Postgres, stateError("42601"), true},  // syntax
		{sqllease.Postgres, stateError("28P01"), true},  // wrong password
		{sqllease.Postgres, stateError("3D000"), true},  // no such database
		{sqllease.Postgres, stateError("3F000"), true},  // no such schema
		{sqllease.Postgres, stateError("25006"), false}, // a standby
		{sqllease.Postgres, stateError("40001"), false}, // serialization
		{sqllease.Postgres, stateError("53300"), false}, // too many connections
		{sqllease.Postgres, stateError("55P03"), false}, // a lock timeout
		{sqllease.Postgres, stateError("57014"), false}, // a statement timeout
		{sqllease.Postgres, stateError("57P01"), false}, // a shutdown
		{sqllease.Postgres, stateError("57P03"), false}, // a start
		{sqllease.Postgres, stateError("58030"), false}, // the disk
		{sqllease.Postgres, stateError(""), false},
		{sqllease.Postgres, errNetwork, false},
		{sqllease.SQLite, codeError(1), true},     // no such table
		{sqllease.SQLite, codeError(8), true},     // a read-only file
		{sqllease.SQLite, codeError(14), true},    // no such directory
		{sqllease.SQLite, codeError(26), true},    // no database
		{sqllease.SQLite, codeError(6), false},    // a lock of this process
		{sqllease.SQLite, codeError(10), false},   // the disk
		{sqllease.SQLite, codeError(13), false},   // a full disk
		{sqllease.SQLite, codeError(264), false},  // a recovery
		{sqllease.SQLite, codeError(517), false},  // an old snapshot
		{sqllease.SQLite, codeError(1032), false}, // a file that was replaced
		{sqllease.SQLite, errNetwork, false},
		{sqllease.MySQL, mysqlError{1146}, true},                             // no such table
		{sqllease.MySQL, fmt.Errorf("wrapped: %w", &mysqlError{1142}), true}, // no privilege
		{sqllease.MySQL, errors.Join(errNetwork, mysqlError{1045}), true},    // wrong password
		{sqllease.MySQL, mysqlError{1049}, true},                             // no such database
		{sqllease.MySQL, mysqlError{1064}, true},                             // syntax
		{sqllease.MySQL, mysqlError{1176}, true},                             // no such key
		{sqllease.MySQL, mysqlError{1040}, false},                            // too many connections
		{sqllease.MySQL, mysqlError{1203}, false},                            // too many connections of a user, SQLSTATE 42000
		{sqllease.MySQL, mysqlError{1053}, false},                            // a shutdown
		{sqllease.MySQL, mysqlError{1290}, false},                            // a replica, or a primary that was demoted
		{sqllease.MySQL, mysqlError{1317}, false},                            // interrupted
		{sqllease.MySQL, mysqlError{1969}, false},                            // max_statement_time
		{sqllease.MySQL, mysqlError{0}, false},
		{sqllease.MySQL, struct{ error }{errNetwork}, false},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			server, s := newStore(t, sqllease.Config{Dialect: c.dialect})
			server.before = func(query string) error {
				if strings.Contains(query, "pg_") || strings.Contains(query, "pragma_") || strings.Contains(query, "information_schema") {
					return nil // the table is all right
				}
				return c.err
			}
			for call, err := range everyCall(s) {
				assert.ErrorIs(t, err, c.err, call)
				assert.Equal(t, c.lasts, retry.IsPermanent(err), "%s: %v", call, err)
			}
		})
	}
}

func TestStoreThatHasWorkedSendsNothingMoreInAnOutage(t *testing.T) {
	server, s := newStore(t, sqllease.Config{})
	_, err := s.Get(t.Context(), "lease")
	require.ErrorIs(t, err, leaderelect.ErrNotFound)
	sent := 0
	server.before = func(string) error { sent++; return errNetwork }
	_, err = s.Get(t.Context(), "lease")
	require.ErrorIs(t, err, errNetwork)
	require.False(t, retry.IsPermanent(err))
	require.Equal(t, 1, sent)
}

func TestErrorOnOtherDatabaseNamesDialect(t *testing.T) {
	for _, c := range []struct {
		dialect    sqllease.Dialect
		only, want string
	}{
		{sqllease.Postgres, "sqlite_version", "Config.Dialect is Postgres, and the database is SQLite: set Config.Dialect to sqllease.SQLite: "},
		{sqllease.Postgres, "@@version_comment", "Config.Dialect is Postgres, and the database is MySQL: set Config.Dialect to sqllease.MySQL: "},
		{sqllease.SQLite, "current_setting", "Config.Dialect is SQLite, and the database is Postgres: set Config.Dialect to sqllease.Postgres: "},
		{sqllease.MySQL, "current_setting", "Config.Dialect is MySQL, and the database is Postgres: set Config.Dialect to sqllease.Postgres: "},
		{sqllease.MySQL, "sqlite_version", "Config.Dialect is MySQL, and the database is SQLite: set Config.Dialect to sqllease.SQLite: "},
	} {
		server, s := newStore(t, sqllease.Config{Dialect: c.dialect})
		server.before = func(query string) error {
			if strings.Contains(query, c.only) {
				return nil
			}
			return errNoTable
		}
		errs := everyCall(s)
		errs["EnsureTable"] = s.EnsureTable(t.Context())
		for call, err := range errs {
			assert.ErrorContains(t, err, c.want, call)
			assert.ErrorIs(t, err, errNoTable, call)
			assert.True(t, retry.IsPermanent(err), call)
		}
	}
}
