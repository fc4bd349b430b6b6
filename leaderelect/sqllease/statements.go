package sqllease

import (
	"fmt"
	"strings"
)

// statements has the statements of a store in its dialect. Each is one round trip. None needs a transaction, a session,
// or a feature that a connection pooler would break.
type statements struct {
	dialect                  Dialect
	table                    string // quoted
	create                   string
	get, insert, update, has string
	list, guard              string
	columns                  string              // of the table, as the catalog has them: name, type, whether an INSERT needs it
	keys                     string              // unique keys, without condition: name of the key, column
	kinds                    map[string][]string // the types that a column may have, as in the catalog; the first is that of create
}

// Names of columns that no table can have. Each marks a property of the table.
const (
	unlogged     = "(unlogged)"   // the table does not survive a crash or a session
	otherEngine  = "(engine)"     // MySQL: the table has no transactions, or none that the guard relies on; the type is the engine
	noAutocommit = "(autocommit)" // MySQL: the connection commits no statement by itself
)

const (
	// The lock of the guard conflicts with a takeover only if term is a column of a unique index that a foreign key could
	// reference: immediate, and without a condition or an expression.
	postgresColumns = `
SELECT CAST(a.attname AS text), format_type(a.atttypid, a.atttypmod), a.attnotnull AND NOT a.atthasdef AND a.attidentity = ''
FROM pg_attribute a WHERE a.attrelid = to_regclass('$table') AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT '` + unlogged + `', '', false FROM pg_class c WHERE c.oid = to_regclass('$table') AND c.relpersistence <> 'p'`
	postgresKeys = `
SELECT CAST(CAST(i.indexrelid AS regclass) AS text), CAST(a.attname AS text)
FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
	AND a.attnum = ANY ((CAST(i.indkey AS int2[]))[0:i.indnkeyatts - 1])
WHERE i.indrelid = to_regclass('$table') AND i.indisunique AND i.indimmediate AND i.indisvalid
	AND i.indpred IS NULL AND i.indexprs IS NULL`

	// A declared type decides how SQLite converts values. A collation other than BINARY makes two keys equal.
	sqliteColumns = `
SELECT name, lower(type), "notnull" AND dflt_value IS NULL AND pk = 0 FROM pragma_table_info('$name'$schema)`
	sqliteKeys = `
SELECT i.name, coalesce(c.name, '(expression)') || CASE c.coll WHEN 'BINARY' THEN '' ELSE ' COLLATE ' || c.coll END
FROM pragma_index_list('$name'$schema) i, pragma_index_xinfo(i.name$schema) c
WHERE i."unique" AND NOT i.partial AND c.key`

	mysqlColumns = `
SELECT lower(column_name), column_type, is_nullable = 'NO' AND column_default IS NULL AND extra = ''
FROM information_schema.columns WHERE table_schema = $schema AND table_name = '$name'
UNION ALL
SELECT '` + otherEngine + `', engine, 0
FROM information_schema.tables WHERE table_schema = $schema AND table_name = '$name' AND engine <> 'InnoDB'
UNION ALL
SELECT '` + noAutocommit + `', '', 0
FROM information_schema.tables WHERE table_schema = $schema AND table_name = '$name' AND @@autocommit = 0`
	mysqlKeys = `
SELECT index_name, concat(coalesce(lower(column_name), '(expression)'), if(sub_part IS NULL, '', ' (prefix)'))
FROM information_schema.statistics WHERE table_schema = $schema AND table_name = '$name' AND non_unique = 0`
)

// mysqlName is how many bytes a name has at most in MySQL. An index has at most 3,072. A column that is too short may cut a name off.
const mysqlName = 2000

