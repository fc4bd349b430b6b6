// Package written tells whoever waits for it which versions the writes under a context have made. It is how a controller knows
// what its caches must show before it reconciles a key again: the store tells, and the context of a reconcile listens.
//
// # Guarantees
//
//  1. Without a listener, Tell looks at the context and does nothing else.
package written
