// Package sqllease keeps leases in a table of Postgres or SQLite, through package database/sql and your driver. It is a
// leaderelect.LeaseStore and a shard.Lister. It also guards transactions, so that an earlier leader cannot write.
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
// The unique keys make leases and guards safe: (name), and in Postgres also (name, term). So EnsureTable refuses a table
// without them, or with other types. Its error contains the statement that repairs the table.
//
// Postgres and SQLite store terms as signed integers. The last term is 2^63-1; after it, nobody leads.
//
// The leader writes its row once per RetryPeriod. In Postgres a renewal changes no index, so it is a heap-only update, which
// needs no vacuum of the indexes.
//
// # Guarantees
//
//  1. Each call is one statement in its own transaction. Only an Update or a Create that has changed nothing sends a second
//     statement. So a pooler such as PgBouncer works, in any mode.
//  2. A write changes the row only if its version is the expected one. Versions are random and never reused, even if the
//     row is deleted or restored from a backup.
//  3. After an error that is neither leaderelect.ErrConflict nor ErrNotFound, the outcome is unknown. If package
//     database/sql sends a write again because the driver has reported a bad connection, the write does not conflict with
//     itself, unless another writer has replaced it in between. An elector does not rely on that: it reads the record
//     after a conflict.
//  4. A transaction that is guarded by a term ([Store.Guard]) commits before any later term of that lease begins, or not
//     at all. In Postgres it delays neither renewals nor other guarded transactions. In SQLite it does. A successor waits
//     only for the transactions that were in flight when the old leader's lease ended, if they use [Store.Guard] and not
//     [Store.GuardTerm].
//  5. Acknowledged writes are as durable as Postgres or SQLite makes them: see below.
//
// # Guarded transactions
//
// In Postgres, the guard is a statement that also works without this package:
//
//	SELECT 1 FROM leases WHERE name = 'shop-controller' AND term = 7 FOR KEY SHARE
//
// If it returns no row, the term is over. If it returns a row, a takeover waits until the transaction ends: it changes a
// column of the unique index (name, term), so it needs a row lock that conflicts with FOR KEY SHARE. Renewals change no
// such column and do not wait. FOR SHARE would delay the leader's own renewals. A foreign key on (name, term) takes the
// same lock as the guard.
//
// In SQLite, one transaction writes at a time. The guard is an UPDATE that changes nothing, so the transaction has the
// write lock before it compares the term.
//
// The guard is mutual exclusion, not only detection, and needs no clock. It costs one round trip per transaction. A
// leader that hangs in the middle of a guarded transaction, with its connection open, delays its successor: see
// idle_in_transaction_session_timeout below. A release keeps the term. So a transaction with [Store.GuardTerm] may write
// until another leader takes over. [Store.Guard] and [Store.Transact] begin no transaction after the leadership is over.
//
// # Early takeover
//
// On Postgres, [Sessions] report a release to followers within milliseconds. If every write of the leader is guarded, a
// follower can also take over within milliseconds after the leader's process was killed, without waiting for the lease:
//
//	sessions, err := sqllease.NewSessions(db, sqllease.SessionsConfig{})
//	...
//	elector, err := leaderelect.New(leaderelect.Config{
//		Store:    leases,
//		Sessions: sessions,
//		Fenced:   true, // every write is in a transaction with Guard, or carries its term
//		...
//
// Without Fenced, sessions only report releases, and are safe for any work. NOTIFY would also report renewals. But
// commits that notify wait for each other (https://www.recall.ai/blog/postgres-listen-notify-does-not-scale), and package
// database/sql cannot listen.
//
// A session is an advisory lock of a connection (pg_try_advisory_lock of a random 64-bit number). When the process ends,
// the operating system closes its connections, and the server releases the lock. A follower that waits for the lock then
// gets it.
//
//   - Each elector permanently uses two connections: one holds its session, one waits for the end of the leader's
//     session. A pool with a limit needs two more connections per elector, or renewals never get one. Alternatively, give
//     the sessions a pool of their own.
//   - A pooler such as PgBouncer works in session mode only. Avoid it if you can: it may keep the connection of a client
//     that is gone. In transaction mode, a session is lost at the first check.
//   - All electors must reach the same database of the same primary, because advisory locks belong to one database. A
//     standby is refused.
//   - If a machine disappears without closing its connections, its session lasts until TCP keepalives end it. A suspended
//     process keeps its session. In both cases followers wait for the lease.
//   - A server whose idle_session_timeout is shorter than CheckPeriod ends sessions. A restart ends all of them. Leaders
//     notice after CheckPeriod, and followers ask again after RetryPeriod. So a leader that has renewed by then stays.
//   - A takeover waits for guarded transactions of the old leader. They end with its connections.
//
// # What loses a lease
//
// A database that does not answer for RenewDeadline: because of a failover, a lock on the table (ALTER TABLE, VACUUM
// FULL), or a pool without a free connection. If the work can use all connections of a pool, give the store its own pool
// of at least two. A call that needs a new connection has RequestTimeout to open it. So RequestTimeout must be longer
// than a connect takes under load.
//
// A failover takes LeaseDuration and up to 1.2 RetryPeriod. A follower notices a release after up to 1.2 RetryPeriod. With
// [Sessions], both can take milliseconds.
//
// # Postgres
//
//   - Connect to the primary. With more than one host, set target_session_attrs=read-write. A replica that is behind
//     would delay takeovers, and accepts no writes.
//   - synchronous_commit must be on (the default), at least for this role. Otherwise a crash loses the last writes.
//   - A failover to an asynchronous replica loses the last writes too. An elector that has seen them notices
//     (leaderelect.ErrStoreRegressed). Others cannot, and two may lead until the old leader's next renewal. A synchronous
//     standby prevents that.
//   - Set idle_in_transaction_session_timeout to LeaseDuration or less, for the role of guarded transactions. Also set
//     tcp_keepalives_idle and tcp_keepalives_interval, so that the server notices that a client's machine is gone. By
//     default that takes two hours.
//   - Set client_connection_check_interval (Postgres 14 and newer) to about a second. Without it, the server notices a
//     dead client in the middle of a statement only when the statement ends. Until then, the dead leader's guarded
//     transaction delays its successor.
//   - If keys are not ASCII, the encoding of the database must be UTF8. Keys have at most 2,000 bytes.
//   - github.com/jackc/pgx/v5/stdlib returns when ctx ends, whatever the server does. Behind a pooler in transaction mode
//     it needs default_query_exec_mode=exec.
//   - github.com/lib/pq may ignore the end of ctx if the network drops all packets. An elector abandons such a call
//     safely, but Run then returns leaderelect.ErrStoreStuck. The suite leasetest hangs.
//
// # SQLite
//
//   - SQLite is for processes of one host, on a local file system.
//   - Set busy_timeout on each connection. Otherwise a write fails whenever another one is in flight. A driver may not
//     notice the end of ctx while it waits, so use less than StepDownTimeout, also for the work. With modernc.org/sqlite:
//     "file:app.db?_pragma=busy_timeout(2000)".
//   - Set journal_mode=WAL, so that reads do not wait for writes. In either mode, a commit survives the end of the
//     process, and with synchronous=FULL (the default) a crash of the machine.
//   - A process that is suspended (not killed) in the middle of a write holds the lock of the file. So no other process
//     can take over until it continues or dies. That is safe, but takes longer than LeaseDuration.
//   - Call Guard first in a transaction. After a read, a deferred transaction in WAL mode that is no longer current fails
//     with SQLITE_BUSY, and has to be retried as usual.
//
// # Shutdown
//
// The store and the sessions start no goroutines. Close your database after the electors have returned.
//
// # Testing
//
// The tests of this package use a fake driver. The module leaderelect/backendtest tests real servers: Postgres with its
// failures and the early takeover, and SQLite. Use a memlease.Store in your own tests.
package sqllease
