package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-go/setpoint/internal/rowscan"
	"github.com/setpoint-go/setpoint/store/mysql/internal/usertable"
)

// layout is the version of the tables.
const layout = 1

// stateTable is the index of the table state in tables.names.
const stateTable = 3

// tables has the statements, with the names of the tables filled in. Values are appended to them, or replace verbs of package fmt.
//
//   - objects has a row for each key: its current state, which may be a tombstone, marked deleted. A tombstone is removed with its change.
//   - changes has a row for each change that is kept, with the state that it left, and the number of changes up to it, n.
//   - state has one row: the layout, the version of the last change, how many changes there were, and the horizon, which is the earliest version
//     from which a watch can start. A writer locks it before it reads the version, and until it commits. Its row is created last, so that it
//     tells whether the tables are complete: the server has no transactions for tables.
//   - fences has the greatest term of each lease.
//
// Names are of binary types, which are compared and ordered by their bytes.
type tables struct {
	names                             []string // of the tables that must exist
	create                            []string
	readLayout, isUsed                string
	state, lock, get, list, changes   string
	present, terms                    string
	insert, apply, recordTerms        string
	ends, tombstones, forget, advance string
}

func newTables(prefix string) (t tables) {
	name := strings.NewReplacer("{", "`"+prefix, "}", "`").Replace
	t.names = []string{prefix + "objects", prefix + "changes", prefix + "fences", prefix + "state"}
	const columns = "kind VARBINARY(128) NOT NULL, `key` VARBINARY(1024) NOT NULL, version BIGINT NOT NULL, deleted TINYINT NOT NULL,\n" +
		"\trecord LONGBLOB NOT NULL, value LONGBLOB NOT NULL"
	t.create = []string{
		name("CREATE TABLE IF NOT EXISTS {objects} (" + columns + ",\n\tPRIMARY KEY (kind, `key`)) ENGINE=InnoDB ROW_FORMAT=DYNAMIC"),
		name("CREATE TABLE IF NOT EXISTS {changes} (" + columns + ", n BIGINT NOT NULL,\n\tPRIMARY KEY (version), KEY kinds (kind, version), UNIQUE KEY n (n)) ENGINE=InnoDB ROW_FORMAT=DYNAMIC"),
		name("CREATE TABLE IF NOT EXISTS {fences} (lease VARBINARY(1024) NOT NULL PRIMARY KEY, term BIGINT UNSIGNED NOT NULL) ENGINE=InnoDB ROW_FORMAT=DYNAMIC"),
		name("CREATE TABLE IF NOT EXISTS {state} (id TINYINT NOT NULL PRIMARY KEY, layout INT NOT NULL, version BIGINT NOT NULL, horizon BIGINT NOT NULL,\n" +
			"\tn BIGINT NOT NULL) ENGINE=InnoDB"),
		name("CREATE OR REPLACE SQL SECURITY INVOKER VIEW {current} AS SELECT CONVERT(kind USING utf8mb4) AS kind, CONVERT(`key` USING utf8mb4) AS `key`,\n" +
			"\tversion, CONVERT(value USING utf8mb4) AS value FROM {objects} WHERE deleted = 0"),
		name(fmt.Sprintf("INSERT IGNORE INTO {state} VALUES (1, %d, 0, 0, 0)", layout)),
	}
	t.readLayout = name("SELECT layout FROM {state} WHERE id = 1")
	t.isUsed = name("SELECT EXISTS (SELECT 1 FROM {objects})")
	t.state = name("SELECT version, horizon FROM {state} WHERE id = 1")
	t.lock = name("SELECT version, horizon, n, " + ticksSQL + " FROM {state} WHERE id = 1 FOR UPDATE")
	t.get = name("SELECT version, deleted, record, value FROM {objects} WHERE kind = %s AND `key` = %s")
	t.list = name("SELECT `key`, version, deleted, record, value FROM {objects} FORCE INDEX (PRIMARY)\n" +
		"\tWHERE kind = %[1]s AND `key` > %[2]s%[3]s ORDER BY `key` LIMIT %[4]d")
	// The state and the changes are in one statement, which is one snapshot. In a join, the server would sort all changes that follow. The row of
	// the version after which the watch reads is there unless the version is of another history.
	t.changes = name("SELECT version, NULL AS `key`, NULL AS deleted, NULL AS record, NULL AS value, horizon,\n" +
		"\t(SELECT COUNT(*) FROM {changes} WHERE version = %[2]d) AS known FROM {state} WHERE id = 1\n" +
		"\tUNION ALL (SELECT version, `key`, deleted, record, value, NULL, NULL FROM {changes} FORCE INDEX (kinds)\n" +
		"\tWHERE kind = %[1]s AND version > %[2]d ORDER BY version LIMIT %[3]d)")
	t.present = name("SELECT kind, `key`, version FROM {objects} FORCE INDEX (PRIMARY) WHERE %s FOR UPDATE")
	t.terms = name("SELECT lease, term FROM {fences} WHERE lease IN (%s)")
	t.insert = name("INSERT INTO {changes} (kind, `key`, version, deleted, record, value, n) VALUES ")
	t.apply = name("REPLACE INTO {objects} SELECT kind, `key`, version, deleted, record, value FROM {changes} WHERE version BETWEEN %d AND %d")
	t.recordTerms = name("REPLACE INTO {fences} (lease, term) VALUES ")
	t.ends = name("SELECT MIN(n), (SELECT version FROM {changes} WHERE n = %d) FROM {changes}")
	t.tombstones = name("DELETE o FROM {changes} c FORCE INDEX (n) STRAIGHT_JOIN {objects} o ON o.kind = c.kind AND o.`key` = c.`key` AND o.version = c.version\n" +
		"\tWHERE c.n <= %d AND c.deleted = 1")
	t.forget = name("DELETE FROM {changes} WHERE n <= %d")
	t.advance = name("UPDATE {state} SET version = %d, horizon = %d, n = %d WHERE id = 1")
	return t
}

