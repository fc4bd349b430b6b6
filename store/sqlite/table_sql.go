package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/internal/problems"
	"github.com/setpoint-go/setpoint/internal/rowscan"
)

// TableConfig names a table, and says how its changes are recorded. Only Table is required.
type TableConfig struct {
	// Table is the name of the table, without quotes.
	Table string

	// Key names the columns that identify a row. They must have a unique index of their own, without a condition. A row in which one of them
	// is null is left out, as if it did not exist. Defaults to the primary key.
	Key []string

	// Columns names the columns that the program reads, in the order in which scan receives them. They include the Key. Defaults to the
	// columns that the table has when NewTable is called.
	Columns []string

	// Log is the name of the table that has the log. All tables of a file whose versions are to be compared share it. It must not belong to
	// anything else. Programs that follow one table by different Keys need different Logs, or they replace each other's triggers. Defaults
	// to "setpoint_changes".
	Log string

	// History is the number of changes, of all tables with the same Log, that the log keeps for watches that resume. The log may hold more
	// for a while: the watches trim it, each to its own History. Defaults to 100,000.
	History int

	// Poll is how often a watch looks for changes. It sees those of transactions for which [Table.VersionOf] or [Table.Wake] was called
	// sooner. Defaults to 20 ms in a file in WAL mode, and to 1 s in another one, where a reader makes writers wait.
	Poll time.Duration

	// Logger receives a warning if a watch may not trim the log. Defaults to slog.Default.
	Logger *slog.Logger

	_ [0]func()
}

func (c TableConfig) withDefaults() TableConfig {
	c.Log = cmp.Or(c.Log, "setpoint_changes")
	c.History = cmp.Or(c.History, 100_000)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Key, c.Columns = slices.Clone(c.Key), slices.Clone(c.Columns)
	return c
}

func (c TableConfig) validate() error {
	var errs []error
	names := map[string]string{"Table": c.Table, "Log": c.Log}
	for field, columns := range map[string][]string{"Key": c.Key, "Columns": c.Columns} {
		for i, column := range columns {
			names[fmt.Sprintf("%s[%d]", field, i)] = column
		}
	}
	for _, field := range slices.Sorted(maps.Keys(names)) {
		if names[field] == "" {
			errs = append(errs, fmt.Errorf("TableConfig.%s is empty", field))
		}
		if strings.ContainsRune(names[field], 0) {
			errs = append(errs, fmt.Errorf("TableConfig.%s is %q, must not contain NUL", field, names[field]))
		}
	}
	if strings.HasPrefix(strings.ToLower(c.Log), "sqlite_") {
		errs = append(errs, fmt.Errorf("TableConfig.Log is %q, must not begin with sqlite_", c.Log))
	}
	if strings.EqualFold(c.Log, c.Table) {
		errs = append(errs, fmt.Errorf("TableConfig.Log is %q, which is the Table", c.Log))
	}
	if c.History < 0 {
		errs = append(errs, fmt.Errorf("TableConfig.History is %d, must not be negative", c.History))
	}
	if c.Poll < 0 {
		errs = append(errs, fmt.Errorf("TableConfig.Poll is %v, must not be negative", c.Poll))
	}
	return problems.Join(errs...)
}

// logSQL creates the log that the tables of a file share. It has a row for each key that was written:
//
//   - n is the number of the change. A writer has the lock of the file from its first write to its commit, so numbers are in commit order.
//     Numbers of a transaction that was rolled back are used again, and no reader has seen them. For the last one, see latestSQL.
//   - r is random, so that a restored file that has other changes under the same numbers is noticed: see versionOf.
//   - source is the name of the table.
//   - k1 to kN are the key, as it is stored. A row without a key means that a watch cannot tell what has changed, and lists again.
//
// The OR clause of the user's statement overrides that of a trigger's. So the log has no constraint, because of which INSERT OR IGNORE could
// drop a row of it silently. No column has a type or a collation, so keys are as in the table.
const logSQL = `CREATE TABLE IF NOT EXISTS {log} (n INTEGER PRIMARY KEY AUTOINCREMENT, r DEFAULT (random()), source, k1)`

// found is what a file says about a table.
type found struct {
	table    string   // as it is written in the schema; so are the other names
	key      []string // the columns that identify a row
	columns  []string // that the program reads
	isRowid  bool     // the key is an INTEGER PRIMARY KEY
	others   []unique // because of which a REPLACE may delete a row with another key
	triggers map[string]string
	logKeys  int // columns for a key that the log has; 0 if there is no log
}

