package sqllease

import "strings"

// statements are the statements of a store, in its dialect. Each is a round trip of its own; none needs a transaction, a
// session, or a feature that a connection pooler between here and the server would break.
type statements struct {
	create, exists                 string
	get, insert, update, has, list string
	guard                          string
}

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
		exists: `SELECT name, term, version, value FROM $table WHERE 1 = 0`,
		get:    `SELECT term, version, value FROM $table WHERE name = $1`,

		// Without a column after ON CONFLICT: of two that insert at once, one may meet the other first in the index of
		// (name, term), and that is no error either.
		insert: `INSERT INTO $table (name, term, version, value) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,

		// term is written always and changed by a takeover only. Postgres compares the values: a row lock that the guard
		// respects is taken if it changes, a weaker one if not.
		update: `UPDATE $table SET term = $2, version = $3, value = $4 WHERE name = $1 AND version = $5`,
		has:    `SELECT count(*) FROM $table WHERE name = $1 AND version = $2`,
		list:   `SELECT name, term, version, value FROM $table WHERE substr(name, 1, length($1)) = $1`,
		guard:  `SELECT 1 FROM $table WHERE name = $1 AND term = $2 FOR KEY SHARE`,
	}
	bytes, parameter := "bytea ", "$"
	if cfg.Dialect == SQLite {
		bytes, parameter = "blob  ", "?"
		s.guard = `UPDATE $table SET term = term WHERE name = $1 AND term = $2 RETURNING 1`
	} else {
		s.list = strings.ReplaceAll(s.list, "$1", "CAST($1 AS text)") // which function is meant depends on the type
	}
	table := `"` + strings.ReplaceAll(cfg.Table, `.`, `"."`) + `"`
	for _, text := range []*string{&s.create, &s.exists, &s.get, &s.insert, &s.update, &s.has, &s.list, &s.guard} {
		*text = strings.NewReplacer("$table", table, "$bytes ", bytes, "$", parameter).Replace(*text)
	}
	return s
}
