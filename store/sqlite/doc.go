// Package sqlite stores the objects of package store in one SQLite file, for any number of processes on one machine. It needs no
// server and no cgo, and the objects survive a restart.
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