// SQL returns the statements that [Migrate] runs, as a script for the programs mysql and mariadb.
func SQL(cfg Config) (string, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return "", fmt.Errorf("mysql: SQL: %w", err)
	}
	return strings.Join(newTables(cfg.TablePrefix).create, ";\n") + ";\n", nil
}

// Migrate creates the tables of cfg in the default database of the pool. If they exist and are complete, Migrate changes nothing. If they lack
// a part, or are of another layout, it returns an error. If an earlier call was interrupted, it creates the rest. Call it when you deploy.
// Several processes may call it at once. The user of db needs the privileges CREATE, CREATE VIEW, DROP, SELECT, and INSERT on the database. If an
// administrator runs the statements, use [SQL].
//
// Objects are in the table setpoint_objects, and the view setpoint_current shows the live ones:
//
//	SELECT `key`, JSON_VALUE(value, '$.Image') FROM setpoint_current WHERE kind = 'App';
func Migrate(ctx context.Context, db *sql.DB, cfg Config) error {
	if db == nil {
		panic("mysql: Migrate called with a nil pool")
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return fmt.Errorf("mysql: migrate: %w", err)
	}
	if err := newTables(cfg.TablePrefix).migrate(ctx, db); err != nil {
		return failed(ctx, fmt.Sprintf("migrate tables %q", cfg.TablePrefix), err)
	}
	return nil
}