// unique is a constraint. A REPLACE deletes the rows that have the same values in all columns, by the collations.
type unique struct {
	columns, collations []string
	where               string // of a partial index, as SQL
}

// column is a column of a table.
type column struct {
	name, kind string
	primary    int // the position in the primary key, from 1 on; or 0
}

// find reads the schema. It returns an error if the table cannot be followed.
func (c TableConfig) find(ctx context.Context, from rowscan.Queryer) (f found, err error) {
	var kind, text string
	err = from.QueryRowContext(ctx, `SELECT type, name, coalesce(sql, '') FROM main.sqlite_master
		WHERE type IN ('table', 'view') AND lower(name) = lower(?)`, c.Table).Scan(&kind, &f.table, &text)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return f, errors.New("there is no such table")
	case err != nil:
		return f, err
	case kind == "view":
		return f, errors.New("it is a view, which has no rows of its own")
	case strings.HasPrefix(strings.ToUpper(text), "CREATE VIRTUAL"):
		return f, errors.New("it is a virtual table, which cannot have triggers")
	}
	columns, err := rowscan.All(ctx, from, func(rows *sql.Rows, c *column) error { return rows.Scan(&c.name, &c.kind, &c.primary) },
		`SELECT name, type, pk FROM pragma_table_xinfo(?) WHERE hidden <> 1`, f.table)
	if err != nil {
		return f, err
	}
	if err := f.setColumns(c, columns); err != nil {
		return f, err
	}
	if err := f.findUnique(ctx, from, columns); err != nil {
		return f, err
	}
	f.triggers = map[string]string{}
	triggers, err := rowscan.All(ctx, from, func(rows *sql.Rows, t *[2]string) error { return rows.Scan(&t[0], &t[1]) },
		`SELECT name, sql FROM main.sqlite_master WHERE type = 'trigger' AND tbl_name = ? AND substr(name, 1, ?) = ?`,
		f.table, len([]rune(c.Log))+1, c.Log+" ")
	if err != nil {
		return f, err
	}
	for _, t := range triggers {
		f.triggers[t[0]] = t[1]
	}
	return f, from.QueryRowContext(ctx, `SELECT count(*) FROM pragma_table_info(?) WHERE name LIKE 'k%'`, c.Log).Scan(&f.logKeys)
}

// setColumns sets the key and the columns, by the names of the schema.
func (f *found) setColumns(c TableConfig, columns []column) error {
	named := func(name string) *column {
		i := slices.IndexFunc(columns, func(column column) bool { return strings.EqualFold(column.name, name) })
		if i < 0 {
			return nil
		}
		return &columns[i]
	}
	for _, name := range c.Key {
		column := named(name)
		if column == nil {
			return fmt.Errorf("it has no column %q, which TableConfig.Key names", name)
		}
		f.key = append(f.key, column.name)
	}
	for _, column := range columns {
		if len(c.Key) == 0 && column.primary > 0 {
			f.key = append(f.key, column.name)
		}
	}
	// The triggers depend on the order.
	position := func(name string) int {
		return slices.IndexFunc(columns, func(column column) bool { return column.name == name })
	}
	slices.SortFunc(f.key, func(a, b string) int { return cmp.Compare(position(a), position(b)) })
	if len(f.key) == 0 {
		return errors.New("it has no primary key: set TableConfig.Key")
	}
	for _, name := range c.Columns {
		column := named(name)
		if column == nil {
			return fmt.Errorf("it has no column %q, which TableConfig.Columns names", name)
		}
		f.columns = append(f.columns, column.name)
	}
	if len(c.Columns) == 0 {
		for _, column := range columns {
			f.columns = append(f.columns, column.name)
		}
	}
	for _, name := range f.key {
		if !slices.Contains(f.columns, name) {
			return fmt.Errorf("TableConfig.Columns lacks %q, which is in the key", name)
		}
	}
	return nil
}

// index is a unique index.
type index struct {
	name, origin, sql string
	partial           bool
}

