package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/setpoint-go/setpoint/internal/problems"
)

// TableConfig names a table, and says how its changes are recorded. Only Table is required.
type TableConfig struct {
	// Table is the name of the table, and TableSchema is the name of its schema. Both are written as in the catalog: without quotes, and in
	// the right case. TableSchema defaults to "public".
	Table, TableSchema string

	// Key names the columns that identify a row, in any order. They must not be null. Defaults to the primary key.
	Key []string

	// Columns names the columns that the program reads, in the order in which scan receives them. Set it if the table has more columns, or
	// may get more: pgx.RowToStructByName refuses a row with an unknown column. Defaults to all.
	Columns []string

	// Schema is the schema of the change log. Several tables may share it. Defaults to "setpoint".
	Schema string

	// History is the number of changes of the table that the log keeps for watches that resume. The log may hold more for a while: the
	// watches trim it, and only up to the oldest open transaction. Defaults to 100,000.
	History int

	// Poll is how often a watch looks for changes without a notification. Defaults to 1 s.
	Poll time.Duration

	// Listen is the pool that provides the connection for notifications. Set it if the pool of NewTable goes through a pooler in
	// transaction mode. Defaults to the pool of NewTable.
	Listen *pgxpool.Pool

	// WithoutNotify turns notifications off, so watches find changes by Poll. Set it if transactions that write the table are prepared for
	// a two-phase commit, which the server refuses after a notification. It is part of the triggers, so call InstallTable after a change.
	WithoutNotify bool
}

func (c TableConfig) withDefaults() TableConfig {
	c.TableSchema = cmp.Or(c.TableSchema, "public")
	c.Schema = cmp.Or(c.Schema, "setpoint")
	c.History = cmp.Or(c.History, 100_000)
	c.Poll = cmp.Or(c.Poll, time.Second)
	c.Key, c.Columns = slices.Clone(c.Key), slices.Clone(c.Columns)
	return c
}

func (c TableConfig) validate() error {
	var errs []error
	if c.Table == "" {
		errs = append(errs, errors.New("TableConfig.Table is empty"))
	}
	names := map[string]string{"Table": c.Table, "TableSchema": c.TableSchema, "Schema": c.Schema}
	for field, columns := range map[string][]string{"Key": c.Key, "Columns": c.Columns} {
		for i, column := range columns {
			names[fmt.Sprintf("%s[%d]", field, i)] = column
			if column == "" {
				errs = append(errs, fmt.Errorf("TableConfig.%s[%d] is empty", field, i))
			}
		}
	}
	for _, field := range slices.Sorted(maps.Keys(names)) {
		name := names[field]
		if strings.ContainsRune(name, 0) {
			errs = append(errs, fmt.Errorf("TableConfig.%s is %q, must not contain NUL", field, name))
		}
		if len(name) > 63 {
			errs = append(errs, fmt.Errorf("TableConfig.%s has %d bytes, must not have more than 63", field, len(name)))
		}
	}
	if c.History < 0 {
		errs = append(errs, fmt.Errorf("TableConfig.History is %d, must not be negative", c.History))
	}
	if c.Poll < 0 {
		errs = append(errs, fmt.Errorf("TableConfig.Poll is %v, must not be negative", c.Poll))
	}
	return problems.Join(errs...)
}

