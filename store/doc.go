// Package store is a system of record: list, watch and write objects, with versions.
//
// A controller reads what is wanted from a store, and writes there what it found and did. [Store] is what it needs of one;
// [Memory] is one that is always at hand, and the measure for all others.
//
// # Usage
//
// Values are plain structs. What the store and its controllers have to know about one is in the envelope, [Object].
//
//	db, err := store.NewMemory(store.MemoryConfig{})
//	apps, err := store.Open[App](db, "app", store.Config[App]{})
//	app, err := apps.Create(ctx, store.Object[App]{Key: "web", Value: App{Replicas: 3}})
//
// A store is a source for an informer: informer.New(apps, store.Key[App], informer.Config{}). To change an object that
// others change too, use [Patch].
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
// Of every Store:
//
//  1. A write is atomic, and sees the object as the last accepted write left it. Of several writers that mean to replace
//     the same version, one succeeds; the others get [ErrConflict].
//  2. Reads see all writes that were accepted before them.
//  3. Versions grow with every change of a kind, so that the versions of all that happened to it are in one order. What
//     was not changed keeps its version: an Update that changes nothing writes nothing. So a loop that writes what it
//     finds comes to rest.
//  4. A List and the events of a Watch from its version are, together, every later List. Events are never reordered,
//     merged, repeated or left out: where that cannot be had, the watch ends with [ErrExpired].
//  5. Everything is a deep copy. Nobody can change what the store holds, or what another caller got.
//     Nothing that is stored ever changes: a write puts another object in its place.
//  6. A write under [IfTerm] is refused once a write with a greater term was accepted, anywhere in the database. A write
//     without a term is not checked: to be fenced, every write of a leader has to carry its term.
//  7. Object.Generation grows with what is asked for, and never with a status ([Statused]). Update cannot change a
//     status, and UpdateStatus can change nothing else.
//  8. A write under [Once] that was accepted is not applied again while its id is remembered.
//  9. A write that returns one of the errors of this package has changed nothing. After any other error, of a backend
//     that is reached over a network or through a disk, it may have.
//
// Of Memory in addition:
//
//  10. There is one version counter over all kinds. It starts at 1 and grows by one with each change.
//  11. It keeps the last MemoryConfig.History changes of each kind and no more. A watch holds a position in them, and
//     nothing else: it has no goroutine and no buffer, and a slow consumer costs nobody anything.
//  12. No lock is held while anything of the caller runs.
//
// # Testing
//
// Memory has no goroutine and takes its time from package time, so that it works in a testing/synctest bubble. Set
// MemoryConfig.NewUID to have the same UIDs in each run, and a small or negative MemoryConfig.History to make watches
// expire.
//
// What your code does when a store fails, hangs or loses a reply is shown by an Interceptor of package storetest in front of
// one.
//
// A backend of your own is judged by the suite in package storetest; [Admit] gives it the rules for preconditions.
package store
