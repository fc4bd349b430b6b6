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
	"github.com/setpoint-go/setpoint/store/mysql/internal/usertable"
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

// changed returns a condition, as SQL: the values of the column of OLD and NEW are not stored the same. By its collation, acme may equal ACME,
// and in a session whose time zone has daylight saving time, two different moments have the same text.
func changed(c usertable.Column) string {
	o, n := "OLD."+usertable.Quote(c.Name), "NEW."+usertable.Quote(c.Name)
	binary := fmt.Sprintf("NOT (CAST(%s AS BINARY) <=> CAST(%s AS BINARY))", o, n)
	switch {
	case c.Kind == "timestamp":
		return fmt.Sprintf("NOT (UNIX_TIMESTAMP(%s) <=> UNIX_TIMESTAMP(%s))", o, n)
	case c.IsText():
		return binary
	default:
		return fmt.Sprintf("NOT (%s <=> %s) OR %s", o, n, binary)
	}
}

// found is what the server says about a table, its log, and its triggers.
type found struct {
	usertable.Schema
	hasLog   bool               // there is a log
	log      []usertable.Column // of the key, in the log
	gaps     bool               // there is a table of gaps
	triggers map[string]trigger
}

// trigger is a trigger of the table.
type trigger struct{ name, event, timing, body string }

// find reads the schema. It returns an error if the table cannot be followed.
func (c TableConfig) find(ctx context.Context, from rowscan.Queryer) (f found, err error) {
	if f.Schema, err = usertable.Find(ctx, from, c.named()); err != nil {
		return f, err
	}
	for _, name := range usertable.Names(f.Key) {
		if strings.HasPrefix(strings.ToLower(name), "setpoint_") {
			return f, fmt.Errorf("its column %q is in the key, whose names must not begin with setpoint_, as those of the log do", name)
		}
	}
	gaps, err := f.ColumnsOf(ctx, from, c.Log+gapsSuffix)
	if err != nil {
		return f, err
	}
	if f.gaps = len(gaps) > 0; f.gaps && !hasColumns(gaps, "first", "last", "since") {
		return f, fmt.Errorf("the table %q is not that of a log: name another in TableConfig.Log", c.Log+gapsSuffix)
	}
	log, err := f.ColumnsOf(ctx, from, c.Log)
	if err != nil {
		return f, err
	}
	if f.hasLog = len(log) > 0; f.hasLog && !hasColumns(log, "setpoint_n", "setpoint_r") { // InstallTable would drop its columns
		return f, fmt.Errorf("the table %q is not a log: name another in TableConfig.Log", c.Log)
	}
	f.log = slices.DeleteFunc(log, func(column usertable.Column) bool { return strings.HasPrefix(column.Name, "setpoint_") })
	f.triggers = map[string]trigger{}
	triggers, err := rowscan.All(ctx, from, func(rows *sql.Rows, t *trigger) error { return rows.Scan(&t.name, &t.event, &t.timing, &t.body) },
		`SELECT TRIGGER_NAME, EVENT_MANIPULATION, ACTION_TIMING, ACTION_STATEMENT FROM information_schema.TRIGGERS
		WHERE EVENT_OBJECT_SCHEMA = ? AND EVENT_OBJECT_TABLE = ?`, f.Database, c.Table)
	for _, t := range triggers {
		f.triggers[t.name] = t
	}
	return f, err
}

// hasColumns reports whether there are columns of all these names.
func hasColumns(columns []usertable.Column, names ...string) bool {
	all := usertable.Names(columns)
	return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(all, name) })
}

// isLogged reports whether the log has the key of the table.
func (f found) isLogged() bool {
	same := func(a, b usertable.Column) bool {
		return a.Name == b.Name && a.Definition == b.Definition && a.Collation == b.Collation
	}
	return f.gaps && slices.EqualFunc(f.log, f.Key, same)
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

// with replaces the placeholders in SQL, also those of more, which has pairs of a placeholder and its value.
func (c TableConfig) with(f found, sql string, more ...string) string {
	var definitions strings.Builder
	for _, k := range f.Key {
		definitions.WriteString(", " + usertable.Quote(k.Name) + " " + k.SQL())
	}
	database := usertable.Quote(f.Database) + "."
	return strings.NewReplacer(append(more,
		"{log}", database+usertable.Quote(c.Log), "{gaps}", database+usertable.Quote(c.Log+gapsSuffix), "{table}", database+usertable.Quote(c.Table),
		"{key definitions}", definitions.String(), "{key}", strings.Join(usertable.Quoted("", f.Key), ", "),
	)...).Replace(sql)
}

// triggers returns the triggers of a table, which write the log. There is one row of the log for each row that is written, and another one if
// the key has changed, byte by byte.
func (c TableConfig) triggers(f found) []trigger {
	insert := func(of string) string {
		text := c.with(f, `INSERT INTO {log} (setpoint_r, {key}) VALUES (`+randomSQL+`, {key of row})`, "{key of row}", strings.Join(usertable.Quoted(of, f.Key), ", "))
		if condition := f.NotNull(of); condition != "" {
			text = "IF " + condition + " THEN " + text + "; END IF"
		}
		return text
	}
	changes := make([]string, len(f.Key))
	for i, k := range f.Key {
		changes[i] = changed(k)
	}
	update := "BEGIN IF " + strings.Join(changes, " OR ") + " THEN " + insert("OLD") + "; END IF; " + insert("NEW") + "; END"
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
		all = append(all, c.with(f, "DROP TRIGGER IF EXISTS {trigger}", "{trigger}", usertable.Quote(f.Database)+"."+usertable.Quote(t.name)))
	}
	if f.hasLog && !f.isLogged() {
		var parts []string
		for _, old := range f.log {
			parts = append(parts, "DROP COLUMN "+usertable.Quote(old.Name))
		}
		for _, k := range f.Key {
			parts = append(parts, "ADD COLUMN "+usertable.Quote(k.Name)+" "+k.SQL())
		}
		all = append(all, c.with(f, "ALTER TABLE {log} {parts}", "{parts}", strings.Join(parts, ", ")))
	}
	all = append(all, c.with(f, markSQL)) // the log may lack changes
	for _, t := range triggers {
		all = append(all, c.with(f, "CREATE TRIGGER {trigger} "+t.timing+" "+t.event+" ON {table} FOR EACH ROW {body}",
			"{trigger}", usertable.Quote(f.Database)+"."+usertable.Quote(t.name), "{body}", t.body))
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
	s, err := usertable.Open(ctx, db, usertable.Patience)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }() // releases the locks
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