// logSQL creates the change log. {schema} stands for its schema.
//
//   - changes has a row for each row of a table that was written: the transaction, in xid; the table; the key, or null for a TRUNCATE; the
//     kind of write; the row as it was before; and in oldest the first transaction that was open, or null in entries made by an older
//     version of the library. Writes of one row are in the order of id.
//   - trimmed has a row for each table: the transaction up to which changes may be missing.
//   - epoch has one row. The version of a transaction is base, plus twice its number, plus one. The row is gone when the server may reuse
//     transaction numbers: the server empties an unlogged table when it recovers from a crash, is promoted, or starts on a copy of a
//     running server. After a restored dump, the row names another server. Then the function epoch begins a new epoch, whose versions are
//     all greater. The step is random, so that two promoted servers differ.
//   - epochs has the base of the last epoch.
//
// The table is locked first, and the log only while it is new. A writer locks the table before the log, so there is no deadlock.
const logSQL = `
LOCK TABLE ONLY {table} IN SHARE ROW EXCLUSIVE MODE;
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE IF NOT EXISTS {schema}.changes (
	id bigint GENERATED ALWAYS AS IDENTITY,
	xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
	source text COLLATE "C" NOT NULL,
	key jsonb,
	op "char" NOT NULL,
	before jsonb
);
DO $$ BEGIN
	IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = {changes}::regclass AND attname = 'oldest') THEN
		ALTER TABLE {schema}.changes ADD COLUMN oldest xid8;
		ALTER TABLE {schema}.changes ALTER COLUMN oldest SET DEFAULT pg_snapshot_xmin(pg_current_snapshot());
	END IF;
	IF (SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
			WHERE i.indrelid = {changes}::regclass AND c.relname IN ('changes_by_transaction', 'changes_by_key')) < 2 THEN
		CREATE INDEX IF NOT EXISTS changes_by_transaction ON {schema}.changes (source, xid, id);
		CREATE INDEX IF NOT EXISTS changes_by_key ON {schema}.changes (source, key, id);
	END IF;
END $$;
CREATE TABLE IF NOT EXISTS {schema}.trimmed (source text COLLATE "C" PRIMARY KEY, xid xid8 NOT NULL);
INSERT INTO {schema}.trimmed VALUES ({source}, pg_current_xact_id()) ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS {schema}.epochs (base bigint NOT NULL);
CREATE UNLOGGED TABLE IF NOT EXISTS {schema}.epoch (base bigint NOT NULL, system bigint NOT NULL);
WITH first AS (INSERT INTO {schema}.epochs SELECT 0 WHERE NOT EXISTS (SELECT FROM {schema}.epochs) RETURNING base)
	INSERT INTO {schema}.epoch SELECT first.base, c.system_identifier FROM first, pg_control_system() c;
CREATE OR REPLACE FUNCTION {schema}.epoch() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	v_system bigint;
	v_base bigint;
BEGIN
	SELECT c.system_identifier INTO STRICT v_system FROM pg_control_system() c;
	SELECT e.base INTO v_base FROM {schema}.epoch e WHERE e.system = v_system;
	IF v_base IS NOT NULL THEN
		RETURN v_base;
	END IF;
	PERFORM FROM {schema}.epochs FOR UPDATE; -- a session that has waited here finds the row of the other one
	SELECT e.base INTO v_base FROM {schema}.epoch e WHERE e.system = v_system;
	IF v_base IS NOT NULL THEN
		RETURN v_base;
	END IF;
	UPDATE {schema}.epochs s SET base = s.base + (1::bigint << 44) + 2 * {later}
		RETURNING s.base INTO STRICT v_base;
	DELETE FROM {schema}.epoch;
	INSERT INTO {schema}.epoch VALUES (v_base, v_system);
	RETURN v_base;
END
$$;
`

// The kinds of writes, in the column op.
const (
	opInsert   = "I"
	opUpdate   = "U"
	opDelete   = "D"
	opTruncate = "T"
)

