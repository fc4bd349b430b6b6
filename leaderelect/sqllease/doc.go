// Package sqllease keeps leases in a table of Postgres, SQLite, MySQL, or MariaDB, through package database/sql and your driver. It
// is a leaderelect.LeaseStore and a shard.Lister. It also guards transactions, so that an earlier leader cannot write.
//
// # Usage
//
//	db, err := sql.Open("pgx", "postgres://...")
//	...
//	leases, err := sqllease.New(db, sqllease.Config{})
//	...
//	err = leases.EnsureTable(ctx) // creates the table, or checks it if it exists
//	...
//	elector, err := leaderelect.New(leaderelect.Config{
//		Store: leases,
//		Key:   "shop-controller",
//		OnStartedLeading: func(ctx context.Context, l *leaderelect.Leadership) error {
//			...
//			err := leases.Transact(ctx, func(tx *sql.Tx) error {
//				_, err := tx.ExecContext(ctx, `UPDATE orders SET ...`)
//				return err
//			})
//
// # The table
//
//	name    text    the key; \xx stands for a backslash, a NUL, or a byte that is not valid UTF-8
//	term    bigint  the fencing token: changes with every takeover, and only then
//	version text    random, new with every write
//	value   bytea   the record of the elector, JSON: convert_from(value, 'UTF8') in Postgres; blob in SQLite
//
// In MySQL and MariaDB the text is varbinary, which compares names byte for byte, and the value is longblob:
// CONVERT(value USING utf8mb4) shows it.
//
// The unique keys make leases and guards safe: (name), and also (name, term) except in SQLite. So EnsureTable refuses a table
// without them, or with other types. Its error contains the statement that repairs the table.
//
// All of them store terms as signed integers. The last term is 2^63-1; after it, no elector leads.
//
// The leader writes its row once per RetryPeriod. In Postgres a renewal changes no index, so it is a heap-only update, which
// needs no vacuum of the indexes.
//
// # Guarantees
//
//  1. Each call is one statement in its own transaction. Only an Update or a Create that has changed nothing sends a second
//     statement. So a pooler such as PgBouncer works, in any mode. On SQLite, a statement that finds the file locked has no
//     effect, and is sent again until ctx ends. So is a statement of MySQL that the server has undone because of a deadlock
//     or innodb_lock_wait_timeout.
//  2. A write changes the row only if its version is the expected one. Versions are random and never reused, even if the
//     row is deleted or restored from a backup.
//  3. After an error that is neither leaderelect.ErrConflict nor ErrNotFound, the outcome is unknown. If the driver
//     reports a bad connection, package database/sql sends a write again. The write conflicts with itself only if another
//     writer has replaced it in between. An elector does not rely on that: after a conflict, it reads the record.
//  4. A transaction that is guarded by a term ([Store.Guard]) commits before any later term of that lease begins, or not
//     at all. In Postgres and MySQL it delays neither renewals nor other guarded transactions. In SQLite it does. A successor waits
//     only for the transactions that were in flight when the old leader's lease ended, if they use [Store.Guard] and not
//     [Store.GuardTerm].
//  5. If no call can work, the error is marked with retry.Permanent, and an elector that has never reached the lease ends
//     with it: the table is missing (call [Store.EnsureTable]), the role has no privilege, or Config.Dialect is that of
//     another database. The driver's error must have a method SQLState() string (pgx, lib/pq) or Code() int
//     (modernc.org/sqlite), or a field Number uint16 (go-sql-driver/mysql), for the privilege, and none for the rest.
//  6. Acknowledged writes are as durable as the database makes them: see [Store].
//
// The guard is mutual exclusion, not only detection, and needs no clock. [Store.Guard] says how it works.
//
// # Settings
//
// The guarantees need some settings of the database: [Store] lists those of Postgres, of SQLite, and of MySQL and
// MariaDB. On Postgres, MySQL, and MariaDB, a follower can take over within milliseconds after a release or the end of the leader's process: see [Sessions].
//
// # What loses a lease
//
// A database that does not answer for RenewDeadline: because of a failover, a lock on the table (ALTER TABLE, VACUUM
// FULL), or a pool without a free connection. If the work can use all connections of a pool, give the store its own pool
// of at least two. A call that needs a new connection has RequestTimeout to open it. So RequestTimeout must be longer
// than a connect takes under load.
//
// A failover takes LeaseDuration and up to 1.2 RetryPeriod and 50ms. A follower notices a release after up to 1.2
// RetryPeriod. With [Sessions], both can take milliseconds.
//
// # Shutdown
//
// The store and the sessions start no goroutines. Close your database after the electors have returned.
//
// # Testing
//
// The tests of this package use a fake driver. The module leaderelect/backendtest tests real servers: Postgres and
// MariaDB with their failures and the early takeover, and SQLite. Use a memlease.Store in your own tests.
package sqllease
