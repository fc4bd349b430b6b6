// Package relist finds the objects of a new list, in parallel with the keys of a cache. It is for package informer.
//
// A list usually has the order of the cache, which is that of the first list. Then the keys of both can be compared one by one, without
// look-ups and hashes.
//
// # Guarantees
//
//  1. Each object of the list is either returned by one [Merger.Find], or yielded by [Merger.Astray].
//  2. Find compares a key with at most 32 others. If fewer than one search in five succeeds, it soon stops searching.
package relist