// triggerSQL records the writes of a table in the log. A statement trigger sees all its rows in a transition table, so a statement that
// writes a million rows inserts into the log once. An upsert fires the triggers of both its events, each with the rows that it concerns. A
// row whose key changes is deleted under the old key. ENABLE ALWAYS makes the triggers also fire in sessions that apply replicated changes.
//
// Most updates write one row and leave its key alone, so they have their own statement. The other statement must be a FULL JOIN, which the
// server never runs by comparing each row with each: a session keeps the plan of its first update, which may have written a single row.
//
// The function has the rights of its owner. It qualifies every name, including operators, so it does not depend on the search_path of the
// session. Setting search_path for each call would cost a sixth of the function.
//
// If a trigger was missing, or recorded another key, the log may lack changes, so the history begins here. A log that was restored with a
// backup from another server has transactions of that server, which are removed.
const triggerSQL = `
UPDATE {schema}.trimmed SET xid = pg_current_xact_id() WHERE source = {source} AND 4 > (
	SELECT count(*) FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
	WHERE t.tgrelid = {source}::regclass AND t.tgname IN ('setpoint_insert', 'setpoint_update', 'setpoint_delete', 'setpoint_truncate')
	AND t.tgenabled = 'A' AND p.pronamespace = {schema name}::regnamespace AND strpos(p.prosrc, {key of r as text}) > 0);
UPDATE {schema}.trimmed SET xid = pg_current_xact_id() WHERE source = {source} AND xid >= pg_snapshot_xmax(pg_current_snapshot());
DELETE FROM {schema}.changes WHERE source = {source} AND xid >= pg_snapshot_xmax(pg_current_snapshot());
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
	IF TG_OP OPERATOR(pg_catalog.=) 'UPDATE' THEN
		INSERT INTO {schema}.changes (source, op, key, before)
			SELECT {source}, 'U', {key of r}, pg_catalog.to_jsonb(o)
			FROM old_rows o, new_rows r WHERE {same key} AND NOT EXISTS (SELECT FROM old_rows OFFSET 1);
		IF NOT FOUND THEN
			INSERT INTO {schema}.changes (source, op, key, before)
				SELECT {source}, CASE WHEN r.{first key} IS NULL THEN 'D' WHEN o.{first key} IS NULL THEN 'I' ELSE 'U' END, {key of either},
					CASE WHEN o.{first key} IS NOT NULL THEN pg_catalog.to_jsonb(o) END
				FROM old_rows o FULL JOIN new_rows r ON {same key} ORDER BY r.{first key} IS NOT NULL; -- deletions first
		END IF;
	ELSIF TG_OP OPERATOR(pg_catalog.=) 'INSERT' THEN
		INSERT INTO {schema}.changes (source, op, key) SELECT {source}, 'I', {key of r} FROM new_rows r;
	ELSIF TG_OP OPERATOR(pg_catalog.=) 'DELETE' THEN
		INSERT INTO {schema}.changes (source, op, key, before) SELECT {source}, 'D', {key of r}, pg_catalog.to_jsonb(r) FROM old_rows r;
	ELSE
		INSERT INTO {schema}.changes (source, op) VALUES ({source}, 'T');
	END IF;{announce}
	RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER setpoint_insert AFTER INSERT ON {table} REFERENCING NEW TABLE AS new_rows
	FOR EACH STATEMENT EXECUTE FUNCTION {function}();
CREATE OR REPLACE TRIGGER setpoint_update AFTER UPDATE ON {table} REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
	FOR EACH STATEMENT EXECUTE FUNCTION {function}();
CREATE OR REPLACE TRIGGER setpoint_delete AFTER DELETE ON {table} REFERENCING OLD TABLE AS old_rows
	FOR EACH STATEMENT EXECUTE FUNCTION {function}();
CREATE OR REPLACE TRIGGER setpoint_truncate AFTER TRUNCATE ON {table}
	FOR EACH STATEMENT EXECUTE FUNCTION {function}();
ALTER TABLE {table} ENABLE ALWAYS TRIGGER setpoint_insert, ENABLE ALWAYS TRIGGER setpoint_update,
	ENABLE ALWAYS TRIGGER setpoint_delete, ENABLE ALWAYS TRIGGER setpoint_truncate;
`

// announceSQL notifies the watches of a change, unless another transaction is about to. The commit of a transaction that has notified holds
// a lock of the whole cluster until the disk has been written, so commits that notify do not share a flush. Therefore at most one
// transaction at a time announces: the one that holds the lock {announcing}. The lock ends with the transaction, or with the savepoint to
// which it rolls back, as the change and the notification do. No transaction waits for it.
//
// A transaction that does not announce may commit after the announcing one, when the notification has already been received. But it had its
// number when it tried the lock, and so before the notification was sent. So a watch that reads after the notification finds it committed, or
// finds that a transaction was open, and looks again soon: see moment.
const announceSQL = `
	IF FOUND AND pg_catalog.pg_try_advisory_xact_lock({announcing}) THEN
		PERFORM pg_catalog.pg_notify({channel}, '');
	END IF;`

