package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/setpoint-go/setpoint/internal/problems"
)

// TableConfig names a table, and says how its changes are recorded. Only Table is required.
type TableConfig struct {
	// Table is the name of the table, and TableSchema is the name of its schema. Both are written as in the catalog: without quotes, and in
	// the right case. TableSchema defaults to "public".
	Table, TableSchema string

	// Key names the columns that identify a row, in any order. They must not be null, and must have a unique index of their own. Defaults to
	// the primary key.
	Key []string

	// Columns names the columns that the program reads, in the order in which scan receives them. They include the Key. Set it if the table
	// has more columns, or may get more: pgx.RowToStructByName refuses a row with an unknown column. Defaults to all.
	Columns []string

	// SlotBy is an SQL expression of the columns, such as "name" or "split_part(name, '/', 1)", for replicas that each cache a part of the rows. It is
	// the text by which [informer.Divide] divides the objects; for NULL, Divide must return "". InstallTable creates an index for it, so it must be
	// immutable. A list then reads only the rows of the slots that the informer holds. The database must have the encoding UTF8. If SlotBy is
	// empty, lists read all rows.
	SlotBy string

	// Schema is the schema of the logs. All tables whose versions are to be compared share it. Defaults to "setpoint".
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

	// Logger receives a warning if a watch may not trim the log. Defaults to slog.Default.
	Logger *slog.Logger
}

