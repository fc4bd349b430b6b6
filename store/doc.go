// Package store is a system of record: list, watch and write objects, with versions.
//
// A controller reads what is wanted from a store, and writes there what it found and did. [Store] is what it needs of one.
// [Open] makes one of any backend: a database that keeps bytes (package backend says what that takes), or [Memory], which
// is always at hand.
//
// # Usage
//
// Values are plain structs. What the store and its controllers have to know about one is in the envelope, [Object].
//
//	db, err := store.NewMemory(store.MemoryConfig{})
//	apps, err := store.Open(db, "app", store.Config[App]{})
//	app, err := apps.Create(ctx, store.Object[App]{Key: "web", Value: App{Replicas: 3}})
//
// A store is a source for an informer: informer.New(apps, store.Key, informer.Config{}). An informer of [Selected]
// mirrors a part of it, such as a namespace. To change an object that others change too, use [Patch]; to change one that
// may not be there yet, [CreateOrUpdate].
//
// # An object's life
//
//	            Create                 Update that changes something
//	nothing ---------------> present <---------------+
//	   ^                      |  |  \________________/
//	   |  Delete, if it has   |  |
//	   |  no finalizers       |  |  Delete, if it has finalizers
//	   +----------------------+  |
//	   |                         v
//	   |                      deleting <---------------+
//	   |   Update that leaves    |   \________________/
//	   |   no finalizers         |    Update that leaves some
//	   +-------------------------+
//
// A key that is created again begins another life, with another UID.
//
// # Guarantees
//
// Of every Store, if its backend keeps its promises:
//
//  1. A write is atomic, and sees the object as the last accepted write left it. Of several writers that mean to replace
//     the same version, one succeeds; the others get [ErrConflict].
//  2. Reads see all writes that were accepted before them.
//  3. One sequence of versions covers all kinds of a backend, in commit order. What was not changed keeps its version: an
//     Update that changes nothing writes nothing. So a loop that writes what it finds comes to rest.
//  4. A List and the events of a Watch from its version are, together, every later List. Events are never reordered or
//     repeated, and where changes are lost the watch ends with [informer.ErrExpired]. A backend whose Capabilities say that it
//     Skips may leave out states of an object that another one has followed, but no deletion.
//  5. A watch has a bookmark at least every [backend.BookmarkInterval], so that who waits for the version of a write to
//     another kind does not wait in vain, and an idle store does not look dead.
//  6. Everything is a deep copy. Nobody can change what the store holds, or what another caller got.
//     Nothing that is stored ever changes: a write puts another object in its place.
//  7. A write under the context of a leader or a slot, or under [IfTerm], is refused once a write with a greater term of
//     the same lease was accepted, anywhere in the database. A write without a term is not checked.
//  8. Object.Generation grows with what is asked for, and never with a status (see below). Update cannot change a
//     status, and UpdateStatus can change nothing else.
//  9. A write under [RequestID] that was accepted is not applied again while its id is remembered.
//  10. A record that does not decode stops nothing else. Lists name it among the Unread, watches pass it by, and an
//     informer keeps what it has of it, until the record is repaired. Config.OnUndecodable, the log, and Stats report it.
//  11. A write that returns one of the errors of this package has changed nothing. After any other error, of a backend
//     that is reached over a network or through a disk, it may have.
//
// Of Memory in addition:
//
//  12. Versions start at 1 and grow by one with each change of any kind.
//  13. It keeps the last MemoryConfig.History changes of each kind and no more. A watch holds a position in them, and
//     nothing else: it has no goroutine and no buffer, and a slow consumer costs nobody anything.
//  14. No lock is held while anything of the caller runs.
//
// # Status
//
// The status is what controllers report, beside what people ask for. The tag store:"status" marks it:
//
//	type App struct {
//		Replicas   int
//		Ready      int              `store:"status"`
//		Conditions store.Conditions `store:"status"`
//	}
//
// Each part has a method of its own: [Store].Update leaves the status as it is, and UpdateStatus leaves everything else. So
// somebody who scales an app and a controller that reports on it cannot overwrite each other's part. Create stores both.
//
// Tags count on the exported fields of T and of structs that T embeds. A tagged embedded struct is status as a whole. Tags
// deeper inside a value are ignored: the type there may be a kind of its own. Open refuses any other tag that would have no
// effect, with an error that names the type and the field.
//
// # Inside a transaction of yours
//
// Where the backend can, a write joins the caller's own transaction, so that objects and business rows commit together:
// put the transaction into the context with the function of the backend, and write under that context.
//
// # Testing
//
// Memory has no goroutine and takes its time from package time, so that it works in a testing/synctest bubble. Set
// Config.NewUID to have the same UIDs in each run, and a small or negative MemoryConfig.History to make watches expire.
//
// What your code does when a store fails, hangs or loses a reply is shown by an Interceptor of package storetest in front of
// one.
//
// A backend of your own is judged by the suite in package storetest.
package store
