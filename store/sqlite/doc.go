// Package sqlite keeps the objects of package store in one SQLite file, for any number of processes on one machine. It is
// the store to embed: it needs no server and no cgo, and it survives a restart.
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
//     moment loses no acknowledged write and leaves nothing half written.
//  2. Versions are a counter that the writing transaction increments. SQLite has one writer at a time, from BEGIN IMMEDIATE
//     to COMMIT, so versions are in commit order for all kinds and all processes.
//  3. A watch reports every change in order. It sees the writes of its own [Backend] at once, and those of other
//     processes and of joined transactions after at most [Config.Poll] on an idle machine.
//  4. All pages of a list come from one snapshot.
//  5. A write with a term that is over is refused with backend.ErrFenced, in every process.
//
// # Setup
//
// [Open] creates the file and the tables. The tables may stand beside your own: their names begin with
// [Config.TablePrefix]. Open refuses a file that holds tables of another layout. The directory must exist, and must be on
// a local disk: WAL mode does not work on network file systems.
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
// The file keeps the last [Config.History] changes, so that a watch can resume. A watch that was away for longer ends
// with backend.ErrExpired, and its informer lists again. A deletion is remembered for as long.
//
// # Limits and cost
//
// A write costs one fsync, and all writes of all processes take turns. A process that is suspended in the middle of a write,
// by SIGSTOP or in a frozen container, holds up the writes of all others until it goes on or is killed. Meanwhile a lease in
// the file passes to nobody.
//
// A List holds a snapshot until its loop ends; meanwhile SQLite cannot truncate its WAL file. A record may have a few
// hundred megabytes, which is SQLite's limit of a blob; keep records below one. An idle watch costs one read of a counter
// per [Config.Poll], which all watches of a Backend share.
package sqlite
