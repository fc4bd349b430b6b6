// Package mirror knows which sources of a controller mirror stores, and what their caches have to show before a key may be
// reconciled again: the versions that its last reconcile has written.
//
// # Guarantees
//
//  1. After [Mirrors.Wrote], the key waits until each cache that mirrors the kind shows the version. A cache that shows it already,
//     or that nobody follows, is asked by [Mirrors.CatchUp].
//  2. No key waits for longer than [MaxBehind].
//  3. As long as nothing was written, nothing is asked: [Mirrors.Active] costs one atomic read.
package mirror
