package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/setpoint-go/setpoint/internal/rowscan"
)

// Suffixes of the names of the table of gaps and of the triggers.
const (
	gapsSuffix    = "_gaps"
	longestSuffix = "_insert"
)

// logSQL creates the log of a table. It has a row for each key that was written:
//
//   - setpoint_n is the number of the change. A transaction draws it before it commits, so numbers are not in commit order, and those of a
//     transaction that was rolled back are missing: see [gaps].
//   - setpoint_r is random, so that a server that has lost the change, and has another one under the same number, is noticed: see versionOf.
//   - The other columns are the key, with the names, types, and collations of the table's. A row without a key means that a watch cannot
//     tell what has changed, and lists again.
const logSQL = `CREATE TABLE IF NOT EXISTS {log} (setpoint_n BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, setpoint_r MEDIUMINT NOT NULL{key definitions}) ENGINE = InnoDB`

// gapsSQL creates the table of numbers that no change of the log will get. A row says so of a range of numbers, and when somebody found that
// out, in seconds. The row whose first is 0 ends where all numbers are settled: each has a change, or never will.
const gapsSQL = `CREATE TABLE IF NOT EXISTS {gaps} (first BIGINT NOT NULL PRIMARY KEY, last BIGINT NOT NULL, since BIGINT NOT NULL) ENGINE = InnoDB`

// randomSQL is a number of randomBits bits.
const randomSQL = `FLOOR(RAND() * 1048576)`

// markSQL adds a row without a key to the log.
const markSQL = `INSERT INTO {log} (setpoint_r) VALUES (` + randomSQL + `)`

// column is a column of a table.
type column struct {
	name, nullable, kind, definition, charset, collation, fallback, extra, generated string
}

// isText reports whether the column has a collation.
func (c column) isText() bool { return c.collation != "" }

// sql returns the type of the column, and its collation.
func (c column) sql() string {
	text := c.definition
	if c.isText() {
		text += " CHARACTER SET " + c.charset + " COLLATE " + c.collation
	}
	return text + " NULL DEFAULT NULL"
}

// changed returns a condition, as SQL: the values of the column of OLD and NEW are not stored the same. By its collation, acme may equal ACME,
// and in a session whose time zone has daylight saving time, two different moments have the same text.
func (c column) changed() string {
	o, n := "OLD."+quote(c.name), "NEW."+quote(c.name)
	binary := fmt.Sprintf("NOT (CAST(%s AS BINARY) <=> CAST(%s AS BINARY))", o, n)
	switch {
	case c.kind == "timestamp":
		return fmt.Sprintf("NOT (UNIX_TIMESTAMP(%s) <=> UNIX_TIMESTAMP(%s))", o, n)
	case c.isText():
		return binary
	default:
		return fmt.Sprintf("NOT (%s <=> %s) OR %s", o, n, binary)
	}
}

// found is what the server says about a table.
type found struct {
	database string
	key      []column
	columns  []column // that the program reads
	hasLog   bool     // there is a log
	log      []column // of the key, in the log
	gaps     bool     // there is a table of gaps
	triggers map[string]trigger
}

// trigger is a trigger of the table.
type trigger struct{ name, event, timing, body string }