// triggers are the names of the triggers in triggerSQL.
var triggers = []string{"setpoint_insert", "setpoint_update", "setpoint_delete", "setpoint_truncate"}

// hash returns a number for text.
func hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum64()
}

// fingerprint returns a short name for text.
func fingerprint(text string) string { return fmt.Sprintf("%x", hash(text)) }

// source returns the name under which the changes of the table are recorded in the log.
func (c TableConfig) source() string { return pgx.Identifier{c.TableSchema, c.Table}.Sanitize() }

// columns returns the Columns of a relation of the given name, as SQL.
func (c TableConfig) columns(of string) string {
	if len(c.Columns) == 0 {
		return of + ".*"
	}
	var names []string
	for _, column := range c.Columns {
		names = append(names, of+"."+pgx.Identifier{column}.Sanitize())
	}
	return strings.Join(names, ", ")
}

// hash returns a number for the table in its log.
func (c TableConfig) hash() uint64 { return hash(c.Schema + "\x00" + c.source()) }

func (c TableConfig) channel() string { return fmt.Sprintf("setpoint_%x", c.hash()) }

// lock returns the key of an advisory lock of the database, as arguments of the functions that take it: see announceSQL. It is 62 bits of a
// hash, so other programs do not take it by accident. If a program does take it, watches wait for Poll, and nothing else changes.
func (c TableConfig) lock() string {
	h := c.hash()
	return fmt.Sprintf("%d, %d", h>>33, h&0x7fffffff)
}

// sql returns all statements. The Key must be set.
func (c TableConfig) sql() string {
	var key, either []string
	for _, column := range c.Key {
		name := pgx.Identifier{column}.Sanitize()
		key = append(key, quote(column)+", r."+name)
		either = append(either, quote(column)+", coalesce(r."+name+", o."+name+")")
	}
	announce := announceSQL
	if c.WithoutNotify {
		announce = ""
	}
	keyOfR := "pg_catalog.jsonb_build_object(" + strings.Join(key, ", ") + ")"
	return strings.NewReplacer(
		"$$", bodyQuote(append(slices.Clone(c.Key), c.Table, c.TableSchema, c.Schema)),
		"{schema}", pgx.Identifier{c.Schema}.Sanitize(),
		"{later}", laterSQL,
		"{changes}", quote(pgx.Identifier{c.Schema, "changes"}.Sanitize()),
		"{table}", c.source(),
		"{source}", quote(c.source()),
		"{function}", pgx.Identifier{c.Schema, "record_" + fingerprint(c.source())}.Sanitize(),
		"{announcing}", c.lock(),
		"{channel}", quote(c.channel()),
		"{schema name}", quote(pgx.Identifier{c.Schema}.Sanitize()),
		"{key of r}", keyOfR,
		"{key of r as text}", quote(keyOfR),
		"{key of either}", "pg_catalog.jsonb_build_object("+strings.Join(either, ", ")+")",
		"{same key}", c.sameKey(),
		"{first key}", pgx.Identifier{c.Key[0]}.Sanitize(), // it is never null
	).Replace(logSQL + strings.Replace(triggerSQL, "{announce}", announce, 1))
}

// compareSQL compares the keys of no rows, in the same way as triggerSQL.
func (c TableConfig) compareSQL() string {
	return fmt.Sprintf("SELECT FROM %[1]s o FULL JOIN %[1]s r ON %[2]s LIMIT 0", c.source(), c.sameKey())
}

// sameKey compares the keys of the rows o and r.
func (c TableConfig) sameKey() string {
	var same []string
	for _, column := range c.Key {
		name := pgx.Identifier{column}.Sanitize()
		same = append(same, "o."+name+" OPERATOR(pg_catalog.=) r."+name)
	}
	return strings.Join(same, " AND ")
}

