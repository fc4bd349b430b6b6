package sqllease_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
)

func TestMissingTableIsCreated(t *testing.T) {
	ctx := context.Background()
	server, s := newStore(t, sqllease.Config{})
	if err := s.EnsureTable(ctx); err != nil {
		t.Fatalf("s.EnsureTable(ctx): %v", err)
	}
	if slices.Contains(server.log, s.DDL()) {
		t.Errorf("the table exists, so EnsureTable needs no right to create it: server.log = %v, want it not to contain %v", server.log, s.DDL())
	}

	server.table = false
	if err := s.EnsureTable(ctx); err != nil {
		t.Fatalf("s.EnsureTable(ctx): %v", err)
	}
	if !server.table {
		t.Error("server.table is false")
	}
	if !slices.Contains(server.log, s.DDL()) {
		t.Errorf("server.log = %q, want it to contain %q", server.log, s.DDL())
	}
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
	if err := s.EnsureTable(context.Background()); err != nil {
		t.Fatalf("s.EnsureTable(context.Background()): %v", err)
	}

	server.table = false
	server.after = nil
	server.before = func(query string) error {
		if strings.HasPrefix(query, "CREATE") {
			return errNetwork
		}
		return nil
	}
	if err := s.EnsureTable(context.Background()); !errors.Is(err, errNetwork) {
		t.Fatalf("s.EnsureTable(context.Background()) = %v, want %v", err, errNetwork)
	}
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
				if got := fmt.Sprint(err); !strings.Contains(got, want) {
					t.Fatalf("err = %q, want an error that contains %q", got, want)
				}
			}
			for line := range strings.Lines(err.Error()) {
				if strings.HasPrefix(line, "sqllease") {
					if !strings.HasPrefix(line, `sqllease: check table "leases": `) {
						t.Errorf("%v: strings.HasPrefix(line, `sqllease: check table \"leases\": `) is false", line)
					}
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
	if err := s.EnsureTable(t.Context()); err != nil {
		t.Fatalf("s.EnsureTable(ctx): %v", err)
	}
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
		if err := s.EnsureTable(t.Context()); !errors.Is(err, errNetwork) {
			t.Fatalf("s.EnsureTable(ctx) = %v, want %v", err, errNetwork)
		}
	}
}
