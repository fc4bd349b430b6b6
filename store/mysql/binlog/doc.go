// Package binlog provides a source that follows an existing table of MariaDB by the binary log of the server, whichever programs write it. Nothing
// is installed, and a write costs nothing beyond the binary log. See [Table].
//
// # Usage
//
//	dsn := "reconciler@tcp(localhost:3306)/shop"
//	db, err := sql.Open("mysql", dsn)
//	...
//	tenants, err := binlog.NewTable(ctx, db, func(row mysql.Row) (t Tenant, err error) {
//		err = row.Scan(&t.Name, &t.Servers)
//		return t, err
//	}, binlog.TableConfig{Table: "tenants", DSN: dsn})
//	...
//	inf, err := informer.New(tenants, func(t Tenant) string { return t.Name }, informer.Config{})
//
// Package mysql, the other way, follows a table by triggers, on MySQL too, without privileges of the whole server. Its scan functions are the
// same. README.md compares the two.
//
// If a reconcile writes the table, use sqllease.Store.Transact, which refuses the transaction of a replaced leader, and call
// [Table.CommittedVersion] after it, which makes the controller wait until its caches show the transaction.
//
// # Guarantees
//
// They are at the type [Table].
//
// # Cost
//
// Each watch receives the whole binary log of the server, over a connection of its own, and decodes the rows of its table. For a page of changes,
// the server joins the table with a temporary table of their keys. A watch remembers about 40 bytes for each row, for the comparisons, and the
// keys of prepared transactions, up to 100,000. bench/databases.md in the repository has figures.
//
// The client of the binary log is github.com/go-mysql-org/go-mysql, which brings twelve more modules. So this package is a module of its own.
package binlog
