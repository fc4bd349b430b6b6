// Package backend defines what a database must do to be a store: keep bytes under keys, with versions that increase in commit order.
// Package store does everything else.
//
// # Usage
//
// A [Backend] wraps any database, and is passed to store.Open:
//
//	db, err := postgres.Open(ctx, pool, postgres.Config{}) // a *postgres.Backend
//	apps, err := store.Open(db, "app", store.Config[App]{})
//
// The engine in package store implements the life of an object: generation, status, finalizers, and preconditions. A backend
// sees only records, and never decodes one. Embed a [Kinds] for the method Claim, and run the suite in package storetest against your
// backend. [Record] implements encoding.BinaryMarshaler for databases whose values are byte slices.
//
// # What a version is
//
// A version is a number that increases with every commit of the backend, across all kinds. It is correct if no change ever becomes visible
// at or below a version that a reader has already reached. Nothing else can make up for wrong versions: watchers lose changes, and never
// find out.
//
// A sequence (nextval, bigserial, AUTO_INCREMENT) is wrong. So are timestamps, updated_at and xmin alone. All of them are drawn before the
// commit: one transaction draws 100, another draws 101 and commits, a reader advances to 101, and then the first one commits unseen. These
// are correct:
//
//   - A counter in its own row, locked until the commit. All writers of the backend take turns, one fsync each. Lock it last in the
//     transaction.
//   - pg_current_xact_id() in the row, with readers that stop below pg_snapshot_xmin(pg_current_snapshot()). It needs no lock, but the
//     oldest open writing transaction in the whole cluster holds back all readers.
//   - Logical decoding, which delivers in commit order. It needs a privilege, and a slot without a reader fills the disk.
//   - etcd's revision and the sequence of a NATS stream, which are assigned at the commit.
//   - An offset in a log that one writer at a time appends to.
//
// Versions need not start at 1 or increase by 1. Zero means before the first change.
//
// # Guarantees
//
// A Backend guarantees the following to the engine, and the suite checks it:
//
//  1. One sequence of versions covers all kinds, in commit order.
//  2. Transact is atomic. Between the state that decide gets and the state that is written, no other writer changes the key, in this
//     process or another one.
//  3. No record is written, and no term recorded, if a term is over, or decide returns an error. Either all of it happens or nothing does.
//     After any other error, such as a lost connection, it may have happened.
//  4. Every later Get, List, and Transact sees an acknowledged write, in every process.
//  5. All pages of a List show the kind at one version, and a Watch from that version yields everything after it.
//  6. A Watch yields changes in order of version, each once, and leaves none out. If it cannot keep this promise, it ends with
//     [ErrExpired].
//  7. A watch is never silent for longer than [BookmarkInterval].
//  8. Bytes and strings are returned exactly as they were written.
//
// # Strings and bytes
//
// The engine rejects anything that a backend need not store, so a backend need not check. A kind, a key, a lease, and the keys and values
// of labels are valid UTF-8 without NUL. A kind has 1 to [MaxKind] bytes. A key, and the name of a lease, has 1 to [MaxKey] bytes; it may
// contain any other character, such as a slash, a dot, a space, a percent sign or a star. Keys are compared and ordered by their bytes:
// COLLATE "C" in Postgres.
//
// Meta and Value are arbitrary bytes, and are returned unchanged: use bytea or BLOB, not jsonb. Meta is always JSON in UTF-8. So is Value
// with the default codec; then a column of type text or json holds it too.
//
// # Shutdown
//
// The engine starts nothing and closes nothing. The code that opens a database closes it.
//
// # Testing
//
// The suite in package storetest runs against a backend. Its mutants, backends that break one promise each, are a catalog of mistakes: read
// it first.
package backend
