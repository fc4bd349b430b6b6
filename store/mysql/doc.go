// Package mysql provides a source and a store in MariaDB or MySQL, for any number of processes. A [Table] is a source that follows an existing
// table, whichever programs write it. A [Backend] stores the objects of package store.
//
// # Your own table
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
// A write costs more with the triggers, which add a row to a log for each row that is written. An idle watch reads the end of one index
// every [TableConfig.Poll]. A watch remembers about 40 bytes for each row, for the comparisons. bench/databases.md in the repository has figures.
//
// # Objects
//
//	db, err := sql.Open("mysql", "shop@tcp(localhost:3306)/shop")
//	...
//	err = mysql.Migrate(ctx, db, mysql.Config{}) // once, by a user who may create tables
//	...
//	objects, err := mysql.Open(ctx, db, mysql.Config{})
//	if err != nil {
//		return err
//	}
//	apps, err := store.Open(objects, "App", store.Config[App]{})
//
// The view setpoint_current shows the live objects, with their values as JSON. Read it freely. Write only through the library: a row that is
// written by hand has no change. To commit objects and your own rows together, see [WithTx].
//
// # Guarantees
//
// Those of a Table are at its type. [InstallTable] says what the triggers see and what only a comparison finds. A Backend:
//
//  1. An acknowledged write is committed. It is as durable as every commit of the server: see innodb_flush_log_at_trx_commit.
//  2. Versions come from one row. Each write locks that row before it reads the version, and until its commit. So versions are in commit order
//     for all kinds and all processes.
//  3. A watch reports every change in order. It sees the writes of its own Backend at once, and those of other processes, and of joined
//     transactions, after at most [Config.Poll].
//  4. All pages of a list come from one snapshot.
//  5. Every process refuses a write with a stale term: the error wraps backend.ErrFenced.
//  6. A watch at a version that the server has lost, in a crash, a restore, or a failover to a replica that lagged, ends with
//     informer.ErrNewHistory, and its informer lists again. The versions of later writes are greater than the lost ones, as far as the clock of
//     the server is right.
//  7. If a write fails with an error that is not of package store, its outcome is unknown. A deadlock or a lock that took too long is no error:
//     the write is repeated until its context ends. In a transaction of [WithTx], it is the error of the server.
//  8. Names are compared by their bytes: acme and ACME are two objects, and so are names that differ in a space at the end.
//  9. Open refuses tables that are missing, incomplete, or of another layout, and says what is wrong.
//
// # Limits and cost
//
// A write takes eight round trips and one commit. All transactions that write the tables commit one after another. Concurrent writes of one
// Backend share transactions, up to 64 in each. An object is stored twice until its last change is trimmed. A record is at most about half as
// large as max_allowed_packet of the server, 8 MB by default in MariaDB. Keep records below one megabyte.
//
// The pool must reach the primary, also for reads. Idle watches of a Backend share one small query, at most two per [Config.Poll]. A list, and a
// write, take a connection out of the pool for as long as they last. A list holds a snapshot until its loop ends, which keeps the server from
// purging what was deleted since.
//
// Both were tested on MariaDB 10.11. That they work on MySQL 8.0 and newer follows from its manual. README.md says how to operate the server:
// settings, crashes and failovers, and half-open connections.
package mysql
