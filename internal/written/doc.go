// Package written reports the versions of the writes under a context to a listener in that context. With it, a controller learns what its
// caches must show before it reconciles a key again: the store reports, and the context of a reconcile listens.
//
// # Guarantees
//
//  1. Without a listener, Tell reads the context and does nothing else.
package written
