package usertable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/setpoint-go/setpoint/internal/rowscan"
)

// Column is a column of a table.
type Column struct {
	Name, Nullable, Kind, Definition, Charset, Collation, Fallback, Extra, Generated string
}

// IsText reports whether the column has a collation.
func (c Column) IsText() bool { return c.Collation != "" }

// SQL returns the type of the column, and its collation.
func (c Column) SQL() string {
	text := c.Definition
	if c.IsText() {
		text += " CHARACTER SET " + c.Charset + " COLLATE " + c.Collation
	}
	return text + " NULL DEFAULT NULL"
}

// Named is what a Config names.
type Named struct {
	Table        string
	Key, Columns []string // empty for the defaults
}

// MaxName is the number of characters that a name may have.
const MaxName = 64

// Problems returns what is wrong with the names.
func (w Named) Problems() (errs []error) {
	for i, name := range w.Columns {
		errs = append(errs, ProblemsOfName(fmt.Sprintf("Columns[%d]", i), name, MaxName)...)
	}
	for i, name := range w.Key {
		errs = append(errs, ProblemsOfName(fmt.Sprintf("Key[%d]", i), name, MaxName)...)
	}
	return append(errs, ProblemsOfName("Table", w.Table, MaxName)...)
}

// ProblemsOfName returns what is wrong with a name in a field of a TableConfig, which may have some characters at most.
func ProblemsOfName(field, name string, most int) (errs []error) {
	if name == "" {
		errs = append(errs, fmt.Errorf("TableConfig.%s is empty", field))
	}
	if strings.ContainsRune(name, 0) || !utf8.ValidString(name) {
		errs = append(errs, fmt.Errorf("TableConfig.%s is %q, must be UTF-8 without NUL", field, name))
	}
	if n := utf8.RuneCountInString(name); n > most {
		errs = append(errs, fmt.Errorf("TableConfig.%s has %d characters, must not have more than %d", field, n, most))
	}
	return errs
}

// Schema is what the server says about a table.
type Schema struct {
	Database string
	Table    string // as the server writes it
	Kind     string // BASE TABLE, for example
	Fold     bool   // the server takes upper and lower case letters of names of tables for the same
	Key      []Column
	Columns  []Column // that the program reads
	All      []Column // in the order of the table
}

// Is reports whether a name of a table is one that is wanted.
func (s Schema) Is(name, want string) bool {
	return name == want || s.Fold && strings.EqualFold(name, want)
}

// Find reads the schema. It returns an error if the table cannot be followed.
func Find(ctx context.Context, from rowscan.Queryer, want Named) (s Schema, err error) {
	var readOnly bool
	var increment int
	err = from.QueryRowContext(ctx, `SELECT COALESCE(DATABASE(), ''), @@lower_case_table_names > 0, @@GLOBAL.read_only, @@GLOBAL.auto_increment_increment`).
		Scan(&s.Database, &s.Fold, &readOnly, &increment)
	switch {
	case err != nil:
		return s, err
	case s.Database == "":
		return s, errors.New("the pool has no default database: name it in the data source name")
	case readOnly:
		return s, errors.New("the server is read-only: connect to the primary")
	case increment != 1:
		return s, fmt.Errorf("auto_increment_increment is %d, must be 1: several primaries are not supported", increment)
	}
	// The names are compared here, because the server ignores the case in its own catalog.
	tables, err := rowscan.All(ctx, from, func(rows *sql.Rows, t *[3]string) error { return rows.Scan(&t[0], &t[1], &t[2]) },
		`SELECT TABLE_NAME, TABLE_TYPE, COALESCE(ENGINE, '') FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?`,
		s.Database, want.Table)
	if err != nil {
		return s, err
	}
	for _, t := range tables {
		switch {
		case !s.Is(t[0], want.Table):
		case strings.Contains(t[1], "VIEW"):
			return s, errors.New("it is a view, which has no rows of its own")
		case !strings.EqualFold(t[2], "InnoDB"):
			return s, fmt.Errorf("it has the engine %s, must have InnoDB", t[2])
		default:
			s.Table, s.Kind = t[0], t[1]
		}
	}
	if s.Table == "" {
		return s, errors.New("there is no such table")
	}
	if s.All, err = s.ColumnsOf(ctx, from, want.Table); err != nil {
		return s, err
	}
	indexes, err := rowscan.All(ctx, from, func(rows *sql.Rows, p *indexPart) error { return rows.Scan(&p.table, &p.index, &p.column, &p.prefix) },
		`SELECT TABLE_NAME, INDEX_NAME, COALESCE(COLUMN_NAME, ''), SUB_PART IS NOT NULL FROM information_schema.STATISTICS
		WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND NON_UNIQUE = 0 ORDER BY INDEX_NAME, SEQ_IN_INDEX`, s.Database, want.Table)
	if err != nil {
		return s, err
	}
	indexes = slices.DeleteFunc(indexes, func(p indexPart) bool { return !s.Is(p.table, want.Table) })
	return s, s.setColumns(want, indexes)
}

