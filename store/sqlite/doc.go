// Package sqlite provides a source and a store in one SQLite file, for any number of processes on one machine. A [Table] is a source that
// follows an existing table. A [Backend] stores the objects of package store. Neither needs a server or cgo.
//
// # Your own table
//
//	cfg := sqlite.TableConfig{Table: "tenants"}
//	err := sqlite.InstallTable(ctx, db, cfg) // once, when you deploy, and after each migration
//	...
//	tenants, err := sqlite.NewTable(ctx, db, func(row sqlite.Row) (t Tenant, err error) {
//		err = row.Scan(&t.Name, &t.Servers)
//		return t, err
//	}, cfg)
//	...
//	inf, err := informer.New(tenants, func(t Tenant) string { return t.Name }, informer.Config{})
//
// db is your own pool, of any driver. Your programs, and those in other languages, write the table as before: the triggers run in the
// SQLite of the writer. Watches miss no change that the triggers see: see [Table], and [InstallTable] for what they do not see. If a reconcile
// writes the table, use sqllease.Store.Transact, which refuses the transaction of a replaced leader, and call [Table.VersionOf] after its last
// write, which makes the controller wait until its caches show the transaction. The program in examples/yourtable does both.
//
// A write costs more with the triggers, which add a row to a log for each row that is written. A DELETE of all rows costs the most, because
// SQLite then reads each row instead of dropping the pages. README.md says how to operate the file.
//
// # Objects
//
//	db, err := sqlite.Open(ctx, "/var/lib/shop/state.db", sqlite.Config{})
//	if err != nil {
//		return err
//	}
//	defer db.Close()
//	apps, err := store.Open[App](db, "App", store.Config[App]{})
//
// # Guarantees
//
// Those of a Table are at its type. A Backend:
//
//  1. An acknowledged write is on disk: the file is in WAL mode with synchronous=FULL. A process that is killed at any
//     moment loses no acknowledged write and leaves no partial write.
//  2. Versions come from a counter that the writing transaction increments. SQLite has one writer at a time, from BEGIN IMMEDIATE to
//     COMMIT, so versions are in commit order for all kinds and all processes.
//  3. A watch reports every change in order. It sees the writes of its own [Backend] at once. On an idle machine, it sees those of
//     other processes, and of joined transactions, after at most [Config.Poll], or 1.5 times that if several watches
//     share a Backend.
//  4. All pages of a list come from one snapshot.
//  5. Every process refuses a write with a stale term: the error wraps backend.ErrFenced.
//
// # Setup
//
// [Open] creates the file and the tables, unless [Config.Existing] is set. The file may also hold your own tables: the names of
// the store's tables begin with [Config.TablePrefix]. Open refuses a file that holds tables of another layout.
// The directory must exist, and must be on a local disk: WAL mode does not work on network file systems.
//
// # Inside your transaction
//
// Objects and your own rows can commit together. Begin a transaction on [Backend.DB], and put it into the context of
// the writes:
//
//	tx, err := db.DB().BeginTx(ctx, nil)
//	...
//	_, err = tx.ExecContext(ctx, "INSERT INTO orders ...")
//	_, err = apps.Create(sqlite.WithTx(ctx, tx), app)
//	err = tx.Commit()
//
// # History
//
// The file keeps the last [Config.History] changes, so that a watch can resume. A watch that resumes later ends with backend.ErrExpired,
// and its informer lists again. Deletions are kept equally long.
//
// # Limits and cost
//
// A write costs one fsync, which concurrent writes of one Backend share. All processes take turns to write. If a process is suspended
// during a write (SIGSTOP, a frozen container), all other writes wait until that process resumes or is killed. During that time, no
// process can take over a lease in the file.
//
// A List holds a snapshot until its loop ends. Meanwhile, SQLite cannot truncate its WAL file. A record of more than 1,000,000,000 bytes,
// the limit of a blob in SQLite, is refused with backend.ErrTooLarge. Keep records below one megabyte. Idle watches of a Backend share
// their reads of a counter, at most two per [Config.Poll].
package sqlite