func (c TableConfig) withDefaults() TableConfig {
	c.TableSchema = cmp.Or(c.TableSchema, "public")
	c.Schema = cmp.Or(c.Schema, "setpoint")
	c.History = cmp.Or(c.History, 100_000)
	c.Poll = cmp.Or(c.Poll, time.Second)
	c.Logger = cmp.Or(c.Logger, slog.Default())
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
	for _, name := range c.Key {
		if len(c.Columns) > 0 && !slices.Contains(c.Columns, name) {
			errs = append(errs, fmt.Errorf("TableConfig.Columns lacks %q, which TableConfig.Key names", name))
		}
		if name == "setpoint_xid" || name == "setpoint_seq" {
			errs = append(errs, fmt.Errorf("TableConfig.Key names %q, which is a column of the log", name))
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
	if strings.ContainsRune(c.SlotBy, 0) {
		errs = append(errs, fmt.Errorf("TableConfig.SlotBy is %q, must not contain NUL", c.SlotBy))
	}
	if c.History < 0 {
		errs = append(errs, fmt.Errorf("TableConfig.History is %d, must not be negative", c.History))
	}
	if c.Poll < 0 {
		errs = append(errs, fmt.Errorf("TableConfig.Poll is %v, must not be negative", c.Poll))
	}
	return problems.Join(errs...)
}

// logSQL creates the log of a table, and what all logs of a schema share.
//
//   - The log has a row for each key that was written: the number of the transaction, a sequence number, and the key in columns with the
//     names, types, and collations of the table's. The type of a domain is the type below it, so that a constraint of the domain, whenever
//     it is added, concerns no old key. A row without a key means that a watch cannot tell what has changed, and lists again: after a
//     TRUNCATE, and where the log begins. The log is unlogged: after a crash, all watches list again anyway. Trimming leaves at least one row.
//   - epoch has one row. The version of a transaction is base, plus twice its number, plus one. The row is gone when the server may reuse
//     transaction numbers: the server empties an unlogged table when it recovers from a crash, is promoted, or starts on a copy of a
//     running server. After a restored dump, the row names another server. Then the function epoch begins a new epoch, whose versions are
//     all greater, with empty logs. The step is random, so that two promoted servers differ.
//   - epochs has the base of the last epoch.
//
// The table is locked first: so all transactions that have written it without the triggers have ended.
const logSQL = `
LOCK TABLE ONLY {table} IN SHARE ROW EXCLUSIVE MODE;
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE IF NOT EXISTS {schema}.epochs (base bigint PRIMARY KEY);
CREATE UNLOGGED TABLE IF NOT EXISTS {schema}.epoch (base bigint NOT NULL, system bigint NOT NULL);
WITH first AS (INSERT INTO {schema}.epochs SELECT 0 WHERE NOT EXISTS (SELECT FROM {schema}.epochs) RETURNING base)
	INSERT INTO {schema}.epoch SELECT first.base, c.system_identifier FROM first, pg_control_system() c;
CREATE OR REPLACE FUNCTION {schema}.epoch() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	v_system bigint;
	v_base bigint;
	v_log regclass;
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
	FOR v_log IN SELECT a.attrelid FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
		WHERE c.relnamespace = {schema name}::regnamespace AND c.relkind = 'r' AND a.attname = 'setpoint_xid'
	LOOP
		EXECUTE format('DELETE FROM %s', v_log);
		EXECUTE format('INSERT INTO %s DEFAULT VALUES', v_log);
	END LOOP;
	RETURN v_base;
END
$$;
CREATE UNLOGGED TABLE IF NOT EXISTS {log} (
	setpoint_xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
	setpoint_seq bigint GENERATED ALWAYS AS IDENTITY (CACHE 100),
	PRIMARY KEY (setpoint_xid, setpoint_seq)
);
DO $$
DECLARE
	v_name text;
	v_key CONSTANT text := {columns of table};
BEGIN
	SELECT n.nspname INTO v_name FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_namespace n ON n.oid = p.pronamespace
		WHERE t.tgrelid = {table name}::regclass AND t.tgname LIKE 'setpoint\_%' AND t.tgparentid = 0 AND n.nspname <> {schema of log};
	IF FOUND THEN
		RAISE EXCEPTION 'its triggers write a log in the schema "%": use that schema, or drop them first', v_name;
	END IF;
	IF v_key IS DISTINCT FROM {columns of log} THEN
		FOR v_name IN SELECT a.attname FROM pg_attribute a WHERE a.attrelid = {log name}::regclass AND {is key of log} LOOP
			EXECUTE 'ALTER TABLE ' || {log name} || ' DROP COLUMN ' || quote_ident(v_name);
		END LOOP;
		DELETE FROM {log};
		INSERT INTO {log} DEFAULT VALUES;
		EXECUTE 'ALTER TABLE ' || {log name} || ' ' || v_key;
	ELSIF NOT {recorded} THEN
		INSERT INTO {log} DEFAULT VALUES; -- it may lack changes
	END IF;
	-- The function epoch has the rights of its owner.
	EXECUTE (SELECT 'GRANT SELECT, INSERT, DELETE ON ' || {log name} || ' TO ' || proowner::regrole FROM pg_proc
		WHERE proname = 'epoch' AND pronamespace = {schema name}::regnamespace);
END
$$;
`

// triggerSQL records the written keys of a table in its log. A statement trigger sees all rows of its statement in a transition table, so a
// statement that writes a million rows inserts into the log once. {key trigger} records the old key of a row whose key has changed, byte by byte.
//
// Some writes fire no statement trigger of the table: those that a subscription applies, and those that name a partition. For these,
// {row trigger} records each row. It fires in sessions that apply replicated changes, where the statement triggers do not; and for a partitioned
// table always, instead of them. A partition has the triggers for rows under the same names, so the names are those of one table.
//
// Triggers for rows do not fire for tables that inherit from the table. If there are any, an UPDATE records the old key of each row.
//
// The condition of {key trigger} has another use: because of it, the server refuses to change the type of a column of the key, which the log
// would not fit, and so no write would succeed.
//
// The function has the rights of its owner. It qualifies every name, including operators, and names each column with its relation, so it
// depends neither on the session nor on the names of other columns. Nothing that it does depends on a value.
const triggerSQL = `
CREATE OR REPLACE FUNCTION {log}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
	IF TG_LEVEL OPERATOR(pg_catalog.=) 'ROW' THEN
		IF TG_OP OPERATOR(pg_catalog.=) 'DELETE' OR TG_NAME OPERATOR(pg_catalog.=) '{key trigger}' THEN
			INSERT INTO {log} ({key}) VALUES ({key of OLD});
		ELSE
			INSERT INTO {log} ({key}) VALUES ({key of NEW});
		END IF;
	ELSIF TG_OP OPERATOR(pg_catalog.=) 'TRUNCATE' THEN
		INSERT INTO {log} DEFAULT VALUES;
	ELSE
		IF TG_OP OPERATOR(pg_catalog.=) 'DELETE' OR TG_NARGS OPERATOR(pg_catalog.>) 0 THEN
			INSERT INTO {log} ({key}) SELECT {key of o} FROM old_rows o;
		END IF;
		IF TG_OP OPERATOR(pg_catalog.<>) 'DELETE' THEN
			INSERT INTO {log} ({key}) SELECT {key of r} FROM new_rows r;
		END IF;
	END IF;
	{announce}
	RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER setpoint_insert AFTER INSERT ON {table} REFERENCING NEW TABLE AS new_rows
	FOR EACH STATEMENT EXECUTE FUNCTION {log}();
CREATE OR REPLACE TRIGGER setpoint_update AFTER UPDATE ON {table} REFERENCING NEW TABLE AS new_rows
	FOR EACH STATEMENT EXECUTE FUNCTION {log}();
CREATE OR REPLACE TRIGGER setpoint_delete AFTER DELETE ON {table} REFERENCING OLD TABLE AS old_rows
	FOR EACH STATEMENT EXECUTE FUNCTION {log}();
CREATE OR REPLACE TRIGGER setpoint_truncate AFTER TRUNCATE ON {table}
	FOR EACH STATEMENT EXECUTE FUNCTION {log}();
CREATE OR REPLACE TRIGGER {row trigger} AFTER INSERT OR UPDATE OR DELETE ON {table}
	FOR EACH ROW EXECUTE FUNCTION {log}();
CREATE OR REPLACE TRIGGER {key trigger} AFTER UPDATE ON {table}
	FOR EACH ROW WHEN (record_image_ne(ROW({key of OLD}), ROW({key of NEW}))) EXECUTE FUNCTION {log}();
ALTER TABLE {table} ENABLE TRIGGER setpoint_insert, ENABLE TRIGGER setpoint_update, ENABLE TRIGGER setpoint_delete,
	ENABLE REPLICA TRIGGER {row trigger}, ENABLE ALWAYS TRIGGER {key trigger}, ENABLE ALWAYS TRIGGER setpoint_truncate;
DO $$ BEGIN
	IF (SELECT relkind FROM pg_class WHERE oid = {table name}::regclass) = 'p' THEN
		ALTER TABLE {table} DISABLE TRIGGER setpoint_insert, DISABLE TRIGGER setpoint_update, DISABLE TRIGGER setpoint_delete,
			ENABLE ALWAYS TRIGGER {row trigger};
	ELSIF EXISTS (SELECT FROM pg_inherits WHERE inhparent = {table name}::regclass) THEN
		CREATE OR REPLACE TRIGGER setpoint_update AFTER UPDATE ON {table} REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
			FOR EACH STATEMENT EXECUTE FUNCTION {log}('old_rows');
	END IF;
END $$;
SELECT {schema}.epoch();
`

// slotSQL creates the index of the hash by which the rows are divided, and removes that of another SlotBy.
const slotSQL = `
DO $$
DECLARE
	v_index regclass;
BEGIN
	FOR v_index IN SELECT i.indexrelid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
		WHERE i.indrelid = {table name}::regclass AND c.relname LIKE 'setpoint\_slot\_%' AND c.relname <> {slot index name}
	LOOP
		EXECUTE 'DROP INDEX ' || v_index;
	END LOOP;
END
$$;
{create slot index}`

// slotIndexSQL is the last statement of slotSQL, if there is a SlotBy.
const slotIndexSQL = `CREATE INDEX IF NOT EXISTS {slot index} ON {table} (({slot hash}));
`

// slotHashSQL is the hash of a row, by which it belongs to a slot: see [informer.RangeLister]. The cast to bigint fills it up with zeros.
const slotHashSQL = `('x' || left(md5(coalesce(({slot by})::text, '')), 8))::bit(32)::bigint`

// replaceSQL removes the log of older versions of the library, which all tables of a schema shared, when the last of its tables has a log of
// its own. trimmed had a row for each table. The function shows that changes and trimmed are ours.
const replaceSQL = `DO $$ BEGIN
	IF to_regprocedure({old function} || '()') IS NOT NULL THEN
		DROP FUNCTION {schema}.{old name}();
		ALTER TABLE {schema}.epochs DROP CONSTRAINT IF EXISTS epochs_pkey, ADD PRIMARY KEY (base);
		DELETE FROM {schema}.trimmed t WHERE t.source = {table name};
		IF NOT EXISTS (SELECT FROM {schema}.trimmed) THEN
			DROP TABLE {schema}.changes, {schema}.trimmed;
		END IF;
	END IF;
END $$;
`

// announceSQL notifies the watches of a change, unless another transaction is about to. The commit of a transaction that has notified holds
// a lock of the whole cluster until the disk has been written, so commits that notify do not share a flush. Therefore at most one
// transaction at a time announces: the one that holds the lock {announcing}. The lock ends with the transaction, or with the savepoint to
// which it rolls back, as the change and the notification do. No transaction waits for it. A subscription announces nothing, because it may
// have to prepare its transaction.
//
// A transaction that does not announce may commit after the announcing one, when the notification has already been received. But it had its
// number when it tried the lock, and so before the notification was sent. So a watch that reads after the notification finds it committed, or
// finds that a transaction was open, and looks again soon: see moment.
const announceSQL = `IF FOUND AND pg_catalog.current_setting('session_replication_role') OPERATOR(pg_catalog.<>) 'replica'
			AND pg_catalog.pg_try_advisory_xact_lock({announcing}) THEN
		PERFORM pg_catalog.pg_notify({channel}, '');
	END IF;`

// recordedSQL says whether the triggers of a table are there, enabled, and record in its log. Of a partitioned table, so must be the copies
// in its partitions. Of a table from which others inherit, the trigger for updates must see the old rows.
const recordedSQL = `coalesce((SELECT CASE WHEN c.relkind = 'p' THEN count(*) FILTER (WHERE (t.tgname, t.tgenabled) IN
			(('setpoint_truncate', 'A'), ('{row trigger}', 'A'), ('{key trigger}', 'A'))) = 3 AND NOT EXISTS (
				SELECT FROM pg_partition_tree(c.oid) p WHERE 2 > (SELECT count(*) FROM pg_trigger q WHERE q.tgrelid = p.relid
					AND q.tgname IN ('{row trigger}', '{key trigger}') AND q.tgenabled = 'A' AND q.tgfoid = f.oid))
		ELSE count(*) FILTER (WHERE (t.tgname, t.tgenabled) IN (('setpoint_insert', 'O'), ('setpoint_update', 'O'),
			('setpoint_delete', 'O'), ('setpoint_truncate', 'A'), ('{row trigger}', 'R'), ('{key trigger}', 'A'))
			AND (t.tgname <> 'setpoint_update' OR t.tgnargs > 0 OR NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = c.oid))) = 6 END
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_trigger t ON t.tgrelid = c.oid
	JOIN pg_proc f ON f.oid = t.tgfoid JOIN pg_namespace fn ON fn.oid = f.pronamespace
	WHERE n.nspname = {schema of table} AND c.relname = {name of table} AND fn.nspname = {schema of log} AND f.proname = {name of log}
	GROUP BY c.oid, c.relkind, f.oid), false)`

// columnsSQL describes the columns of the key, of the table or of its log, as a command that adds them to a table. The type of a domain is
// the type below it. It is null if there is no such relation. Types without a modifier have no limits. The key of a trigger has no quotes.
const columnsSQL = `(SELECT string_agg(format('ADD COLUMN %I %s%s', a.attname, format_type(b.oid, -1),
		CASE WHEN a.attcollation <> b.typcollation THEN format(' COLLATE %I.%I', cn.nspname, co.collname) END), ', ' ORDER BY a.attname)
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
	CROSS JOIN LATERAL (
		WITH RECURSIVE base AS (SELECT t.oid, t.typtype, t.typbasetype, t.typcollation FROM pg_type t WHERE t.oid = a.atttypid
			UNION ALL SELECT t.oid, t.typtype, t.typbasetype, t.typcollation FROM base JOIN pg_type t ON t.oid = base.typbasetype)
		SELECT base.oid, base.typcollation FROM base WHERE base.typtype <> 'd'
	) b LEFT JOIN (pg_collation co JOIN pg_namespace cn ON cn.oid = co.collnamespace) ON co.oid = a.attcollation
	WHERE n.nspname = {schema of relation} AND c.relname = {name of relation} AND {is key of relation})`

// columnsOf returns columnsSQL for the table or the log.
func columnsOf(relation string) string {
	return strings.ReplaceAll(columnsSQL, "of relation}", "of "+relation+"}")
}

// hash returns a number for text.
func hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum64()
}

// fingerprint returns a short name for text.
func fingerprint(text string) string { return fmt.Sprintf("%x", hash(text)) }

// source returns the name of the table, as SQL.
func (c TableConfig) source() string { return pgx.Identifier{c.TableSchema, c.Table}.Sanitize() }

// logName returns the name of the log of the table, and of the function that writes it. It says which table that is.
func (c TableConfig) logName() string {
	name := c.TableSchema + "." + c.Table
	if len(name) > 63 || strings.Count(name, ".") > 1 {
		const short = 63 - 17 // bytes, with room for the fingerprint
		name = strings.ToValidUTF8(name[:min(short, len(name))], "") + "." + fingerprint(c.source())
	}
	return name
}

// columns returns the Columns of a relation of the given name, as SQL.
func (c TableConfig) columns(of string) string {
	if len(c.Columns) == 0 {
		return of + ".*"
	}
	return qualified(of, c.Columns)
}

// qualified returns the columns of a relation, as SQL.
func qualified(of string, columns []string) string {
	names := make([]string, len(columns))
	for i, column := range columns {
		names[i] = pgx.Identifier{column}.Sanitize()
		if of != "" {
			names[i] = of + "." + names[i]
		}
	}
	return strings.Join(names, ", ")
}

// slotIndex returns the name of the index of the hash by SlotBy.
func (c TableConfig) slotIndex() string {
	return "setpoint_slot_" + fingerprint(c.source()+"\x00"+c.SlotBy)
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
	announce := announceSQL
	if c.WithoutNotify {
		announce = ""
	}
	index := ""
	if c.SlotBy != "" {
		index = slotIndexSQL
	}
	return c.with(strings.NewReplacer("{announce}", announce, "{create slot index}", index).Replace(logSQL + triggerSQL + slotSQL + replaceSQL))
}

// with replaces the placeholders in SQL, also those of more, which has pairs of a placeholder and its value. The Key must be set.
func (c TableConfig) with(sql string, more ...string) string {
	log := pgx.Identifier{c.Schema, c.logName()}.Sanitize()
	key := make([]string, len(c.Key))
	for i, column := range c.Key {
		key[i] = quote(column)
	}
	const live = "a.attnum > 0 AND NOT a.attisdropped AND a.attname "
	sql = strings.NewReplacer(
		"{columns of table}", columnsOf("table"), "{columns of log}", columnsOf("log"), "{recorded}", recordedSQL,
	).Replace(sql)
	for _, of := range []string{"r", "o", "e", "l", "NEW", "OLD"} {
		more = append(more, "{key of "+of+"}", qualified(of, c.Key))
	}
	return strings.NewReplacer(append(more,
		"$$", bodyQuote(append(slices.Clone(c.Key), c.Table, c.TableSchema, c.Schema)),
		"{schema}", pgx.Identifier{c.Schema}.Sanitize(),
		"{schema name}", quote(pgx.Identifier{c.Schema}.Sanitize()), // of a regnamespace
		"{table}", c.source(),
		"{table name}", quote(c.source()),
		"{log}", log,
		"{log name}", quote(log),
		"{schema of log}", quote(c.Schema),
		"{schema of table}", quote(c.TableSchema),
		"{name of log}", quote(c.logName()),
		"{name of table}", quote(c.Table),
		"{is key of table}", live+"IN ("+strings.Join(key, ", ")+")",
		"{is key of log}", live+"NOT IN ('setpoint_xid', 'setpoint_seq')",
		"{key}", qualified("", c.Key),
		"{columns of t}", c.columns("t"),
		"{row trigger}", "setpoint_row_"+fingerprint(c.source()),
		"{key trigger}", "setpoint_key_"+fingerprint(c.source()),
		"{old name}", "record_"+fingerprint(c.source()),
		"{old function}", quote(pgx.Identifier{c.Schema, "record_" + fingerprint(c.source())}.Sanitize()),
		"{later}", laterSQL,
		"{slot hash}", strings.ReplaceAll(slotHashSQL, "{slot by}", c.SlotBy),
		"{slot index}", pgx.Identifier{c.slotIndex()}.Sanitize(),
		"{slot index name}", quote(c.slotIndex()),
		"{announcing}", c.lock(),
		"{channel}", quote(c.channel()),
	)...).Replace(sql)
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
// the Key must be set, and nobody checks that its columns exist, are not null, and have a unique index.
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

// InstallTable creates the log of the table, if it does not exist, and the triggers that write it, in one transaction. Its role must own the
// table, and must be allowed to create a schema in the database. Programs that write the table need no rights on the log. If an
// administrator runs the statements, use [TableSQL]. Call it when you deploy: if everything is in place, it changes nothing.
//
// If [TableConfig].SlotBy is set, InstallTable creates its index, which takes about a second for a million rows.
//
// InstallTable locks the table against writes. It waits for the transactions that have written the table, and later writes wait behind it.
//
// Call it again after you have changed or renamed columns of the key, and after a first table inherits from the table. If a column is renamed,
// every write of the table fails until then. If a trigger was missing or disabled, or the log had another key, all watches of the table end
// with [informer.ErrExpired], so informers list what the log lacks. They list again until the transactions that were open at that time have
// ended.
//
// The triggers see INSERT, upserts, UPDATE (also of the key), DELETE, MERGE, TRUNCATE, COPY, cascades, and changes that a subscription
// applies; of a partitioned table, also writes that name a partition. They miss these changes:
//
//   - Writes while the triggers are disabled, as by pg_restore --disable-triggers. Lists and watches then fail until you call InstallTable.
//   - Writes that name a table that inherits from the table.
//   - A partition that is attached, detached, dropped, or truncated by its own name.
//
// After the last two, call [informer.Informer.Reset], or use [NewQuery] instead of a Table.
func InstallTable(ctx context.Context, pool *pgxpool.Pool, cfg TableConfig) error {
	if pool == nil {
		panic("postgres: InstallTable called with a nil pool")
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return fmt.Errorf("postgres: install table: %w", err)
	}
	err := pgx.BeginTxFunc(ctx, pool, writing(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockSchemaSQL, cfg.Schema); err != nil {
			return err
		}
		found, err := cfg.find(ctx, tx)
		if err != nil {
			return err
		}
		cfg.Key = found.key
		_, err = tx.Exec(ctx, cfg.sql())
		return err
	})
	if err != nil {
		return fmt.Errorf("postgres: install table %s: %w", cfg.source(), err)
	}
	return nil
}

// found is what the catalog says about a table.
type found struct {
	key       []string
	operators []string // that compare the columns of the key, in the same order, as SQL
	recorded  bool     // the triggers write the log
	logged    bool     // the log has the key of the table
	changed   uint64   // the last transaction that has changed what rows look like, or who sees them; 0 if that was long ago
}

// find reads the catalog. It returns an error if the columns of the Key do not exist, may be null, or have no unique index, or if the Columns
// do not exist or lack the Key.
func (c TableConfig) find(ctx context.Context, from queryer) (f found, err error) {
	rows, err := from.Query(ctx, `
		SELECT a.attname, a.attnotnull, i.indrelid IS NOT NULL
		FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
		LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary AND array_position(i.indkey::int2[], a.attnum) < i.indnkeyatts
		WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`,
		c.TableSchema, c.Table)
	if err != nil {
		return f, err
	}
	type columnRow struct {
		Name    string
		NotNull bool
		Primary bool // it is in the primary key
	}
	columns, err := pgx.CollectRows(rows, pgx.RowToStructByPos[columnRow])
	if err != nil {
		return f, err
	}
	if len(columns) == 0 {
		return f, errors.New("there is no such table")
	}
	if f.key = c.Key; len(f.key) == 0 {
		for _, column := range columns {
			if column.Primary {
				f.key = append(f.key, column.Name)
			}
		}
		if len(f.key) == 0 {
			return f, errors.New("it has no primary key: set TableConfig.Key")
		}
	}
	column := func(name string) int {
		return slices.IndexFunc(columns, func(column columnRow) bool { return column.Name == name })
	}
	for _, name := range c.Columns {
		if column(name) < 0 {
			return f, fmt.Errorf("it has no column %q, which TableConfig.Columns names", name)
		}
	}
	for _, name := range f.key {
		switch i := column(name); {
		case i < 0:
			return f, fmt.Errorf("it has no column %q, which TableConfig.Key names", name)
		case !columns[i].NotNull:
			return f, fmt.Errorf("its column %q, which TableConfig.Key names, may be null", name)
		}
	}
	c.Key = f.key
	if err := c.validate(); err != nil { // also of a Key that was not set
		return f, err
	}
	var newest string
	var changes []int64 // the lower halves of the numbers of transactions
	err = from.QueryRow(ctx, c.with(findSQL), f.key, c.Columns).Scan(&f.operators, &f.recorded, &f.logged, &newest, &changes)
	if err != nil {
		return f, err
	}
	if len(f.operators) == 0 {
		return f, fmt.Errorf("it has no unique index on exactly %s, which is the key", qualified("", f.key))
	}
	next, err := parseXID(newest)
	for _, xmin := range changes {
		// Numbers below 3 are special, and those of more than 2^31 transactions ago look as if they were to come.
		if age := int32(uint32(next) - uint32(xmin)); xmin >= 3 && age > 0 {
			f.changed = max(f.changed, next-uint64(age))
		}
	}
	return f, err
}

// findSQL reads the operators of the unique index on the key, whether the log is written and has the same key, and the transactions that
// have changed the columns, their enums, or the policies. A unique index is a B-tree, whose operator for equality
// has the number 3.
const findSQL = `
SELECT (
	SELECT array_agg(format('OPERATOR(%I.%s)', n.nspname, o.oprname) ORDER BY array_position($1::text[], a.attname::text))
	FROM (
		SELECT i.indrelid, i.indkey, i.indclass FROM pg_index i WHERE i.indrelid = t.oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
		AND i.indnkeyatts = cardinality($1::text[]) AND NOT EXISTS (
			SELECT FROM unnest($1::text[]) k WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = t.oid AND a.attname = k
				AND array_position(i.indkey::int2[], a.attnum) < i.indnkeyatts)
		) LIMIT 1
	) i
	CROSS JOIN LATERAL unnest(i.indkey::int2[], i.indclass::oid[]) u (attnum, opclass)
	JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = u.attnum
	JOIN pg_opclass c ON c.oid = u.opclass
	JOIN pg_amop ao ON ao.amopfamily = c.opcfamily AND ao.amopstrategy = 3 AND ao.amoplefttype = c.opcintype AND ao.amoprighttype = c.opcintype
	JOIN pg_operator o ON o.oid = ao.amopopr JOIN pg_namespace n ON n.oid = o.oprnamespace
), {recorded}, coalesce({columns of log} = {columns of table}, false), pg_snapshot_xmax(pg_current_snapshot())::text, ARRAY(
	SELECT xmin::text::bigint FROM pg_policy WHERE polrelid = t.oid
	UNION ALL SELECT xmin::text::bigint FROM pg_attribute
		WHERE attrelid = t.oid AND attnum > 0 AND ($2::text[] IS NULL OR attname = ANY ($2::text[]))
	UNION ALL SELECT e.xmin::text::bigint FROM pg_enum e WHERE e.enumtypid IN (
		SELECT unnest(ARRAY[y.oid, y.typelem, y.typbasetype]) FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid WHERE a.attrelid = t.oid)
)
FROM pg_class t JOIN pg_namespace tn ON tn.oid = t.relnamespace
WHERE tn.nspname = {schema of table} AND t.relname = {name of table}`

// check returns an error if the catalog has changed since the Table was made, so that it cannot list and watch, or the log cannot be relied
// on.
func (c TableConfig) check(f found, key []string) error {
	switch {
	case !slices.Equal(key, f.key):
		return fmt.Errorf("its primary key has changed from (%s) to (%s): call postgres.InstallTable, and restart the program",
			qualified("", key), qualified("", f.key))
	case !f.recorded:
		return fmt.Errorf("its triggers are missing, disabled, or of another log than %q.%q: call postgres.InstallTable", c.Schema, c.logName())
	case !f.logged:
		return fmt.Errorf("its log %q.%q has another key, or other types: call postgres.InstallTable", c.Schema, c.logName())
	}
	return nil
}

// checkEncoding returns an error if the server hashes other bytes than a Go program.
func (c TableConfig) checkEncoding(ctx context.Context, from queryer) error {
	if c.SlotBy == "" {
		return nil
	}
	rows, err := from.Query(ctx, "SELECT pg_encoding_to_char(encoding)::text FROM pg_database WHERE datname = current_database()")
	if err != nil {
		return err
	}
	encoding, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[string])
	if err == nil && encoding != "UTF8" {
		err = fmt.Errorf("TableConfig.SlotBy is set, so the database must have the encoding UTF8, not %s", encoding)
	}
	return err
}
