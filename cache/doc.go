// Package cache holds an in-memory mirror of a source, with indexes. It has no goroutine, no timer, and no notion of a source.
//
//	 source ----> informer.Informer ----> Indexer <---- readers: Get, All, Index.All, Snapshot
//	list, watch      one writer                          any number, concurrently
//
// # Usage
//
// An [Indexer] finds objects by key. An [Index] finds them by another value. [AddIndex] returns a typed handle, so there are no index names
// to mistype and no type assertions:
//
//	pods := cache.NewIndexer(func(p *Pod) string { return p.Name })
//	byNode := cache.AddIndex(pods, func(p *Pod) []string { return []string{p.Node} })
//	for name, pod := range byNode.All("node-7") { ... }
//
// Code that only reads should ask for a [Reader] or an [IndexReader]. A [Snapshot] is the Indexer at one moment, for several reads that
// must agree; [Index.In] finds the index in it.
//
// Package cache/mutation shows a cache together with this process's own writes that the cache has not seen yet. Package
// cachetest fails a test in which an object was changed after it was cached.
//
// A [DeltaFIFO] is a building block for your own consumer, for example one that applies changes to a database. It queues changes by key
// until the consumer takes them. Package informer does not use it: its Informer merges the pending changes of each handler separately.
//
//	           Add Update Delete               Pop
//	producer --------------------> DeltaFIFO -------> consumer ----> its cache
//	           Replace Bookmark        ^                                 |
//	                                   +---------- KnownObjects ---------+
//
// Keys, and values of indexes, may have any comparable type. A call that would store a key or value that is not equal to itself (NaN)
// panics and changes nothing, and a search for one finds nothing. A call with an interface that holds an incomparable value panics.
//
// # Guarantees
//
//  1. Objects are shared, never copied. An object in a cache must not be changed.
//  2. [Indexer.Get], [Indexer.Len] and [Indexer.All] never wait. A reader of an [Index] waits for a writer only while the writer changes a
//     few lists, even during [Indexer.Replace] and when memory is freed. A writer waits for such a reader only if the write adds or
//     removes an object or changes an index, and only while the reader reads 64 objects. No user code runs during either wait.
//  3. At every moment, an Indexer and its indexes hold the same objects. A user function that panics changes nothing.
//  4. An iterator yields each object that is present the whole time exactly once, in order of entry. It yields no object
//     twice. It copies at most 64 objects at a time, and allocates nothing. A [Snapshot] never changes.
//  5. A [DeltaFIFO] returns keys in the order in which they were added, each with its merged changes. A key that changes
//     while it waits keeps its place. A key that changes while it is processed waits again.
//  6. A DeltaFIFO merges the changes of one key to at most two deltas. A consumer that applies them reaches the same state. A
//     deletion is never merged with the creation that follows it.
//  7. With KnownObjects in [DeltaFIFOConfig], a DeltaFIFO reports the deletion of every key, even if the source's watch missed
//     it: [DeltaFIFO.Replace] compares the list with the known keys, the waiting keys, and the key being processed. It does not report the
//     deletion of a key that the consumer does not know, such as that of an object created and deleted before the consumer saw it. With
//     Equal, it does not report listed objects that are equal to the known ones, unless something else happened to their keys.
//  8. Every change up to [DeltaFIFO.Version] has been processed without an error, or needs no processing.
//  9. Memory use follows the number of objects: maps and lists shrink as they empty.
//
// # Testing
//
// [DeltaFIFO.TryPop] is Pop without waiting. Nothing in this package depends on time.
package cache