// find reads the schema. It returns an error if the table cannot be followed.
func (c TableConfig) find(ctx context.Context, from rowscan.Queryer) (f found, err error) {
	var fold, readOnly bool
	var increment int
	err = from.QueryRowContext(ctx, `SELECT COALESCE(DATABASE(), ''), @@lower_case_table_names > 0, @@GLOBAL.read_only, @@GLOBAL.auto_increment_increment`).
		Scan(&f.database, &fold, &readOnly, &increment)
	switch {
	case err != nil:
		return f, err
	case f.database == "":
		return f, errors.New("the pool has no default database: name it in the data source name")
	case readOnly:
		return f, errors.New("the server is read-only: connect to the primary")
	case increment != 1:
		return f, fmt.Errorf("auto_increment_increment is %d, must be 1: several primaries are not supported", increment)
	}
	is := func(name, want string) bool { return name == want || fold && strings.EqualFold(name, want) }
	// The names are compared here, because the server ignores the case in its own catalog.
	tables, err := rowscan.All(ctx, from, func(rows *sql.Rows, t *[3]string) error { return rows.Scan(&t[0], &t[1], &t[2]) },
		`SELECT TABLE_NAME, TABLE_TYPE, COALESCE(ENGINE, '') FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_NAME IN (?, ?)`,
		f.database, c.Table, c.Log+gapsSuffix)
	if err != nil {
		return f, err
	}
	there := false
	for _, t := range tables {
		switch {
		case is(t[0], c.Log+gapsSuffix):
			f.gaps = true
		case !is(t[0], c.Table):
		case strings.Contains(t[1], "VIEW"):
			return f, errors.New("it is a view, which has no rows of its own")
		case !strings.EqualFold(t[2], "InnoDB"):
			return f, fmt.Errorf("it has the engine %s, must have InnoDB", t[2])
		default:
			there = true
		}
	}
	if !there {
		return f, errors.New("there is no such table")
	}
	type columnOf struct {
		table string
		column
	}
	columns, err := rowscan.All(ctx, from, func(rows *sql.Rows, o *columnOf) error {
		return rows.Scan(&o.table, &o.name, &o.nullable, &o.kind, &o.definition, &o.charset, &o.collation, &o.fallback, &o.extra, &o.generated)
	}, `SELECT TABLE_NAME, COLUMN_NAME, IS_NULLABLE, DATA_TYPE, COLUMN_TYPE, COALESCE(CHARACTER_SET_NAME, ''), COALESCE(COLLATION_NAME, ''),
			COALESCE(COLUMN_DEFAULT, ''), EXTRA, COALESCE(GENERATION_EXPRESSION, '')
		FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ? AND TABLE_NAME IN (?, ?) ORDER BY TABLE_NAME, ORDINAL_POSITION`, f.database, c.Table, c.Log)
	if err != nil {
		return f, err
	}
	var all []column
	for _, o := range columns {
		switch {
		case is(o.table, c.Table):
			all = append(all, o.column)
		case is(o.table, c.Log):
			f.hasLog = true
			if !strings.HasPrefix(o.name, "setpoint_") {
				f.log = append(f.log, o.column)
			}
		}
	}
	indexes, err := rowscan.All(ctx, from, func(rows *sql.Rows, p *indexPart) error { return rows.Scan(&p.table, &p.index, &p.column, &p.prefix) },
		`SELECT TABLE_NAME, INDEX_NAME, COALESCE(COLUMN_NAME, ''), SUB_PART IS NOT NULL FROM information_schema.STATISTICS
		WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND NON_UNIQUE = 0 ORDER BY INDEX_NAME, SEQ_IN_INDEX`, f.database, c.Table)
	if err != nil {
		return f, err
	}
	indexes = slices.DeleteFunc(indexes, func(p indexPart) bool { return !is(p.table, c.Table) })
	if err := f.setColumns(c, all, indexes); err != nil {
		return f, err
	}
	f.triggers = map[string]trigger{}
	triggers, err := rowscan.All(ctx, from, func(rows *sql.Rows, t *trigger) error { return rows.Scan(&t.name, &t.event, &t.timing, &t.body) },
		`SELECT TRIGGER_NAME, EVENT_MANIPULATION, ACTION_TIMING, ACTION_STATEMENT FROM information_schema.TRIGGERS
		WHERE EVENT_OBJECT_SCHEMA = ? AND EVENT_OBJECT_TABLE = ?`, f.database, c.Table)
	for _, t := range triggers {
		f.triggers[t.name] = t
	}
	return f, err
}

// indexPart is a column of a unique index.
type indexPart struct {
	table, index, column string
	prefix               bool
}

// setColumns sets the key and the columns, by the names of the server.
func (f *found) setColumns(c TableConfig, all []column, indexes []indexPart) error {
	named := func(name string) *column {
		i := slices.IndexFunc(all, func(column column) bool { return strings.EqualFold(column.name, name) })
		if i < 0 {
			return nil
		}
		return &all[i]
	}
	key := c.Key
	if len(key) == 0 {
		for _, p := range indexes {
			if p.index == "PRIMARY" {
				key = append(key, p.column)
			}
		}
		if len(key) == 0 {
			return errNoKey
		}
	}
	for _, name := range key {
		column := named(name)
		switch {
		case column == nil:
			return fmt.Errorf("it has no column %q, which TableConfig.Key names", name)
		case column.kind == "float":
			return fmt.Errorf("its column %q, which is in the key, has the type float, which the server rounds when it sends it", name)
		}
		f.key = append(f.key, *column)
	}
	// The log and the triggers depend on the order.
	slices.SortFunc(f.key, func(a, b column) int { return strings.Compare(a.name, b.name) })
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
		return slices.Equal(columns, names(f.key))
	}
	unique := false
	for _, columns := range parts {
		unique = unique || isKey(columns)
	}
	if !unique {
		return fmt.Errorf("it has no unique index on exactly %s, which is the key", strings.Join(quoted("", f.key), ", "))
	}
	for _, name := range c.Columns {
		column := named(name)
		if column == nil {
			return fmt.Errorf("it has no column %q, which TableConfig.Columns names", name)
		}
		f.columns = append(f.columns, *column)
	}
	if len(c.Columns) == 0 {
		f.columns = all
	}
	c.Key, c.Columns = names(f.key), names(f.columns)
	return c.checkKey()
}