// findUnique finds the unique constraints.
func (f *found) findUnique(ctx context.Context, from rowscan.Queryer, columns []column) error {
	kinds, primary := map[string]string{}, []string(nil)
	for _, column := range columns {
		kinds[column.name] = column.kind
		if column.primary > 0 {
			primary = append(primary, column.name)
		}
	}
	indexes, err := rowscan.All(ctx, from, func(rows *sql.Rows, i *index) error { return rows.Scan(&i.name, &i.origin, &i.partial, &i.sql) },
		`SELECT i.name, i.origin, i.partial, coalesce(s.sql, '') FROM pragma_index_list(?) i
		LEFT JOIN main.sqlite_master s ON s.type = 'index' AND s.name = i.name WHERE i."unique" ORDER BY i.name`, f.table)
	if err != nil {
		return err
	}
	// A primary key without an index is the number of the row.
	isUnique := false
	if !slices.ContainsFunc(indexes, func(i index) bool { return i.origin == "pk" }) && len(primary) == 1 {
		isUnique = slices.Equal(f.key, primary)
		f.isRowid = isUnique
		if !isUnique {
			f.others = append(f.others, unique{columns: primary, collations: []string{"BINARY"}})
		}
	}
	for _, i := range indexes {
		var u unique
		parts, err := rowscan.All(ctx, from, func(rows *sql.Rows, p *[2]sql.NullString) error { return rows.Scan(&p[0], &p[1]) },
			`SELECT name, coll FROM pragma_index_xinfo(?) WHERE key ORDER BY seqno`, i.name)
		if err != nil {
			return err
		}
		for _, p := range parts {
			if !p[0].Valid {
				return fmt.Errorf("its unique index %q is on an expression: triggers cannot tell which row a REPLACE deletes because of it", i.name)
			}
			u.columns, u.collations = append(u.columns, p[0].String), append(u.collations, p[1].String)
		}
		if i.partial {
			if u.where = condition(i.sql); u.where == "" {
				return fmt.Errorf("the condition of its unique index %q is not understood: %s", i.name, i.sql)
			}
		} else if sameSet(u.columns, f.key) {
			isUnique = true
			if isExact(u, kinds) {
				continue // the row that a REPLACE deletes has the key of the new one
			}
		}
		f.others = append(f.others, u)
	}
	if !isUnique {
		return fmt.Errorf("it has no unique index on exactly %s, which is the key", strings.Join(quoted("", f.key), ", "))
	}
	return nil
}

// isExact reports whether values that a constraint takes for equal are stored the same: not acme and ACME, nor 1 and 1.0.
func isExact(u unique, kinds map[string]string) bool {
	for i, name := range u.columns {
		kind := strings.ToUpper(kinds[name])
		if u.collations[i] != "BINARY" || kind == "" || kind == "ANY" || strings.Contains(kind, "BLOB") {
			return false
		}
	}
	return true
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// condition returns what follows WHERE in the statement that has created an index, or "". Only the columns of the index are in parentheses
// before it.
func condition(create string) string {
	depth, closed := 0, false
	for i := 0; i < len(create); i++ {
		switch ch := create[i]; {
		case ch == '\'' || ch == '"' || ch == '`' || ch == '[':
			if ch == '[' {
				ch = ']'
			}
			end := strings.IndexByte(create[i+1:], ch) // a doubled quote is two strings
			if end < 0 {
				return ""
			}
			i += end + 1
		case strings.HasPrefix(create[i:], "--"):
			end := strings.IndexByte(create[i:], '\n')
			if end < 0 {
				return ""
			}
			i += end
		case strings.HasPrefix(create[i:], "/*"):
			end := strings.Index(create[i+2:], "*/")
			if end < 0 {
				return ""
			}
			i += end + 3
		case ch == '(':
			depth++
		case ch == ')':
			depth--
			closed = closed || depth == 0
		case closed && depth == 0 && len(create)-i > 5 && strings.EqualFold(create[i:i+5], "WHERE"):
			return strings.TrimSpace(create[i+5:])
		}
	}
	return ""
}

// quote returns a name as SQL.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// literal returns a string as SQL.
func literal(text string) string { return `'` + strings.ReplaceAll(text, `'`, `''`) + `'` }

// quoted returns columns of a relation, as SQL. A name without its relation that is no column would be a string.
func quoted(of string, columns []string) []string {
	names := make([]string, len(columns))
	for i, column := range columns {
		names[i] = quote(column)
		if of != "" {
			names[i] = of + "." + names[i]
		}
	}
	return names
}

// same returns a condition, as SQL: two values are stored the same. The comparison by the collation is first, so that an index is used.
func same(a, b string) string {
	return fmt.Sprintf(`%[1]s = %[2]s AND %[1]s COLLATE BINARY = %[2]s AND typeof(%[1]s) = typeof(%[2]s)`, a, b)
}

// allSame returns a condition, as SQL: two keys are stored the same, and not null.
func allSame(a, b []string) string {
	conditions := make([]string, len(a))
	for i := range a {
		conditions[i] = same(a[i], b[i])
	}
	return strings.Join(conditions, " AND ")
}

// notNull returns a condition, as SQL.
func notNull(key []string) string { return strings.Join(key, " IS NOT NULL AND ") + " IS NOT NULL" }

// logColumns returns the columns of the log that have a key, as SQL.
func logColumns(of string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%sk%d", of, i+1)
	}
	return names
}

