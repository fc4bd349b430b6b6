// Package sqllease keeps leases in a table of Postgres or SQLite, through package database/sql and the driver that you
// have: it is a leaderelect.LeaseStore and a shard.Lister. And it guards transactions, so that a leader of the past
// writes nothing.
//
// # Usage
//
//	db, err := sql.Open("pgx", "postgres://...")
//	...
//	leases, err := sqllease.New(db, sqllease.Config{})
//	...
//	err = leases.EnsureTable(ctx) // after a migration with leases.DDL() it only checks the table
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
//	name    text    the key; \xx stands for a byte that text cannot have: a backslash, NUL, what is not UTF-8
//	term    bigint  the fencing token: changes with every takeover, and only then
//	version text    random, a new one with every write
//	value   bytea   the record of the elector, JSON: convert_from(value, 'UTF8') in Postgres; blob in SQLite
//
// Both unique keys, on (name) and in Postgres on (name, term), are what makes leases and guards safe. So EnsureTable refuses
// a table without them, or with other types, and its error contains the statement that repairs the table.
//
// Postgres and SQLite store terms as signed integers: the last term is 2^63-1, and after it nobody leads.
//
// A row is written once per RetryPeriod of the leader. In Postgres neither index changes with a renewal, so it is a
// heap-only update, which needs no vacuum of the indexes.
//
// # Guarantees
//
//  1. Each call is one statement, in a transaction of its own; only an Update or a Create that has changed nothing makes
//     another one. So a pooler such as PgBouncer may stand in between, in any mode.
//  2. A write changes the row if its version is the one expected. Versions are random and never come back, not even when
//     the row is deleted, or restored from a backup.
//  3. Of an error that is neither leaderelect.ErrConflict nor ErrNotFound the outcome is unknown. A write that package
//     database/sql sends again, because the driver said that the connection was bad, does not conflict with itself; unless
//     another writer has replaced it in between. Drivers should say so only before they have sent anything, as pgx
//     does. An elector reads the record after a conflict, and relies on neither.
//  4. A transaction that was guarded by a term, see [Store.Guard], commits before any later term of that lease begins,
//     or not at all. In Postgres it holds up neither renewals nor other guarded transactions. In SQLite it does.
//     A successor waits for the transactions that were under way when the lease of the old leader ended, and for no later
//     ones, if they are guarded by a leadership and not by [Store.GuardTerm].
//  5. Everything that Postgres or SQLite has acknowledged is as durable as they make it: see below.
//
// # Guarded transactions
//
// In Postgres, the guard is a statement that anybody can use, also without this package:
//
//	SELECT 1 FROM leases WHERE name = 'shop-controller' AND term = 7 FOR KEY SHARE
//
// With no row the term is over. With one, a takeover waits until the transaction ends, because it changes a column of a
// unique index, (name, term), and so needs a row lock that FOR KEY SHARE excludes; renewals change no such column and
// do not wait. FOR SHARE would hold up the renewals of the very leader. A foreign key on (name, term) takes the same lock.
// In SQLite, a transaction that writes excludes every other; the guard is an UPDATE that changes nothing, so that it has
// the right to write before it looks.
//
// This is mutual exclusion, not only detection, and it needs no clock. It costs one round trip for each transaction. A
// leader that stops in the middle of one, with its connection open, holds up its successor: see
// idle_in_transaction_session_timeout below. A release keeps the term, so a transaction with [Store.GuardTerm] may write
// until another has taken over. [Store.Guard] and [Store.Transact] begin none after the leadership is over.
//
// # Early takeover
//
// On Postgres, [Sessions] tell followers of a release within milliseconds. If all that the leader writes is guarded, a
// follower also takes over within milliseconds after the leader's process was killed, instead of after its lease:
//
//	sessions, err := sqllease.NewSessions(db, sqllease.SessionsConfig{})
//	...
//	elector, err := leaderelect.New(leaderelect.Config{
//		Store:    leases,
//		Sessions: sessions,
//		Fenced:   true, // every write is in a transaction with Guard, or carries its term
//		...
//
// Without Fenced they tell of releases alone, and are safe for any work. NOTIFY would tell of renewals as well, but
// commits that notify wait for each other (https://www.recall.ai/blog/postgres-listen-notify-does-not-scale), and to
// listen takes more than package database/sql.
//
// A session is an advisory lock of a connection (pg_try_advisory_lock of a random number of 64 bits). When the process is
// gone, the system closes its connections and the server releases the lock. A follower that waits for the lock gets it.
//
//   - Each elector uses two connections all the time: one holds its session, one waits for the end of the leader's. A
//     pool with a limit needs two more for each elector, or renewals wait in vain. Or give the sessions a pool of their own.
//   - A pooler such as PgBouncer may be in between in session mode only, and better not at all: it may keep the
//     connection of a client that is gone. In transaction mode a session is lost at the first check.
//   - All electors must reach the same database of the same primary: advisory locks belong to one database. A standby is
//     refused.
//   - A machine that is gone without a word keeps its session until TCP keepalives end it. A process that is stopped keeps
//     its session. Then the lease decides, as without sessions.
//   - A server whose idle_session_timeout is shorter than CheckPeriod ends sessions. A restart ends all of them. Leaders
//     notice after CheckPeriod and followers ask again after RetryPeriod, so leaders that have renewed by then stay.
//   - Takeover waits for transactions that the old leader's guard is in, which end with its connections.
//
// # What loses a lease
//
// A database that does not answer for RenewDeadline: a failover, a lock on the table (such as ALTER TABLE or VACUUM
// FULL), a pool without a free connection. Give the store a pool of its own, of two connections or more, if the work can
// take all those of the other. A call that needs a new connection opens it within RequestTimeout, and begins again if it
// cannot: RequestTimeout has to be longer than that takes under load. Fail-over takes LeaseDuration and up to 1.2 RetryPeriod; a release is noticed at the next
// look of a follower, after up to 1.2 RetryPeriod. With [Sessions] either can take milliseconds.
//
// # Postgres
//
//   - Ask the primary. With more than one host, target_session_attrs=read-write. A replica that is behind would only delay
//     takeovers, but it takes no writes.
//   - synchronous_commit must be on (the default), at least for this role. Otherwise a crash forgets the last writes.
//   - Failover to an asynchronous replica forgets the last writes too. An elector that has seen them notices
//     (leaderelect.ErrStoreRegressed), others cannot, and two may lead until the old leader's next renewal. A synchronous
//     standby does not.
//   - Set idle_in_transaction_session_timeout to LeaseDuration or less, for the role whose transactions are guarded. Set
//     tcp_keepalives_idle and tcp_keepalives_interval too, so that the server notices a client whose machine is gone; by
//     default it waits for two hours.
//   - Set client_connection_check_interval (Postgres 14 and newer) to a second or so. Without it, the server notices a dead
//     client in the middle of a statement only when the statement ends. Until then the dead leader's guarded transaction
//     holds up its successor.
//   - The encoding of the database has to be UTF8, if keys are not ASCII. Keys have up to 2,000 bytes.
//   - Drivers: github.com/jackc/pgx/v5/stdlib returns when ctx ends, whatever the server does. Behind a pooler in
//     transaction mode it needs default_query_exec_mode=exec. github.com/lib/pq may stay in a call, whatever ctx says,
//     when the network loses everything without a word. An elector lets go of such a call, and neither leads nor
//     follows by it, but Run then returns leaderelect.ErrStoreStuck; tests of a store do not get past it.
//
// # SQLite
//
//   - For processes of one host, on a local file system.
//   - busy_timeout must be set, on each connection, or a write fails as soon as another one is under way. While a driver
//     waits so long it may not notice the end of ctx, so make it less than StepDownTimeout, for the work too. With
//     modernc.org/sqlite: "file:app.db?_pragma=busy_timeout(2000)".
//   - journal_mode=WAL, so that reads do not wait for writes. A commit survives the end of the process in either mode, and
//     that of the machine with synchronous=FULL (the default).
//   - A process that is stopped (not killed) in the middle of a write holds the lock of the file, so nobody can take over
//     until it goes on or dies. That is safe, but takes longer than LeaseDuration.
//   - Guard comes first in a transaction. After a read, a deferred transaction of WAL mode that is not current any more
//     fails with SQLITE_BUSY: to be begun again, as always.
//
// # Shutdown
//
// The store and the sessions start no goroutines. Whoever has opened the database closes it, after the electors have
// returned.
//
// # Testing
//
// The tests here run on a driver of their own. Those on Postgres, with its failures and the early takeover, and on
// SQLite, are in the module leaderelect/backendtest of the repository. Your own tests may take a
// memlease.Store.
package sqllease
