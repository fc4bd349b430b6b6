package sqllease_test

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
)

var errNoTable = errors.New("no such table")

// server is a database that knows the statements of the package and nothing else. It tells them apart by how they begin.
type server struct {
	mu sync.Mutex
	// mu guards the following.
	table bool
	extra []driver.Value            // one more column, as the catalog has it: name, type, whether it is required
	types map[string]string         // of columns, instead of those of the package; "-" is no such column
	keys  []string                  // the unique keys, columns with a comma between them; nil is those of the package
	rows  map[string][]driver.Value // name, term, version, value
	log   []string                  // of statements

	// before and after a statement has had its effect; nil is nothing. They are called without mu.
	before, after func(query string) error
}

type column struct{ name, kind string }

// open returns a server with a table, and a pool of connections to it.
func open(t testing.TB) (*server, *sql.DB) {
	t.Helper()
	s := &server{table: true, rows: make(map[string][]driver.Value)}
	db := sql.OpenDB(s)
	t.Cleanup(func() { _ = db.Close() })
	return s, db
}

func (s *server) Connect(context.Context) (driver.Conn, error) { return conn{s}, nil }
func (s *server) Driver() driver.Driver                        { return nil }

// conn is a connection. Its transactions are not isolated.
type conn struct{ *server }

func (c conn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (c conn) Close() error                        { return nil }

// Begin may find the file locked, as BEGIN IMMEDIATE does.
func (c conn) Begin() (driver.Tx, error) {
	if c.before != nil {
		if err := c.before("BEGIN"); err != nil {
			return nil, err
		}
	}
	return tx(c), nil
}

func (c conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	rows, err := c.do(ctx, query, args)
	return driver.RowsAffected(len(rows)), err
}

func (c conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.do(ctx, query, args)
	if err != nil {
		return nil, err
	}
	return &cursor{rows: rows}, nil
}

// do executes a statement, between the faults.
func (c conn) do(ctx context.Context, query string, args []driver.NamedValue) (rows [][]driver.Value, err error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if c.before != nil {
		err = c.before(query)
	}
	if err == nil {
		rows, err = c.execute(query, args)
	}
	if err == nil && c.after != nil {
		err = c.after(query)
	}
	return rows, err
}

// execute returns the rows that a statement returns or changes.
func (s *server) execute(query string, args []driver.NamedValue) (out [][]driver.Value, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, query)
	arg := func(i int) driver.Value { return args[i-1].Value }
	word := strings.Fields(query)[0]
	switch {
	case word == "CREATE":
		s.table = true
	case word == "COMMIT" || word == "ROLLBACK":
	case strings.Contains(query, "_version"), strings.Contains(query, "@@version"): // of one dialect; a test refuses the other
		return [][]driver.Value{{"3"}}, nil
	case strings.Contains(query, "pg_index"), strings.Contains(query, "pragma_index"), strings.Contains(query, ".statistics"):
		keys := s.keys
		if keys == nil {
			keys = []string{"name", "term,name"}
		}
		for _, key := range keys {
			if strings.Contains(query, ".statistics") && key == "name" {
				out = append(out, []driver.Value{"PRIMARY", "name"})
				continue
			}
			for column := range strings.SplitSeq(strings.TrimSpace(key), ",") {
				out = append(out, []driver.Value{key, column})
			}
		}
	case strings.Contains(query, "pg_attribute"), strings.Contains(query, "pragma_table_info"), strings.Contains(query, ".columns"):
		if !s.table {
			return nil, nil
		}
		columns := []column{{"name", "text"}, {"term", "bigint"}, {"version", "text"}, {"value", "bytea"}}
		if strings.Contains(query, ".columns") {
			columns = []column{{"name", "varbinary(2000)"}, {"term", "bigint(20)"}, {"version", "varbinary(255)"}, {"value", "longblob"}}
		}
		for _, c := range columns {
			if kind := cmp.Or(s.types[c.name], c.kind); kind != "-" {
				out = append(out, []driver.Value{c.name, kind, true})
			}
		}
		if s.extra != nil {
			out = append(out, s.extra)
		}
	case !s.table:
		return nil, errNoTable
	case word == "INSERT":
		if name := text(arg(4)); s.rows[name] == nil {
			s.rows[name] = []driver.Value{name, arg(1), arg(2), slices.Clone(arg(3).([]byte))}
			return [][]driver.Value{nil}, nil
		} else if strings.Contains(query, "`") {
			return nil, mysqlError{Number: 1062}
		}
	case word == "UPDATE" && len(args) == 5:
		if row := s.rows[text(arg(4))]; row != nil && row[2] == arg(5) {
			s.rows[text(arg(4))] = []driver.Value{text(arg(4)), arg(1), arg(2), slices.Clone(arg(3).([]byte))}
			return [][]driver.Value{nil}, nil
		}
	case strings.Contains(query, "substr"), strings.Contains(query, "locate"):
		for _, name := range slices.Sorted(maps.Keys(s.rows)) {
			if strings.HasPrefix(name, text(arg(1))) {
				out = append(out, s.rows[name])
			}
		}
	case strings.Contains(query, "count(*)"):
		n := int64(0)
		if row := s.rows[text(arg(1))]; row != nil && row[2] == arg(2) {
			n = 1
		}
		return [][]driver.Value{{n}}, nil
	case strings.Contains(query, "AND term"):
		if row := s.rows[text(arg(1))]; row != nil && row[1] == arg(2) {
			return [][]driver.Value{{int64(1)}}, nil
		}
	default: // get
		if row := s.rows[text(arg(1))]; row != nil {
			return [][]driver.Value{row[1:]}, nil
		}
	}
	return out, nil
}

// text is a parameter that is text, or bytes in MySQL.
func text(v driver.Value) string {
	if b, ok := v.([]byte); ok {
		return string(b)
	}
	return v.(string)
}

// tx is a transaction.
type tx conn

func (t tx) Commit() error {
	_, err := conn(t).do(context.Background(), "COMMIT", nil)
	return err
}

func (t tx) Rollback() error {
	_, err := conn(t).do(context.Background(), "ROLLBACK", nil)
	return err
}

// cursor is a result.
type cursor struct{ rows [][]driver.Value }

func (c *cursor) Columns() []string {
	if len(c.rows) == 0 {
		return make([]string, 4)
	}
	return make([]string, len(c.rows[0]))
}

func (c *cursor) Close() error { return nil }

func (c *cursor) Next(dest []driver.Value) error {
	if len(c.rows) == 0 {
		return io.EOF
	}
	copy(dest, c.rows[0])
	c.rows = c.rows[1:]
	return nil
}