// trigger is a trigger, and the statement that creates it.
type trigger struct{ name, sql string }

// triggers returns the triggers of a table, which write the log. The trigger for updates also logs a key that has changed: first the old
// one, then the new one, so that the last row of the log is always of the present key.
//
// A REPLACE deletes rows without a delete trigger, unless the connection of the writer has recursive_triggers on, which a file cannot say.
// If the row has the key of the new one, the log has that key anyway. For another one there are the triggers before the write: they log the
// keys of the rows that have the values of the new row in another unique constraint. Nothing says whether the write is a REPLACE, so that
// such a row may stay. A watch looks.
//
// Comparisons are of what is stored: by the collation of a column, acme may equal ACME, and by its value, 1 equals 1.0.
func (c TableConfig) triggers(f found) []trigger {
	table := quote(f.table)
	into := fmt.Sprintf("INSERT INTO %s (source, %s) SELECT %s, ", quote(c.Log), strings.Join(logColumns("", len(f.key)), ", "), literal(f.table))
	keyOf := func(of string) []string { return quoted(of, f.key) }
	logs := func(of, where string) string {
		return into + strings.Join(keyOf(of), ", ") + " WHERE " + notNull(keyOf(of)) + where + ";"
	}
	create := func(name, event, body string) trigger {
		name = c.Log + " " + f.table + " " + name
		return trigger{name, fmt.Sprintf("CREATE TRIGGER %s %s ON %s FOR EACH ROW BEGIN\n\t%s\nEND", quote(name), event, table, body)}
	}
	triggers := []trigger{
		create("insert", "AFTER INSERT", logs("NEW", "")),
		create("update", "AFTER UPDATE", logs("OLD", " AND coalesce("+allSame(keyOf("OLD"), keyOf("NEW"))+", 0) = 0")+"\n\t"+logs("NEW", "")),
		create("delete", "AFTER DELETE", logs("OLD", "")),
	}
	var onInsert, onUpdate []string
	for _, u := range f.others {
		var conflict, changed []string
		for i, column := range u.columns {
			conflict = append(conflict, fmt.Sprintf("%s.%s COLLATE %s = NEW.%s", table, quote(column), quote(u.collations[i]), quote(column)))
			changed = append(changed, fmt.Sprintf("NEW.%[1]s COLLATE BINARY IS NOT OLD.%[1]s", quote(column)))
		}
		from := into + strings.Join(keyOf(table), ", ") + " FROM " + table + " WHERE " + strings.Join(conflict, " AND ")
		if u.where != "" {
			from += " AND (" + u.where + "\n\t)"
		} else {
			changed = []string{"(" + strings.Join(changed, " OR ") + ")"}
		}
		from += " AND " + notNull(keyOf(table))
		notNew := " AND coalesce(" + allSame(keyOf(table), keyOf("NEW")) + ", 0) = 0;"
		if f.isRowid { // before an INSERT, a number that SQLite will assign is -1
			notNew = " AND (NEW." + quote(f.key[0]) + " = -1 OR " + strings.TrimSuffix(strings.TrimPrefix(notNew, " AND "), ";") + ");"
		}
		onInsert = append(onInsert, from+notNew)
		if u.where == "" {
			from += " AND " + changed[0]
		}
		onUpdate = append(onUpdate, from+" AND coalesce("+allSame(keyOf(table), keyOf("OLD"))+", 0) = 0;")
	}
	if len(onInsert) > 0 {
		triggers = append(triggers,
			create("replace by insert", "BEFORE INSERT", strings.Join(onInsert, "\n\t")),
			create("replace by update", "BEFORE UPDATE", strings.Join(onUpdate, "\n\t")))
	}
	return triggers
}

// isInstalled reports whether the file has exactly these triggers, and a log with room for the key.
func (f found) isInstalled(triggers []trigger) bool {
	if f.logKeys < len(f.key) || len(f.triggers) != len(triggers) {
		return false
	}
	for _, t := range triggers {
		if f.triggers[t.name] != t.sql {
			return false
		}
	}
	return true
}

