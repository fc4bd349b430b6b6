package sqllease_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
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