func (t tables) migrate(ctx context.Context, db *sql.DB) (err error) {
	s, err := usertable.Open(ctx, db, usertable.Patience)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }() // releases the lock
	for got := 0; got == 0; {                            // one at a time
		if err := s.QueryRowContext(ctx, "SELECT COALESCE(GET_LOCK(CONCAT('setpoint migrate ', LEFT(MD5(COALESCE(DATABASE(), '')), 20)), 10), 0)").Scan(&got); err != nil {
			return err
		}
	}
	if err := hasDatabase(ctx, s); err != nil {
		return err
	}
	missing, found, err := t.inspect(ctx, s)
	switch {
	case err != nil:
		return err
	case found == 0 && !slices.Contains(missing, t.names[0]):
		var has bool
		if err := s.QueryRowContext(ctx, t.isUsed).Scan(&has); err != nil {
			return err
		}
		if has {
			return fmt.Errorf("there are objects, but the table %s has no row", t.names[stateTable])
		}
	case found != 0:
		return t.usable(missing, found)
	}
	for _, statement := range t.create {
		if _, err := s.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// hasDatabase returns an error if there is no default database.
func hasDatabase(ctx context.Context, from rowscan.Queryer) error {
	var name sql.NullString
	err := from.QueryRowContext(ctx, "SELECT DATABASE()").Scan(&name)
	if err == nil && !name.Valid {
		err = errors.New("the pool has no default database")
	}
	return err
}

// inspect returns the tables that are missing, and the layout, or 0 if it is not known.
func (t tables) inspect(ctx context.Context, from rowscan.Queryer) (missing []string, found int, err error) {
	type table struct{ name, engine string }
	have, err := rowscan.All(ctx, from, func(rows *sql.Rows, t *table) error { return rows.Scan(&t.name, &t.engine) },
		"SELECT LOWER(table_name), COALESCE(engine, '') FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name IN ('"+
			strings.Join(t.names, "', '")+"')")
	if err != nil {
		return nil, 0, err
	}
	for _, name := range t.names {
		i := slices.IndexFunc(have, func(t table) bool { return t.name == name })
		switch {
		case i < 0:
			missing = append(missing, name)
		case have[i].engine != "InnoDB":
			return nil, 0, fmt.Errorf("the table %s has the engine %s, must have InnoDB", name, have[i].engine)
		}
	}
	if slices.Contains(missing, t.names[stateTable]) {
		return missing, 0, nil
	}
	layouts, err := rowscan.All(ctx, from, func(rows *sql.Rows, n *int) error { return rows.Scan(n) }, t.readLayout)
	if err != nil {
		return nil, 0, fmt.Errorf("the table %s belongs to another program: %w", t.names[stateTable], err)
	}
	if len(layouts) > 0 {
		found = layouts[0]
	}
	return missing, found, nil
}

// usable returns an error if the tables cannot be used as they are.
func (t tables) usable(missing []string, found int) error {
	switch {
	case len(missing) == len(t.names):
		return errors.New("they do not exist: call mysql.Migrate once")
	case found == 0:
		return fmt.Errorf("they are incomplete: the table %s has no row: call mysql.Migrate", t.names[stateTable])
	case len(missing) > 0:
		return fmt.Errorf("they are incomplete: there is no table %s", strings.Join(missing, ", no "))
	case found != layout:
		return fmt.Errorf("they have layout %d, this version of the library needs %d", found, layout)
	}
	return nil
}

const (
	driverPacket = 64 << 20 // how large a packet of the driver is at most by default
	statementMax = 64 << 10 // of a statement that writes one record, without its bytes
)

// check returns an error if the tables, or the sessions of the pool, cannot be used.
func (b *Backend) check(ctx context.Context) error {
	if err := hasDatabase(ctx, b.db); err != nil {
		return err
	}
	missing, found, err := b.tables.inspect(ctx, b.db)
	if err == nil {
		err = b.tables.usable(missing, found)
	}
	if err != nil {
		return err
	}
	// Servers differ in the name of the variable that has the level.
	type variable struct{ name, value string }
	all, err := rowscan.All(ctx, b.db, func(rows *sql.Rows, v *variable) error { return rows.Scan(&v.name, &v.value) },
		"SHOW SESSION VARIABLES WHERE Variable_name IN ('autocommit', 'max_allowed_packet', 'tx_isolation', 'transaction_isolation')")
	if err != nil {
		return err
	}
	packet := driverPacket
	for _, v := range all {
		switch {
		case v.name == "autocommit" && v.value != "ON":
			return errors.New("the sessions of the pool have autocommit off, so that they would read the past: set autocommit=1 in the data source name")
		case strings.HasSuffix(v.name, "_isolation") && v.value == "READ-UNCOMMITTED":
			return errors.New("the sessions of the pool have the isolation level READ UNCOMMITTED, must have READ COMMITTED or higher")
		case v.name == "max_allowed_packet":
			var n int
			if _, err := fmt.Sscan(v.value, &n); err != nil {
				return fmt.Errorf("max_allowed_packet is %q: %w", v.value, err)
			}
			packet = min(packet, n)
		}
	}
	b.maxBytes = max(packet-statementMax, 1024) / 2 // each byte is two digits: see bytesSQL
	return nil
}
