package sqllease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-go/setpoint/retry"
)

// DDL returns the statement that creates the table, for schema migrations.
func (s *Store) DDL() string { return s.stmt.create }

// EnsureTable creates the table if it does not exist, and then checks its columns, their types, and its unique keys.
// Without those keys, a lease could have two leaders, or a takeover would not wait for guarded transactions. The error
// names every problem, with the statement that repairs it. If a column is missing, it names only that, because the table
// is none of leases.
//
// Several processes may call EnsureTable at once. If the table exists, the role needs no privilege to create one. So call
// it even if a migration creates the table.
func (s *Store) EnsureTable(ctx context.Context) error {
	have, err := s.inspect(ctx)
	if err == nil && len(have.columns) == 0 {
		failed := s.whileBusy(ctx, func() error {
			_, err := s.db.ExecContext(ctx, s.stmt.create)
			return err
		})
		have, err = s.inspect(ctx)
		if err == nil && len(have.columns) == 0 { // otherwise another process has created it at the same time
			if failed == nil {
				failed = errors.New("it does not exist after CREATE TABLE")
			}
			return fmt.Errorf("sqllease: create table %s: %w", s.stmt.table, failed)
		}
	}
	if err != nil {
		if reason := s.wrongDialect(ctx); reason != "" {
			err = retry.Permanent(fmt.Errorf("%s: %w", reason, err))
		}
		return fmt.Errorf("sqllease: check table %s: %w", s.stmt.table, err)
	}
	var errs []error
	for _, problem := range s.problems(have) {
		errs = append(errs, fmt.Errorf("sqllease: check table %s: %s", s.stmt.table, problem))
	}
	return errors.Join(errs...)
}

// table describes a table in the catalog of the database.
type table struct {
	columns []column            // none if there is no such table
	unique  map[string][]string // the columns of each unique key that has no condition, sorted, by the name of the key
}

// column is one column of a table.
type column struct {
	name, kind string
	required   bool // an INSERT without it fails
}

// inspect reads the catalog.
func (s *Store) inspect(ctx context.Context) (have table, err error) {
	err = s.whileBusy(ctx, func() error {
		have, err = s.read(ctx)
		return err
	})
	return have, err
}

func (s *Store) read(ctx context.Context) (have table, err error) {
	rows, err := s.db.QueryContext(ctx, s.stmt.columns)
	if err != nil {
		return have, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var c column
		if err := rows.Scan(&c.name, &c.kind, &c.required); err != nil {
			return have, err
		}
		have.columns = append(have.columns, c)
	}
	if err := rows.Err(); err != nil || len(have.columns) == 0 {
		return have, err
	}
	have.unique, err = s.uniqueKeys(ctx)
	return have, err
}

// uniqueKeys reads the unique keys from the catalog.
func (s *Store) uniqueKeys(ctx context.Context) (keys map[string][]string, err error) {
	rows, err := s.db.QueryContext(ctx, s.stmt.keys)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	keys = make(map[string][]string)
	for rows.Next() {
		var index, column string
		if err := rows.Scan(&index, &column); err != nil {
			return nil, err
		}
		keys[index] = append(keys[index], column)
	}
	for _, columns := range keys {
		slices.Sort(columns)
	}
	return keys, rows.Err()
}

// problems returns everything that is wrong with the table, each with its repair.
func (s *Store) problems(have table) (all []string) {
	if engine, ok := have.column(otherEngine); ok { // first, because MyISAM has no keys on names that are as long as ours
		all = append(all, fmt.Sprintf("its engine is %s, must be InnoDB, so that a takeover waits for guarded transactions; "+
			"repair it with: ALTER TABLE %s ENGINE=InnoDB", engine.kind, s.stmt.table))
	}
	var missing []string
	for _, want := range []string{"name", "term", "version", "value"} {
		c, ok := have.column(want)
		if !ok {
			missing = append(missing, want)
			continue
		}
		if is := c.kind; !slices.Contains(s.stmt.kinds[want], is) {
			kind := s.stmt.kinds[want][0]
			all = append(all, fmt.Sprintf("column %s has type %q, must be %s; repair it with: %s", want, is, kind, s.stmt.retype(want, kind)))
		}
	}
	if len(missing) > 0 {
		return []string{fmt.Sprintf("column %s is missing, so it is not a table of leases; "+
			"name another one in Config.Table, or, if nothing uses this one, replace it with: DROP TABLE %s; %s",
			strings.Join(missing, ", "), s.stmt.table, s.stmt.inLine())}
	}
	for _, c := range have.columns {
		if c.required && s.stmt.kinds[c.name] == nil {
			all = append(all, fmt.Sprintf("column %s needs a value that the store does not write; repair it with: %s", c.name, s.stmt.drop(c.name)))
		}
	}
	nameKey := s.stmt.addKey("name")
	if s.stmt.dialect == MySQL {
		nameKey = s.stmt.primaryKey(have)
	}
	if collation := have.collation(); collation != "" {
		all = append(all, fmt.Sprintf("names compare with collation %s, so two keys could be one lease; repair it with: %s", collation, s.stmt.rebuild()))
	} else if !have.hasKey("name") {
		all = append(all, "there is no unique key on (name), so one lease could have several leaders; repair it with: "+nameKey)
	} else if s.stmt.dialect == MySQL && !slices.Equal(have.unique["PRIMARY"], []string{"name"}) {
		all = append(all, "the key on (name) is not the primary key, on which guards and renewals rely; repair it with: "+nameKey)
	}
	if s.stmt.dialect != SQLite && !have.hasKey("name", "term") {
		effect := "a takeover does not wait for guarded transactions"
		if s.stmt.dialect == MySQL {
			effect = "renewals wait for guarded transactions"
		}
		all = append(all, fmt.Sprintf("there is no unique key on (name, term), so %s; repair it with: %s", effect, s.stmt.addKey("name", "term")))
	}
	if have.has(unlogged) {
		all = append(all, fmt.Sprintf("it is unlogged or temporary, so it forgets terms; repair it with: ALTER TABLE %s SET LOGGED", s.stmt.table))
	}
	if have.has(noAutocommit) {
		all = append(all, "autocommit is off, so nothing would be committed: set autocommit=true in the data source name of the driver")
	}
	return all
}

// hasKey reports whether there is a unique key on exactly these columns. columns is sorted.
func (t table) hasKey(columns ...string) bool {
	for _, key := range t.unique {
		if slices.Equal(key, columns) {
			return true
		}
	}
	return false
}

// collation returns the collation of the name column, or "" if a key compares names by bytes.
func (t table) collation() string {
	for _, key := range t.unique {
		for _, column := range key {
			if collation, ok := strings.CutPrefix(column, "name COLLATE "); ok {
				return collation
			}
		}
	}
	return ""
}

// column returns the column with a name, if there is one.
func (t table) column(name string) (c column, ok bool) {
	i := slices.IndexFunc(t.columns, func(c column) bool { return c.name == name })
	if i < 0 {
		return column{}, false
	}
	return t.columns[i], true
}

// has reports whether there is a column.
func (t table) has(name string) bool {
	_, ok := t.column(name)
	return ok
}
