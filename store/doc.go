// Package store keeps objects with versions: your code lists them, watches them, and writes them by compare-and-swap.
//
// A controller reads the desired state from a [Store] and writes its results back. [Open] returns the Store of one kind of object in
// [Memory], or in a database. Package backend specifies what a database must do.
//
// # Usage
//
// A value is a plain struct. Its version and other metadata are in an [Object].
//
//	db := store.NewMemory(store.MemoryConfig{})
//	apps, err := store.Open(db, "app", store.Config[App]{})
//	app, err := apps.Create(ctx, store.Object[App]{Key: "web", Value: App{Replicas: 3}})
//
// A Store is a source for an informer: informer.New(apps, store.Key, informer.Config{}). [Selected] makes a source of some objects. To
// change an object that others change too, use [Patch]; if it may not exist yet, [CreateOrUpdate].
//
// # Guarantees
//
// Every Store keeps these guarantees if its backend keeps its own:
//
//  1. A write is atomic. Of several writers that replace the same version, one succeeds; the others get [ErrConflict].
//  2. A read sees every write that was accepted before it.
//  3. One sequence of versions covers all kinds of a backend, in commit order. An Update that changes nothing writes nothing, so a loop
//     that writes back what it has read stops. A [Condition] whose OK is as stored keeps the stored Since, so it is no change either.
//  4. A List and the events of a Watch from its version add up to every later List. Events are never reordered or repeated. If
//     changes are lost, the watch ends with [informer.ErrExpired].
//  5. A watch yields an event or a bookmark at least every [backend.BookmarkInterval]. A bookmark has the version of the whole backend.
//  6. Arguments and results are deep copies. A stored object is immutable: a write replaces it.
//  7. A write under the context of a leader, or with [IfTerm], carries a term. If the database has accepted a write with a greater
//     term of the same lease, on any object, it rejects the write. A write without a term is not checked.
//  8. Object.Generation increases when the Value changes or Deleting is set, but not with a status. Update cannot change a status,
//     and UpdateStatus changes nothing else.
//  9. A record that does not decode affects no other object. A list has it among the Unread, and a watch yields
//     [informer.Unreadable], both with an [*Error] that wraps [ErrDecode]. So an informer keeps the previous state, and reports it: see
//     [informer.Informer.Unread].
//  10. A write that returns an error of this package has changed nothing. After any other error, such as a lost connection, the write
//     may have been applied. Read the object again, as a level-triggered reconciler does: a repeated Create then returns [ErrExists], a
//     repeated Update [ErrConflict], and a repeated Delete [ErrNotFound].
//
// # Status
//
// The tag store:"status" marks the fields that controllers report:
//
//	type App struct {
//		Replicas   int
//		Ready      int              `store:"status"`
//		Conditions store.Conditions `store:"status"`
//	}
//
// Update ignores the status in its argument, and UpdateStatus ignores the rest, so the two cannot overwrite each other. Create stores both.
// [Open] documents where the tag works.
//
// # Testing
//
// Memory works in a testing/synctest bubble. Set Config.NewUID for the same UIDs in each run, and a negative MemoryConfig.History for
// watches that expire. Package storetest has the suite for backends. Package interceptor has a store that fails, hangs, or loses
// replies by rule.
package store
