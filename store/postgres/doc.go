// Package postgres has sources and a store in Postgres, for any number of processes. A [Table] is a source that follows an existing
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
// InstallTable creates a change log and triggers on your table; [TableSQL] returns the statements, if an administrator runs
// them. Your programs write the table as before: with INSERT, upserts, UPDATE (also of the key), DELETE, MERGE, TRUNCATE, and
// COPY. They need no rights on the log, and do not wait for each other. Watches miss no change, however the transactions
// overlap: see [Table].
//
// The triggers miss two kinds of writes:
//
//   - Writes of a session that has disabled triggers, as pg_restore --disable-triggers does. Call [informer.Informer.Reset] afterwards.
//   - Writes directly to a partition, which fire no trigger of the partitioned table. Call InstallTable for the partition.
//
// If a reconcile writes the table, begin its transaction with two calls. [Guard] refuses the transaction of a replaced leader.
// [Table.VersionOf] makes the controller wait until its caches show the transaction:
//
//	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		if err := postgres.Guard(ctx, tx, leases); err != nil {
//			return err
//		}
//		if _, err := tenants.VersionOf(ctx, tx); err != nil {
//			return err
//		}
//		_, err := tx.Exec(ctx, "UPDATE tenants SET ...")
//		return err
//	})
//
// Without the right to create triggers, use [NewQuery], which polls, and read the limits of [Query]. docs/your-database.md in the
// repository has a complete program, and compares the costs.
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
// # Guarantees
//
// Of a Backend:
//
//  1. An acknowledged write is committed. It is as durable as every commit of the server: see synchronous_commit.
//  2. Versions are a counter in a row that each write locks until its commit, after everything else. So versions are in
//     commit order for all kinds and all processes.
//  3. A watch reports every change in order. A notification of the server only wakes it: if one is lost, or the connection
//     that listens is, the watch finds the change by itself after at most [Config.Poll].
//  4. All pages of a list come from one snapshot.
//  5. Every process refuses a write with a stale term, with backend.ErrFenced.
//  6. Open refuses a schema that is missing, incomplete, or of another layout, and says what is wrong.
//
// Of a Table:
//
//  7. A watch misses no committed change, and reports none that was rolled back.
//  8. The rows of a list are those at its version, and a watch from there reports every change after it.
//  9. After every transaction up to a version has been reported, a cache has the rows that these transactions have left.
//  10. Versions of all tables with one log can be compared, and [Table.VersionOf] returns that of your transaction.
//  11. A controller does not reconcile a key again before its caches show the transactions for which the last reconcile of the
//     key has called VersionOf, or 10 s have passed.
//  12. A transaction that [Guard] has let through commits before the next leader begins, or not at all.
//
// # Setup
//
// [Migrate] creates the schema, and brings an older one up to date. Call it when you deploy. [SQL] returns the statements,
// if an administrator runs them. Objects are in the table objects of the schema, and the view current shows the live ones with
// their values as JSON:
//
//	SELECT key, value->>'Image' FROM setpoint.current WHERE kind = 'App';
//
// Read as much as you like. Write only through the library: a row that is written by hand has no version.
//
// # Inside your transaction
//
// Objects and your own rows can commit together. Put your transaction into the context of the writes:
//
//	tx, err := pool.Begin(ctx)
//	...
//	_, err = tx.Exec(ctx, "INSERT INTO orders ...")
//	_, err = apps.Create(postgres.WithTx(ctx, tx), app)
//	err = tx.Commit(ctx)
//
// From the first such write until the commit, all other writes of the schema wait. So make these writes last, and commit
// at once. Two transactions that write several objects cannot deadlock over the objects, since the first write of each
// takes the lock that all of them need.
//
// # Poolers
//
// The pool may go through a pooler in session mode. In transaction mode, two things differ, for a Backend and a Table:
//
//   - Prepared statements. Without support for them in the pooler, such as PgBouncer before 1.21, Open and NewTable fail with the
//     server's error 42P05 or 26000. Set default_query_exec_mode=exec, or cache_describe, in the connection string of pgx.
//   - Notifications do not arrive, and the library cannot detect this. Watches see changes after [Config.Poll]. Set
//     [Config.Listen], or [TableConfig.Listen], to a pool that goes around the pooler: it needs one connection for each
//     Backend and Table with a watch.
//
// Everything else works: transactions of yours, lists from one snapshot, Migrate, and InstallTable. With PgBouncer 1.18 in
// transaction mode with 5 server connections, the suite passes in both modes named above.
//
// # History
//
// The schema keeps the last [Config.History] changes, so that a watch can resume. A watch that resumes later
// ends with backend.ErrExpired, and its informer lists again. The schema keeps deletions for as long.
//
// # Limits and cost
//
// A write takes two round trips and one commit. All transactions that write a schema commit one after another, at the rate at which
// the server flushes its log: hundreds to thousands per second. Concurrent writes of one Backend share transactions, up to 64
// in each. Use several schemas for more; versions of two schemas cannot be compared. A list holds a snapshot until its loop ends, which keeps the server from vacuuming. Every Backend
// with a watch holds one connection for notifications. A record may have up to a few hundred megabytes. Keep records
// below one megabyte.
//
// # Crashes and failovers
//
// If a server fails over to a replica without the last writes, those writes are lost, acknowledged or not, for every program. If a
// server crashes, it loses the last transactions with synchronous_commit=off. Synchronous replication and synchronous_commit
// prevent such losses; this package cannot. The package makes every cache notice them:
//
//   - No version is assigned twice. The first write after a crash, a promotion, or a start on a copy of the files of a running
//     server goes on at a much greater version.
//   - A watch of a Backend at a version that was lost ends with backend.ErrExpired, whether the server is behind that
//     version or has written more by then. Its informer lists again. A watch at a version that was not lost goes on.
//   - All watches of a Table end with informer.ErrExpired once. After a crash, the server reuses numbers of transactions,
//     even if no acknowledged write is lost, and no query returns up to which number.
//
// A connection is half-open if the other side is gone without a word, as after a loss of power. A read of a watch that gets no reply
// within 30 s fails, and so does a page of a list of a Backend. The package then closes the idle connections of the pool, which are
// probably half-open too, so that the next attempt of the informer connects anew. A list of a Table has no such limit, because its
// first row may take long. Three settings of the pool make a failover shorter:
//
//   - connect_timeout in the connection string. The pool waits for 2 minutes for a server that does not answer at all, and has only
//     as many attempts under way as it may have connections, 4 by default. Set 5 seconds.
//   - The socket option TCP_USER_TIMEOUT, in the DialFunc of the connection config. It also covers writes and lists of a Table.
//   - pool_ping_timeout, which limits how long a write waits for each idle connection.
//
// Reads and watches need the primary: a standby refuses those of a Table, and those of a Backend may be stale. If you restore a dump
// into the server that it came from, restart the processes afterwards: the restore looks like ordinary writes.
package postgres
