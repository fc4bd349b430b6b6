// Package backend is what a database has to do to be a store: keep bytes under keys, with versions that grow in commit
// order. Package store does everything else.
//
// # Usage
//
// A [Backend] is made of any database and given to store.Open:
//
//	db := postgres.New(pool) // a *postgres.Backend
//	apps, err := store.Open[App](db, "app", store.Config[App]{})
//
// The engine in package store implements the life of an object: generation, status, finalizers, preconditions,
// repeated requests. A backend sees records alone, and never decodes one. Embed a [Kinds] for the method Claim, and run
// the suite in package storetest against it. [Record] implements encoding.BinaryMarshaler for databases whose values are
// one piece of bytes.
//
// # What a version is
//
// A version is a number that grows with every commit of the backend, over all kinds. It is right if no change ever becomes
// visible at or below a version that a reader has already reached. Nothing else in this package can make up for a version
// that is wrong: watchers lose changes, and never find out.
//
// A sequence (nextval, bigserial, AUTO_INCREMENT) is wrong. So are timestamps, updated_at and xmin alone. All of them are
// drawn before the commit: one transaction draws 100, another draws 101 and commits, a reader goes on to 101, and then the
// first one commits behind its back. These are right:
//
//   - A counter in a row of its own, locked until the commit. All writers of the backend take turns, one fsync each.
//     Lock it last in the transaction.
//   - pg_current_xact_id() in the row, with readers that stop below pg_snapshot_xmin(pg_current_snapshot()). It needs no
//     lock, but the oldest open transaction of the whole cluster that writes holds all readers back.
//   - Logical decoding, which delivers in commit order. It needs a privilege, and a slot without a reader fills the disk.
//   - etcd's revision and the sequence of a NATS stream, which are given at the commit.
//   - An offset in a log that one writer at a time appends to.
//
// Versions need not begin at 1 nor grow by 1. Zero is the time before the first change.
//
// # Guarantees
//
// What a Backend guarantees to the engine, and the suite checks:
//
//  1. One sequence of versions covers all kinds, in commit order.
//  2. Transact is atomic. Between the state that decide is given and the state that is written, nobody else writes the
//     key, in this process or another one.
//  3. No record is written, and no term recorded, if a term is over, or decide returns an error. All of it happens, or
//     nothing does. After any other error, such as a lost connection, it may have happened.
//  4. A write that was acknowledged is seen by every later Get, List and Transact, in every process.
//  5. All pages of a List show the kind at one version, and a Watch from that version tells everything after it.
//  6. A Watch yields changes in order of version, each once, and leaves none out, unless Capabilities.Skips allows that.
//     It never leaves a deletion out. If it cannot keep this promise, it ends with [ErrExpired].
//  7. A watch is never silent for longer than [BookmarkInterval].
//  8. Bytes and strings come back as they were given.
//
// # Strings and bytes
//
// The engine refuses what a backend may not hold, so a backend need not check. A kind, a key, a lease, and the keys and
// values of labels are valid UTF-8 without NUL. A kind has 1 to [MaxKind] bytes. A key, and the name of a lease, has 1 to
// [MaxKey] bytes; it may contain any other character, such as a slash, a dot, a space, a percent sign or a star. Keys are
// compared and ordered by their bytes: COLLATE "C" in Postgres.
//
// Meta and Value are any bytes, and come back byte by byte: bytea or BLOB, not jsonb. Meta is always JSON in UTF-8. So is
// Value with the default codec; then a column of type text or json holds it too.
//
// # Shutdown
//
// The engine starts nothing and closes nothing. The code that opens a database closes it.
//
// # Testing
//
// The suite in package storetest runs against a backend. Its mutants, backends that break one promise each, are the
// catalogue of mistakes: read it first.
package backend