// isLogged reports whether the log has the key of the table.
func (f found) isLogged() bool {
	same := func(a, b column) bool {
		return a.name == b.name && a.definition == b.definition && a.collation == b.collation
	}
	return f.gaps && slices.EqualFunc(f.log, f.key, same)
}

// isRecorded reports whether the table has exactly these triggers.
func (f found) isRecorded(triggers []trigger) bool {
	for _, t := range triggers {
		if f.triggers[t.name] != t {
			return false
		}
	}
	return true
}

func names(columns []column) []string {
	all := make([]string, len(columns))
	for i, c := range columns {
		all[i] = c.name
	}
	return all
}

// quote returns a name as SQL.
func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// quoted returns columns of a relation, as SQL.
func quoted(of string, columns []column) []string {
	all := make([]string, len(columns))
	for i, c := range columns {
		all[i] = quote(c.name)
		if of != "" {
			all[i] = of + "." + all[i]
		}
	}
	return all
}

// with replaces the placeholders in SQL, also those of more, which has pairs of a placeholder and its value.
func (c TableConfig) with(f found, sql string, more ...string) string {
	var definitions strings.Builder
	for _, k := range f.key {
		definitions.WriteString(", " + quote(k.name) + " " + k.sql())
	}
	database := quote(f.database) + "."
	return strings.NewReplacer(append(more,
		"{log}", database+quote(c.Log), "{gaps}", database+quote(c.Log+gapsSuffix), "{table}", database+quote(c.Table),
		"{key definitions}", definitions.String(), "{key}", strings.Join(quoted("", f.key), ", "),
	)...).Replace(sql)
}

// notNull returns a condition, as SQL: no column of the key is null. It is empty if none can be.
func (f found) notNull(of string) string {
	var conditions []string
	for i, name := range quoted(of, f.key) {
		if f.key[i].nullable == "YES" {
			conditions = append(conditions, name+" IS NOT NULL")
		}
	}
	return strings.Join(conditions, " AND ")
}

// triggers returns the triggers of a table, which write the log. There is one row of the log for each row that is written, and another one if
// the key has changed, byte by byte.
func (c TableConfig) triggers(f found) []trigger {
	insert := func(of string) string {
		text := c.with(f, `INSERT INTO {log} (setpoint_r, {key}) VALUES (`+randomSQL+`, {key of row})`, "{key of row}", strings.Join(quoted(of, f.key), ", "))
		if condition := f.notNull(of); condition != "" {
			text = "IF " + condition + " THEN " + text + "; END IF"
		}
		return text
	}
	changed := make([]string, len(f.key))
	for i, k := range f.key {
		changed[i] = k.changed()
	}
	update := "BEGIN IF " + strings.Join(changed, " OR ") + " THEN " + insert("OLD") + "; END IF; " + insert("NEW") + "; END"
	return []trigger{
		{c.Log + "_insert", "INSERT", "AFTER", insert("NEW")},
		{c.Log + "_update", "UPDATE", "AFTER", update},
		{c.Log + "_delete", "DELETE", "AFTER", insert("OLD")},
	}
}

// statements returns what installs the log and the triggers, or nothing if everything is in place. Each of them is done or undone as a whole,
// but all together are not. So there is no moment at which a write fails, or the triggers are complete and the log lacks an earlier change:
// while the table is locked, the triggers are dropped first and created last.
func (c TableConfig) statements(f found) []string {
	triggers := c.triggers(f)
	if f.isLogged() && f.isRecorded(triggers) {
		return nil
	}
	all := []string{
		"SET SESSION sql_mode = ''", // of the triggers: a key that the log has no room for, after ALTER TABLE, makes no write fail
		c.with(f, logSQL), c.with(f, gapsSQL), c.with(f, "INSERT IGNORE INTO {gaps} VALUES (0, 0, 0)"),
		c.with(f, "LOCK TABLES {table} WRITE, {log} WRITE"),
	}
	for _, t := range triggers {
		all = append(all, c.with(f, "DROP TRIGGER IF EXISTS {trigger}", "{trigger}", quote(f.database)+"."+quote(t.name)))
	}
	if f.hasLog && !f.isLogged() {
		var parts []string
		for _, old := range f.log {
			parts = append(parts, "DROP COLUMN "+quote(old.name))
		}
		for _, k := range f.key {
			parts = append(parts, "ADD COLUMN "+quote(k.name)+" "+k.sql())
		}
		all = append(all, c.with(f, "ALTER TABLE {log} {parts}", "{parts}", strings.Join(parts, ", ")))
	}
	all = append(all, c.with(f, markSQL)) // the log may lack changes
	for _, t := range triggers {
		all = append(all, c.with(f, "CREATE TRIGGER {trigger} "+t.timing+" "+t.event+" ON {table} FOR EACH ROW {body}",
			"{trigger}", quote(f.database)+"."+quote(t.name), "{body}", t.body))
	}
	return append(all, "UNLOCK TABLES")
}

