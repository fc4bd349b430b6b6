// Package mutation shows a cache together with the writes of this process that the cache has not seen yet.
//
// # Usage
//
//	sites, err := informer.New(src, store.Key, informer.Config{})
//	own, err := mutation.New(sites, store.Key, version, mutation.Config{Version: cacheVersion})
//	...
//	written, err := src.Update(ctx, site)
//	own.Wrote(written)
//	site, ok := own.Get("berlin") // not older than written
//
// A [Cache] is a cache.Reader, and [ByIndex] returns a cache.IndexReader. So it can stand in for any cache that is only read. It
// corresponds to client-go's MutationCache.
//
// # Guarantees
//
//  1. Get returns the newer of the cached object and the last write of this process, while that write is remembered. It never
//     returns an object that is older than the cached one.
//  2. A deletion by this process is a write: while it is remembered, it hides the object until the cache shows a newer one.
//  3. All and [ByIndex] yield what Get returns, each key at most once.
//  4. At most [Config].Limit writes are remembered, each for at most [Config].TTL.
//
// # Testing
//
// A Cache reads the clock, which is fake in a testing/synctest bubble. Nothing else depends on time.
package mutation
