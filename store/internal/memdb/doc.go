// Package memdb is the database behind store.Memory: items of many kinds, one version counter, and the last changes of each kind.
//
// An [Item] is a value of package store or a record that was written through the methods of a [backend.Backend]. A reader of either kind of
// item can read the other through [Item.Record].
//
// # Guarantees
//
//  1. A commit is a compare-and-swap of one item. It replaces only the item that the writer has seen.
//  2. Versions start at 1 and increase by one with each change of any kind.
//  3. A watch yields each change after its version once, in order, or ends with an [*ExpiredError].
//  4. No lock is held while a caller's code runs, except the methods of an Item.
//  5. A watch has no goroutine and no buffer. It is never silent for longer than [backend.BookmarkInterval].
package memdb
