// Package cache holds the mirror of a source in memory, and the queue of changes that feeds it. It has no goroutine,
// no timer and no idea of what a source is; package informer mirrors a source into an Indexer.
//
//	         Add Update Delete                Pop
//	producer ------------------> DeltaFIFO ---------> consumer ---> Indexer <--- readers, any number
//	         Replace Bookmark        ^                                 |
//	                                 +------------- Known -------------+
//
// # Usage
//
// An [Indexer] finds objects by key. An [Index] finds them by any other value; [AddIndex] returns a handle that knows
// the type of the values, so there are no names to mistype and no type assertions:
//
//	pods := cache.NewIndexer(func(p *Pod) cache.Name { return p.Name })
//	byNode := cache.AddIndex(pods, func(p *Pod) []string { return []string{p.Node} })
//	for name, pod := range byNode.All("node-7") { ... }
//
// A [Snapshot] is the Indexer at one time, for several reads that have to agree; [Index.In] finds the index in it.
//
// A [DeltaFIFO] is filled by whoever hears of changes, and emptied key by key by the one who applies them.
//
// An [Overlay] shows a cache as it will be when it has caught up with one's own writes. An [Expiring] store holds objects
// for a limited time. Package cachetest fails a test in which an object was changed after it was cached.
//
// Keys and values of indexes are any comparable type. Those that are not equal to themselves (NaN) and interfaces that
// hold something without a hash make the call panic before anything has changed.
//
// # Guarantees
//
//  1. Objects are shared, never copied. Nobody changes one that is in a cache.
//  2. [Indexer.Get], [Indexer.Len] and [Indexer.All] wait for nobody. A reader of an [Index] waits for a writer no longer
//     than a change of a few lists takes, also during [Indexer.Replace] and when memory is given back. A writer waits for
//     such a reader only if what it writes changes an index, and no longer than it takes to read 64 objects. No code of
//     the user runs in either time.
//  3. What is in an Indexer is in its indexes, and the reverse, at every time. A function of the user that panics
//     changes nothing.
//  4. An iterator yields whatever is there all the time exactly once, in order of arrival, and nothing twice. It
//     copies at most 64 objects at a time, and allocates nothing. A Snapshot never changes.
//  5. A DeltaFIFO hands out keys in the order in which they came, each with all that has happened to it. A key that
//     changes while it waits keeps its place; one that changes while it is processed waits again.
//  6. What waits for one key is merged to two deltas at most, such that a consumer who applies them ends up the same.
//     A deletion is never merged away with the creation that follows it. An object that came and went before anybody
//     saw it is not told of.
//  7. Every key that is gone is told as deleted, whatever was missed: [DeltaFIFO.Replace] compares the list with what
//     is known, what waits, and what is being processed. Keys that nobody knows are not told as deleted. With
//     Equal in [DeltaFIFOConfig], listed objects that are equal to what is known, and to which nothing else has happened,
//     are not told.
//  8. [DeltaFIFO.Version] is true: each change up to it has been processed without an error, or needs no processing.
//  9. Memory follows what is there, not what has been: maps and lists that have been emptied shrink.
//
// # Testing
//
// [DeltaFIFO.TryPop] is the form of Pop that does not wait. Expiring and Overlay read the clock, which stands still in a
// testing/synctest bubble; nothing else depends on time.
package cache