// statements returns what installs the triggers, or nothing if everything is in place.
func (c TableConfig) statements(f found) []string {
	triggers := c.triggers(f)
	if f.isInstalled(triggers) {
		return nil
	}
	log := quote(c.Log)
	var all []string
	if f.logKeys == 0 {
		all = append(all, strings.ReplaceAll(logSQL, "{log}", log))
	}
	for i := max(1, f.logKeys); i < len(f.key); i++ {
		all = append(all, fmt.Sprintf("ALTER TABLE %s ADD COLUMN k%d", log, i+1))
	}
	for _, name := range slices.Sorted(maps.Keys(f.triggers)) {
		all = append(all, "DROP TRIGGER "+quote(name))
	}
	for _, t := range triggers {
		all = append(all, t.sql)
	}
	// The log may lack changes.
	return append(all, fmt.Sprintf("INSERT INTO %s (source) VALUES (%s)", log, literal(f.table)))
}

// TableSQL returns the statements that [InstallTable] would run, for an administrator to run in one transaction. It is empty if everything is
// in place. It only reads the file, whose unique indexes are a part of the triggers.
func TableSQL(ctx context.Context, db *sql.DB, cfg TableConfig) (string, error) {
	if db == nil {
		panic("sqlite: TableSQL called with a nil pool")
	}
	cfg = cfg.withDefaults()
	err := cfg.validate()
	var f found
	if err == nil {
		f, err = cfg.find(ctx, db)
	}
	if err != nil {
		return "", fmt.Errorf("sqlite: SQL of table %q: %w", cfg.Table, err)
	}
	var text strings.Builder
	for _, statement := range cfg.statements(f) {
		text.WriteString(statement + ";\n")
	}
	return text.String(), nil
}

// InstallTable creates the log, if it does not exist, and the triggers of the table that write it, in one transaction. db is a pool of any
// driver for SQLite, whose main database is the file of the table. Programs that write the table need not know of it: the triggers run in
// their SQLite, in their transactions. Call it when you deploy: if everything is in place, it changes nothing. If an administrator runs the
// statements, use [TableSQL].
//
// Call it again after every migration. A migration that copies the table, drops it, and renames the copy, as those of many frameworks do,
// drops the triggers. One that adds a unique index, or renames the table or a column, makes other triggers necessary. Lists and watches then
// fail until you call InstallTable, and watches end with [informer.ErrExpired] after it, so that informers list what the log lacks. SQLite
// refuses to drop a column that the triggers name, which are those of the key and of unique indexes: drop the triggers first. Their names
// begin with that of the log.
//
// The triggers see INSERT, upserts, REPLACE (with recursive_triggers on or off), UPDATE (also of the key), DELETE, the actions of foreign
// keys, and writes through ATTACH, of every program and every driver. They miss these changes, after which you have to call
// [informer.Informer.Reset]:
//
//   - Writes of a connection in which triggers are turned off (SQLITE_DBCONFIG_ENABLE_TRIGGER).
//   - A write of the database's own tables (PRAGMA writable_schema), or of its bytes, other than a restored backup: see [Table].
//   - Writes while the triggers are missing, if the same triggers were then created by hand.
//
// InstallTable refuses a table without a key, a view, a virtual table, and a table with a unique index on an expression: because of it, a
// REPLACE would delete rows that triggers cannot find.
func InstallTable(ctx context.Context, db *sql.DB, cfg TableConfig) error {
	if db == nil {
		panic("sqlite: InstallTable called with a nil pool")
	}
	cfg = cfg.withDefaults()
	err := cfg.validate()
	if err == nil {
		err = cfg.install(ctx, db)
	}
	if err != nil {
		return failed(ctx, fmt.Sprintf("install table %q", cfg.Table), err)
	}
	return nil
}

func (c TableConfig) install(ctx context.Context, db *sql.DB) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := whileBusy(ctx, patience, func() error {
		_, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE")
		return err
	}); err != nil {
		return err
	}
	done := false
	defer func() {
		if !done {
			_, rollback := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
			err = errors.Join(err, rollback)
		}
	}()
	f, err := c.find(ctx, conn)
	if err != nil {
		return err
	}
	for _, statement := range c.statements(f) {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	_, err = conn.ExecContext(ctx, "COMMIT")
	done = err == nil
	return err
}
