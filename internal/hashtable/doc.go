// Package hashtable has the hash tables that packages of this module share.
//
// # Usage
//
// [Slots] finds the numbers of items by hash; the owner keeps the items. [Ordered] is a map that keeps the order in which
// its keys arrived. Neither is safe for concurrent use.
//
// # Guarantees
//
//  1. Neither table asks the owner for a hash twice: the hash is stored with the item. So a table that grows, and a
//     removal, read no keys.
//  2. An [Ordered] iterates in the order in which its keys arrived.
//  3. Memory follows the number of items: an [Ordered] shrinks when it becomes empty.
//
// # Testing
//
// Slots.Check and Ordered.Check return an error if an invariant does not hold.
package hashtable