// ColumnsOf returns the columns of a table of the same database. There are none if there is no such table.
func (s Schema) ColumnsOf(ctx context.Context, from rowscan.Queryer, table string) (columns []Column, err error) {
	type columnOf struct {
		table string
		Column
	}
	all, err := rowscan.All(ctx, from, func(rows *sql.Rows, o *columnOf) error {
		return rows.Scan(&o.table, &o.Name, &o.Nullable, &o.Kind, &o.Definition, &o.Charset, &o.Collation, &o.Fallback, &o.Extra, &o.Generated)
	}, `SELECT TABLE_NAME, COLUMN_NAME, IS_NULLABLE, DATA_TYPE, COLUMN_TYPE, COALESCE(CHARACTER_SET_NAME, ''), COALESCE(COLLATION_NAME, ''),
			COALESCE(COLUMN_DEFAULT, ''), EXTRA, COALESCE(GENERATION_EXPRESSION, '')
		FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY TABLE_NAME, ORDINAL_POSITION`, s.Database, table)
	for _, o := range all {
		if s.Is(o.table, table) {
			columns = append(columns, o.Column)
		}
	}
	return columns, err
}

// indexPart is a column of a unique index.
type indexPart struct {
	table, index, column string
	prefix               bool
}

// setColumns sets the key and the columns, by the names of the server.
func (s *Schema) setColumns(want Named, indexes []indexPart) error {
	named := func(name string) *Column {
		i := slices.IndexFunc(s.All, func(column Column) bool { return strings.EqualFold(column.Name, name) })
		if i < 0 {
			return nil
		}
		return &s.All[i]
	}
	key := want.Key
	if len(key) == 0 {
		for _, p := range indexes {
			if p.index == "PRIMARY" {
				key = append(key, p.column)
			}
		}
		if len(key) == 0 {
			return errors.New("it has no primary key: set TableConfig.Key")
		}
	}
	for _, name := range key {
		column := named(name)
		switch {
		case column == nil:
			return fmt.Errorf("it has no column %q, which TableConfig.Key names", name)
		case column.Kind == "float":
			return fmt.Errorf("its column %q, which is in the key, has the type float, which the server rounds when it sends it", name)
		}
		s.Key = append(s.Key, *column)
	}
	// A log and triggers may depend on the order.
	slices.SortFunc(s.Key, func(a, b Column) int { return strings.Compare(a.Name, b.Name) })
	parts := map[string][]string{}
	for _, p := range indexes {
		name := p.column
		if p.prefix {
			name = "" // a part of a value is not the value
		}
		parts[p.index] = append(parts[p.index], name)
	}
	isKey := func(columns []string) bool {
		slices.Sort(columns)
		return slices.Equal(columns, Names(s.Key))
	}
	unique := false
	for _, columns := range parts {
		unique = unique || isKey(columns)
	}
	if !unique {
		return fmt.Errorf("it has no unique index on exactly %s, which is the key", strings.Join(Quoted("", s.Key), ", "))
	}
	for _, name := range want.Columns {
		column := named(name)
		if column == nil {
			return fmt.Errorf("it has no column %q, which TableConfig.Columns names", name)
		}
		s.Columns = append(s.Columns, *column)
	}
	if len(want.Columns) == 0 {
		s.Columns = s.All
	}
	for _, name := range Names(s.Key) {
		if !slices.Contains(Names(s.Columns), name) {
			return fmt.Errorf("TableConfig.Columns lacks %q, which is in the key", name)
		}
	}
	return nil
}

// NotNull returns a condition, as SQL: no column of the key is null. It is empty if none can be.
func (s Schema) NotNull(of string) string {
	var conditions []string
	for i, name := range Quoted(of, s.Key) {
		if s.Key[i].Nullable == "YES" {
			conditions = append(conditions, name+" IS NOT NULL")
		}
	}
	return strings.Join(conditions, " AND ")
}

// Names returns the names of columns.
func Names(columns []Column) []string {
	all := make([]string, len(columns))
	for i, c := range columns {
		all[i] = c.Name
	}
	return all
}

// Quote returns a name as SQL.
func Quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// Quoted returns columns of a relation, as SQL.
func Quoted(of string, columns []Column) []string {
	all := make([]string, len(columns))
	for i, c := range columns {
		all[i] = Quote(c.Name)
		if of != "" {
			all[i] = of + "." + all[i]
		}
	}
	return all
}
