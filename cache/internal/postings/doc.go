// Package postings keeps which buckets of an index each object of an indexer is in. It is for package cache.
//
// # Guarantees
//
//  1. Most objects have one value in an index, and take eight bytes. Objects without values take nothing, or eight bytes.
//  2. The postings of an object keep the order in which they were set.
//
// # Testing
//
// [Table.Check] returns an error if an invariant does not hold.
package postings
