package sqllease

import (
	"fmt"
	"strings"
)

// statements has the statements of a store in its dialect. Each is one round trip. None needs a transaction, a session,
// or a feature that a connection pooler would break.
type statements struct {
	table                    string // quoted
	create                   string
	get, insert, update, has string
	list, guard              string
	columns                  string              // of the table, as the catalog has them: name, type, whether an INSERT needs it
	keys                     string              // unique keys, without condition: name of the key, column
	kinds                    map[string][]string // the types that a column may have, as in the catalog; the first is that of create
	postgres                 bool                // so the guard relies on a unique key on (name, term)
}

// unlogged is the name of a column that no table can have. It marks a table that does not survive a crash or a session.
const unlogged = "(unlogged)"

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
)

// statementsOf returns the statements for a config that is valid.
func statementsOf(cfg Config) statements {
	s := statements{
		create: `CREATE TABLE IF NOT EXISTS $table (
	name    text   NOT NULL PRIMARY KEY,
	term    bigint NOT NULL,
	version text   NOT NULL,
	value   $bytes  NOT NULL,
	UNIQUE (name, term)
)`,
		get: `SELECT term, version, value FROM $table WHERE name = $1`,

		// No column after ON CONFLICT: if two insert at the same time, the conflict may occur in the index of (name,
		// term), which is no error either.
		insert: `INSERT INTO $table (name, term, version, value) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,

		// term is always written, but changes only with a takeover. Postgres compares the values. Only if term changes,
		// it takes the row lock that conflicts with the guard.
		update: `UPDATE $table SET term = $2, version = $3, value = $4 WHERE name = $1 AND version = $5`,
		has:    `SELECT count(*) FROM $table WHERE name = $1 AND version = $2`,
		list:   `SELECT name, term, version, value FROM $table WHERE substr(name, 1, length($1)) = $1`,
		guard:  `SELECT 1 FROM $table WHERE name = $1 AND term = $2 FOR KEY SHARE`,

		columns: postgresColumns,
		keys:    postgresKeys,
		kinds: map[string][]string{
			"name": {"text", "character varying"}, "term": {"bigint"}, "version": {"text", "character varying"}, "value": {"bytea"},
		},
		postgres: true,
	}
	bytes, parameter := "bytea ", "$"
	if cfg.Dialect == SQLite {
		bytes, parameter = "blob  ", "?"
		s.guard = `UPDATE $table SET term = term WHERE name = $1 AND term = $2 RETURNING 1`
		s.columns, s.keys, s.postgres = sqliteColumns, sqliteKeys, false
		s.kinds = map[string][]string{
			"name": {"text"}, "term": {"bigint", "integer", "int"}, "version": {"text"}, "value": {"blob"},
		}
	} else {
		s.list = strings.ReplaceAll(s.list, "$1", "CAST($1 AS text)") // the type selects the function
	}
	s.table = `"` + strings.ReplaceAll(cfg.Table, `.`, `"."`) + `"`
	name, schema := cfg.Table, ""
	if before, after, ok := strings.Cut(cfg.Table, "."); ok {
		name, schema = after, ", '"+before+"'"
	}
	for _, text := range []*string{&s.create, &s.get, &s.insert, &s.update, &s.has, &s.list, &s.guard, &s.columns, &s.keys} {
		*text = strings.NewReplacer("$table", s.table, "$name", name, "$schema", schema, "$bytes ", bytes, "$", parameter).Replace(*text)
	}
	return s
}

// inLine returns create without line breaks, for messages.
func (s statements) inLine() string { return strings.Join(strings.Fields(s.create), " ") }

// addKey returns the statement that adds a unique key.
func (s statements) addKey(columns ...string) string {
	name := strings.ReplaceAll(strings.Trim(s.table, `"`), `"."`, "_") + "_" + strings.Join(columns, "_")
	if schema, rest, ok := strings.Cut(s.table, "."); ok && !s.postgres { // SQLite names the schema with the index
		return fmt.Sprintf(`CREATE UNIQUE INDEX %s."%s" ON %s (%s)`, schema, name, rest, strings.Join(columns, ", "))
	}
	return fmt.Sprintf(`CREATE UNIQUE INDEX "%s" ON %s (%s)`, name, s.table, strings.Join(columns, ", "))
}

// retype returns the statements that change the type of a column.
func (s statements) retype(column, kind string) string {
	if s.postgres {
		return fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s TYPE %s USING CAST(%s AS %s)", s.table, column, kind, column, kind)
	}
	return s.rebuild()
}

// rebuild returns the statements that recreate the table with its rows.
func (s statements) rebuild() string {
	return fmt.Sprintf("BEGIN; CREATE TEMP TABLE kept AS SELECT name, term, version, value FROM %s; DROP TABLE %s; %s; "+
		"INSERT INTO %s SELECT * FROM kept; DROP TABLE kept; COMMIT", s.table, s.table, s.inLine(), s.table)
}

// drop returns the statement that drops a column.
func (s statements) drop(column string) string {
	return fmt.Sprintf(`ALTER TABLE %s DROP COLUMN "%s"`, s.table, column)
}
