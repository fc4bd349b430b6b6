// Package postgres provides sources and a store in Postgres, for any number of processes. A [Table] is a source that follows an existing
// table. A [Backend] stores the objects of package store.
//
// # Your own table
//
//	cfg := postgres.TableConfig{Table: "tenants"}
//	err := postgres.InstallTable(ctx, pool, cfg) // once, by a role that may create triggers
//	...
//	tenants, err := postgres.NewTable(ctx, pool, pgx.RowToStructByName[Tenant], cfg)
//	...
//	inf, err := informer.New(tenants, func(t Tenant) int64 { return t.ID }, informer.Config{})
//
// Your programs write the table as before, and do not wait for each other. Watches miss no change, however transactions overlap: see
// [Table]. If a reconcile writes the table, begin its transaction with [Guard], which refuses the transaction of a replaced leader, and
// call [Table.VersionOf], which makes the controller wait until its caches show the transaction. If you may not create triggers, use
// [NewQuery], which polls. README.md has a complete program, and compares the costs.
//
// # Objects
//
//	pool, err := pgxpool.New(ctx, "postgres://...")
//	...
//	err = postgres.Migrate(ctx, pool, postgres.Config{}) // once, by a role that may create tables
//	...
//	db, err := postgres.Open(ctx, pool, postgres.Config{})
//	if err != nil {
//		return err
//	}
//	apps, err := store.Open(db, "App", store.Config[App]{})
//
// The view current of the schema shows the live objects, with their values as JSON. Read it freely. Write only through the library: a row
// that is written by hand has no version. To commit objects and your own rows together, see [WithTx].
//
// # Guarantees
//
// A Backend:
//
//  1. An acknowledged write is committed. It is as durable as every commit of the server: see synchronous_commit.
//  2. Versions come from a counter in one row. Each write locks that row before it reads the counter, and until its commit. So versions
//     are in commit order for all kinds and all processes.
//  3. A watch reports every change in order. A notification of the server only wakes it. If a notification or the listening connection
//     is lost, the watch finds the change by itself after at most [Config.Poll].
//  4. All pages of a list come from one snapshot.
//  5. Every process refuses a write with a stale term: the error wraps backend.ErrFenced.
//  6. Open refuses a schema that is missing, incomplete, or of another layout, and says what is wrong.
//
// A Table:
//
//  7. A watch misses no committed change that the triggers see ([InstallTable]), and reports none that was rolled back.
//  8. A cache at a version has every change up to that version. It may be ahead, with rows that later transactions left.
//  9. A row in a cache never goes back to an older state, and its last event has its present state.
//  10. Versions of all tables with one log can be compared, and [Table.VersionOf] returns that of your transaction.
//  11. A controller does not reconcile a key again until its caches show the transactions for which the last reconcile of the key
//     called VersionOf, or until 10 s have passed.
//  12. A transaction that [Guard] has admitted commits before the next leader begins, or not at all.
//
// # Limits and cost
//
// A write takes two round trips and one commit. All transactions that write a schema commit one after another. A second schema on the
// same server does not help, since commits that notify take turns in the whole server. Concurrent writes of one Backend share
// transactions, up to 64 in each. A list holds a snapshot until its loop ends, which keeps the server from
// vacuuming. Every Backend or Table with a watch holds one connection for notifications. Keep records below one megabyte.
//
// README.md says how to operate Postgres: settings, poolers, crashes and failovers, and half-open connections.
package postgres