// TableSQL returns the statements that [InstallTable] would run, as a script for the programs mysql and mariadb, for an administrator to run in
// one session. It is empty if everything is in place. It only reads the catalog, which has the types of the key.
func TableSQL(ctx context.Context, db *sql.DB, cfg TableConfig) (string, error) {
	if db == nil {
		panic("mysql: TableSQL called with a nil pool")
	}
	cfg = cfg.withDefaults()
	err := cfg.validate()
	var f found
	if err == nil {
		f, err = cfg.find(ctx, db)
	}
	if err != nil {
		return "", failed(ctx, fmt.Sprintf("SQL of table %q", cfg.Table), err)
	}
	statements := cfg.statements(f)
	if len(statements) == 0 {
		return "", nil
	}
	const delimiter = "//"
	var text strings.Builder
	text.WriteString("DELIMITER " + delimiter + "\n")
	for _, statement := range statements {
		text.WriteString(statement + delimiter + "\n")
	}
	text.WriteString("DELIMITER ;\n")
	return text.String(), nil
}

// InstallTable creates the log of the table, if it does not exist, and the triggers that write it. Programs that write the table need no rights
// on the log: the triggers have those of the user of db, whose account must therefore stay. That user needs the privileges SELECT, INSERT,
// UPDATE, DELETE, CREATE, ALTER, TRIGGER, and LOCK TABLES on the database. With a binary log, it also needs SUPER, or the server must have
// log_bin_trust_function_creators: otherwise the server refuses the triggers with error 1419. If an administrator runs the statements, use
// [TableSQL]. Call InstallTable when you deploy: if everything is in place, it changes nothing.
//
// InstallTable locks the table against writes. It waits for the transactions that have written or read the table, and later ones wait behind
// it. If it is interrupted, the table may be without triggers, and lists and watches fail until you call it again.
//
// Call it again after you have changed or renamed columns of the key. If a column is renamed, every write of the table fails until then. If
// another tool has replaced the table by a copy (pt-online-schema-change, gh-ost), the copy has no triggers. Lists and watches then fail until
// you call InstallTable, and watches end with [informer.ErrExpired] after it, so that informers list what the log lacks.
//
// The triggers see INSERT (also with IGNORE or ON DUPLICATE KEY UPDATE), REPLACE, UPDATE (also of the key, and of several tables), DELETE, and
// LOAD DATA. The server runs no triggers for these changes, so that only a comparison finds them, after [TableConfig.Verify]:
//
//   - TRUNCATE, and partitions that are dropped, truncated, or exchanged.
//   - The actions of foreign keys: ON DELETE and ON UPDATE of a parent table.
//   - Changes that row-based replication applies, if the server is a replica of another one.
//   - Writes while the triggers are missing, if the same triggers were then created by hand.
//
// InstallTable refuses a table without a key, a view, a table of another engine than InnoDB, a server that is read-only, and one that has
// auto_increment_increment set, as several primaries do.
func InstallTable(ctx context.Context, db *sql.DB, cfg TableConfig) error {
	if db == nil {
		panic("mysql: InstallTable called with a nil pool")
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
	s, err := open(ctx, db, patience)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }() // releases the locks
	h := fnv.New64a()
	_, _ = h.Write([]byte(c.Log)) // never fails
	for got := 0; got == 0; {     // one at a time
		if err := s.QueryRowContext(ctx, `SELECT COALESCE(GET_LOCK(CONCAT('setpoint ', LEFT(MD5(COALESCE(DATABASE(), '')), 20), ?), 10), 0)`,
			fmt.Sprintf(" %x", h.Sum64())).Scan(&got); err != nil {
			return err
		}
	}
	f, err := c.find(ctx, s)
	if err != nil {
		return err
	}
	for _, statement := range c.statements(f) {
		if _, err := s.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
