package sqllease_test

import (
	"database/sql"
	"fmt"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
)

// A store uses the pool of your program. A migration or EnsureTable creates its table.
func ExampleStore() {
	var db *sql.DB // sql.Open("pgx", "postgres://...")
	s, err := sqllease.New(db, sqllease.Config{Table: "ops.leases"})
	if err != nil {
		fmt.Println(err)
		return
	}
	var _ leaderelect.LeaseStore = s
	fmt.Println(s.DDL())
	// Output:
	// CREATE TABLE IF NOT EXISTS "ops"."leases" (
	// 	name    text   NOT NULL PRIMARY KEY,
	// 	term    bigint NOT NULL,
	// 	version text   NOT NULL,
	// 	value   bytea  NOT NULL,
	// 	UNIQUE (name, term)
	// )
}

// Without package database/sql, run the guard as the first statement of a transaction. If it returns no row, the term is over.
func ExampleStore_GuardQuery() {
	for _, d := range []sqllease.Dialect{sqllease.Postgres, sqllease.SQLite, sqllease.MySQL} {
		s, err := sqllease.New(nil, sqllease.Config{Dialect: d})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%v: %s\n", d, s.GuardQuery())
	}
	// Output:
	// Postgres: SELECT 1 FROM "leases" WHERE name = $1 AND term = $2 FOR KEY SHARE
	// SQLite: UPDATE "leases" SET term = term WHERE name = ?1 AND term = ?2 RETURNING 1
	// MySQL: SELECT 1 FROM `leases` IGNORE INDEX (PRIMARY) WHERE name = ? AND term = ? LOCK IN SHARE MODE
}