// statementsOf returns the statements for a config that is valid. MySQL has no numbers of parameters. So in its statements they
// ascend, and none occurs twice.
func statementsOf(cfg Config) statements {
	s := statements{
		dialect: cfg.Dialect,
		create: `CREATE TABLE IF NOT EXISTS $table (
	name    $text NOT NULL PRIMARY KEY,
	term    $bigint NOT NULL,
	version $short NOT NULL,
	value   $bytes NOT NULL,
	UNIQUE (name, term)
)`,
		get: `SELECT term, version, value FROM $table WHERE name = $1`,

		// No column after ON CONFLICT: if two insert at the same time, the conflict may occur in the index of (name,
		// term), which is no error either.
		insert: `INSERT INTO $table (term, version, value, name) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,

		// term is always written, but changes only with a takeover. The database compares the values. Only if term changes,
		// it takes the lock that conflicts with the guard: of the row in Postgres, of the index (name, term) in MySQL.
		update: `UPDATE $table SET term = $1, version = $2, value = $3 WHERE name = $4 AND version = $5`,
		has:    `SELECT count(*) FROM $table WHERE name = $1 AND version = $2`,
	}
	var parameter, quote, text, bigint, short, bytes string
	name, schema := cfg.Table, ""
	if before, after, ok := strings.Cut(cfg.Table, "."); ok {
		name, schema = after, before
	}
	switch cfg.Dialect {
	case SQLite:
		parameter, quote = "?", `"`
		text, bigint, short, bytes = "text  ", "bigint", "text  ", "blob  "
		s.list = `SELECT name, term, version, value FROM $table WHERE substr(name, 1, length($1)) = $1`
		s.guard = `UPDATE $table SET term = term WHERE name = $1 AND term = $2 RETURNING 1`
		s.columns, s.keys = sqliteColumns, sqliteKeys
		s.kinds = map[string][]string{
			"name": {"text"}, "term": {"bigint", "integer", "int"}, "version": {"text"}, "value": {"blob"},
		}
		if schema != "" {
			schema = ", '" + schema + "'"
		}
	case MySQL:
		parameter, quote = "?", "`"
		text, bigint, short, bytes = fmt.Sprintf("varbinary(%d)", mysqlName), "bigint         ", "varbinary(255) ", "longblob       "
		s.create += ` ENGINE=InnoDB ROW_FORMAT=DYNAMIC`

		// A name that exists is an error, with a number of its own. INSERT IGNORE would ignore others too, and what the server
		// counts after ON DUPLICATE KEY UPDATE depends on the client (CLIENT_FOUND_ROWS).
		s.insert = strings.TrimSuffix(s.insert, " ON CONFLICT DO NOTHING")

		// The search must not lock the index of (name, term).
		s.update = strings.Replace(s.update, "$table", "$table FORCE INDEX (PRIMARY)", 1)
		s.list = `SELECT name, term, version, value FROM $table WHERE locate($1, name) = 1`

		// A shared lock of InnoDB locks only the index that is read, if that has all columns. A renewal locks only PRIMARY.
		s.guard = `SELECT 1 FROM $table IGNORE INDEX (PRIMARY) WHERE name = $1 AND term = $2 LOCK IN SHARE MODE`
		s.columns, s.keys = mysqlColumns, mysqlKeys
		s.kinds = map[string][]string{
			"name": {text}, "term": {"bigint", "bigint(20)"}, "version": {"varbinary(255)"}, "value": {"longblob"},
		}
		if schema = "'" + schema + "'"; schema == "''" {
			schema = "database()"
		}
	default:
		parameter, quote = "$", `"`
		text, bigint, short, bytes = "text  ", "bigint", "text  ", "bytea "
		s.list = `SELECT name, term, version, value FROM $table WHERE substr(name, 1, length(CAST($1 AS text))) = CAST($1 AS text)` // the type selects the function
		s.guard = `SELECT 1 FROM $table WHERE name = $1 AND term = $2 FOR KEY SHARE`
		s.columns, s.keys = postgresColumns, postgresKeys
		s.kinds = map[string][]string{
			"name": {"text", "character varying"}, "term": {"bigint"}, "version": {"text", "character varying"}, "value": {"bytea"},
		}
	}
	s.table = quote + strings.ReplaceAll(cfg.Table, `.`, quote+`.`+quote) + quote
	parts := []string{"$table", s.table, "$name", name, "$schema", schema, "$text", text, "$bigint", bigint, "$short", short, "$bytes", bytes}
	if cfg.Dialect == MySQL {
		parts = append(parts, "$1", "?", "$2", "?", "$3", "?", "$4", "?", "$5", "?")
	}
	values := strings.NewReplacer(append(parts, "$", parameter)...)
	for _, text := range []*string{&s.create, &s.get, &s.insert, &s.update, &s.has, &s.list, &s.guard, &s.columns, &s.keys} {
		*text = values.Replace(*text)
	}
	return s
}

// inLine returns create without line breaks, for messages.
func (s statements) inLine() string { return strings.Join(strings.Fields(s.create), " ") }

// addKey returns the statement that adds a unique key.
func (s statements) addKey(columns ...string) string {
	if s.dialect == MySQL {
		return fmt.Sprintf("ALTER TABLE %s ADD UNIQUE (%s)", s.table, strings.Join(columns, ", "))
	}
	name := strings.ReplaceAll(strings.Trim(s.table, `"`), `"."`, "_") + "_" + strings.Join(columns, "_")
	if schema, rest, ok := strings.Cut(s.table, "."); ok && s.dialect == SQLite { // it names the schema with the index
		return fmt.Sprintf(`CREATE UNIQUE INDEX %s."%s" ON %s (%s)`, schema, name, rest, strings.Join(columns, ", "))
	}
	return fmt.Sprintf(`CREATE UNIQUE INDEX "%s" ON %s (%s)`, name, s.table, strings.Join(columns, ", "))
}

// primaryKey returns the statement that makes the name the primary key, in MySQL.
func (s statements) primaryKey(have table) string {
	drop := ""
	if have.unique["PRIMARY"] != nil {
		drop = "DROP PRIMARY KEY, "
	}
	return fmt.Sprintf("ALTER TABLE %s %sADD PRIMARY KEY (name)", s.table, drop)
}

// retype returns the statements that change the type of a column.
func (s statements) retype(column, kind string) string {
	switch s.dialect {
	case Postgres:
		return fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s TYPE %s USING CAST(%s AS %s)", s.table, column, kind, column, kind)
	case MySQL:
		return fmt.Sprintf("ALTER TABLE %s MODIFY %s %s NOT NULL", s.table, column, kind)
	default:
		return s.rebuild()
	}
}

// rebuild returns the statements that recreate the table with its rows, in SQLite.
func (s statements) rebuild() string {
	return fmt.Sprintf("BEGIN; CREATE TEMP TABLE kept AS SELECT name, term, version, value FROM %s; DROP TABLE %s; %s; "+
		"INSERT INTO %s SELECT * FROM kept; DROP TABLE kept; COMMIT", s.table, s.table, s.inLine(), s.table)
}

// drop returns the statement that drops a column.
func (s statements) drop(column string) string {
	if s.dialect == MySQL {
		return fmt.Sprintf("ALTER TABLE %s DROP COLUMN `%s`", s.table, column)
	}
	return fmt.Sprintf(`ALTER TABLE %s DROP COLUMN "%s"`, s.table, column)
}