// bodyQuote returns the quote of a function body that contains the given identifiers. No identifier contains the quote.
func bodyQuote(names []string) string {
	for i := 0; ; i++ {
		quote := fmt.Sprintf("$setpoint%d$", i)
		if !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(name, quote) }) {
			return quote
		}
	}
}

// TableSQL returns the statements that [InstallTable] runs, for an administrator to run in one transaction. It does not ask a server, so
// the Key must be set, and nobody checks that its columns exist and are not null.
func TableSQL(cfg TableConfig) (string, error) {
	cfg = cfg.withDefaults()
	err := cfg.validate()
	if err == nil && len(cfg.Key) == 0 {
		err = errors.New("TableConfig.Key is empty")
	}
	if err != nil {
		return "", fmt.Errorf("postgres: TableSQL: %w", err)
	}
	return cfg.sql(), nil
}

// InstallTable creates the change log, if it does not exist, and the triggers that write the changes of the table to it, in one
// transaction. Its role must own the table, and must be allowed to create a schema in the database. Programs that write the table need no
// rights on the log. If an administrator runs the statements, use [TableSQL].
//
// InstallTable locks the table against writes. It waits for the transactions that have written the table, and later writes wait behind it.
//
// Call it again after you have changed or renamed columns of the key: until then, every write of the table may fail. If a trigger is missing,
// disabled, or records another key, InstallTable repairs it, and all watches of the table end with [informer.ErrExpired]. So informers list
// what the log lacks. They list again until the transactions that were open at that time have ended.
//
// The triggers fire on INSERT, upserts, UPDATE (also of the key), DELETE, MERGE, TRUNCATE, COPY, and cascades. They miss these changes:
//
//   - Writes while the triggers are disabled, as by pg_restore --disable-triggers. Call InstallTable again.
//   - Changes that a subscription applies, besides a TRUNCATE and the initial copy.
//   - Writes that name a partition, or a table that inherits from the table. A watch of the partition sees only those.
//   - A partition that is attached, detached, or dropped.
//
// After the last three, call [informer.Informer.Reset], or use [NewQuery] instead of a Table.
//
// The log has the old row as jsonb. If jsonb cannot hold a value of the row, such as the character \u0000 in a json column, the server
// refuses to update or delete the row.
func InstallTable(ctx context.Context, pool *pgxpool.Pool, cfg TableConfig) error {
	if pool == nil {
		panic("postgres: InstallTable called with a nil pool")
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return fmt.Errorf("postgres: install table: %w", err)
	}
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtext($1))", "setpoint log "+cfg.Schema); err != nil {
			return err
		}
		if err := cfg.findKey(ctx, tx); err != nil {
			return err
		}
		// The same comparison as in the triggers, which would fail every write of the table.
		if _, err := tx.Exec(ctx, cfg.compareSQL()); err != nil {
			return fmt.Errorf("its key cannot be compared: %w", err)
		}
		_, err := tx.Exec(ctx, cfg.sql())
		return err
	})
	if err != nil {
		return fmt.Errorf("postgres: install table %s: %w", cfg.source(), err)
	}
	return nil
}

// findKey sets the Key to the primary key if it is not set. It checks that the columns of the Key exist and are not null, and that the
// Columns exist.
func (c *TableConfig) findKey(ctx context.Context, from queryer) error {
	rows, err := from.Query(ctx, `
		SELECT a.attname, a.attnotnull, i.indrelid IS NOT NULL
		FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
		LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary AND array_position(i.indkey::int2[], a.attnum) < i.indnkeyatts
		WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped`,
		c.TableSchema, c.Table)
	if err != nil {
		return err
	}
	type columnRow struct {
		Name    string
		NotNull bool
		Primary bool // it is in the primary key
	}
	columns, err := pgx.CollectRows(rows, pgx.RowToStructByPos[columnRow])
	if err != nil {
		return err
	}
	if len(columns) == 0 {
		return errors.New("there is no such table")
	}
	if len(c.Key) == 0 {
		for _, column := range columns {
			if column.Primary {
				c.Key = append(c.Key, column.Name)
			}
		}
		if len(c.Key) == 0 {
			return errors.New("it has no primary key: set TableConfig.Key")
		}
	}
	find := func(name string) int {
		return slices.IndexFunc(columns, func(column columnRow) bool { return column.Name == name })
	}
	for _, name := range c.Columns {
		if find(name) < 0 {
			return fmt.Errorf("it has no column %q, which TableConfig.Columns names", name)
		}
	}
	for _, name := range c.Key {
		i := find(name)
		switch {
		case i < 0:
			return fmt.Errorf("it has no column %q, which TableConfig.Key names", name)
		case !columns[i].NotNull:
			return fmt.Errorf("its column %q, which TableConfig.Key names, may be null", name)
		}
	}
	return nil
}

