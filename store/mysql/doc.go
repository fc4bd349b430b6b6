// Package mysql provides a source that follows an existing table of MariaDB or MySQL, whichever programs write it. See [Table].
//
// # Usage
//
//	cfg := mysql.TableConfig{Table: "tenants"}
//	err := mysql.InstallTable(ctx, db, cfg) // once, when you deploy
//	...
//	tenants, err := mysql.NewTable(ctx, db, func(row mysql.Row) (t Tenant, err error) {
//		err = row.Scan(&t.Name, &t.Servers)
//		return t, err
//	}, cfg)
//	...
//	inf, err := informer.New(tenants, func(t Tenant) string { return t.Name }, informer.Config{})
//
// db is your own pool, of the driver github.com/go-sql-driver/mysql. Your programs, and those in other languages, write the table as before.
// If a reconcile writes the table, use sqllease.Store.Transact, which refuses the transaction of a replaced leader, and call [Table.VersionOf]
// after its last write, which makes the controller wait until its caches show the transaction. The program in examples/yourtable does both.
//
// # Guarantees
//
// They are at the type [Table]. [InstallTable] says what the triggers see and what only a comparison finds.
//
// # Cost
//
// A write costs more with the triggers, which add a row to a log for each row that is written. An idle watch reads the end of one index
// every [TableConfig.Poll]. A watch remembers about 40 bytes for each row, for the comparisons. bench/databases.md in the repository has figures.
package mysql