// keyInfo says how to find a row by the key of an entry in the log.
type keyInfo struct {
	indexed bool     // an index begins with one of the columns
	casts   []string // of the text of each column; nil if some type is not in castOf
}

// castOf has the types that a cast makes from the text of a JSON value. For any other type, a watch calls jsonb_populate_record for each
// entry, which takes longer than the search in the index. An integer column may get another size while there are watches.
var castOf = map[uint32]string{
	pgtype.TextOID: "", pgtype.VarcharOID: "", pgtype.UUIDOID: "::uuid",
	pgtype.Int2OID: "::bigint", pgtype.Int4OID: "::bigint", pgtype.Int8OID: "::bigint",
}

// keyInfo asks the server. The Key must be set.
func (c TableConfig) keyInfo(ctx context.Context, from queryer) (info keyInfo, err error) {
	rows, err := from.Query(ctx, `
		SELECT a.attname, a.atttypid,
			EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indkey[0] = a.attnum AND i.indisvalid AND i.indpred IS NULL)
		FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = $2 AND a.attname::text = ANY ($3::text[])`, c.TableSchema, c.Table, c.Key)
	if err != nil {
		return info, err
	}
	types := map[string]uint32{}
	var name string
	var of uint32
	var indexed bool
	if _, err := pgx.ForEachRow(rows, []any{&name, &of, &indexed}, func() error {
		types[name], info.indexed = of, info.indexed || indexed
		return nil
	}); err != nil {
		return info, err
	}
	for _, column := range c.Key {
		cast, ok := castOf[types[column]]
		if !ok {
			return keyInfo{indexed: info.indexed}, nil
		}
		info.casts = append(info.casts, cast)
	}
	return info, nil
}

// checkInstalled returns an error if InstallTable has not been run, or has to be run again.
func (c TableConfig) checkInstalled(ctx context.Context, from queryer) error {
	rows, err := from.Query(ctx, `
		SELECT t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
		JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_namespace l ON l.oid = p.pronamespace
		WHERE n.nspname = $1 AND c.relname = $2 AND l.nspname = $3 AND t.tgenabled = 'A'`, c.TableSchema, c.Table, c.Schema)
	if err != nil {
		return err
	}
	have, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, trigger := range triggers {
		if !slices.Contains(have, trigger) {
			return fmt.Errorf("the trigger %s is not there, not enabled, or of another log: call postgres.InstallTable", trigger)
		}
	}
	var there bool
	if err := from.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
		JOIN pg_class c ON c.relnamespace = n.oid JOIN pg_attribute a ON a.attrelid = c.oid
		WHERE n.nspname = $1 AND p.proname = 'epoch' AND c.relname = 'changes' AND a.attname = 'oldest')`, c.Schema).Scan(&there); err != nil {
		return err
	}
	if !there {
		return errors.New("the log is of an older version of the library: call postgres.InstallTable")
	}
	var foreign bool
	err = from.QueryRow(ctx, strings.ReplaceAll(`
		SELECT EXISTS (SELECT FROM {schema}.changes WHERE source = $1 AND xid >= pg_snapshot_xmax(pg_current_snapshot()))`,
		"{schema}", pgx.Identifier{c.Schema}.Sanitize()), c.source()).Scan(&foreign)
	if err == nil && foreign {
		err = errors.New("the log is of another server, from which it was restored: call postgres.InstallTable")
	}
	return err
}
