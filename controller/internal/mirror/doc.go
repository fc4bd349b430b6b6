// Package mirror tracks which informers of a controller mirror stores, and the versions that their caches must show before a key may be
// reconciled again: those that its last reconcile has written.
//
// # Guarantees
//
//  1. After [Mirrors.Wrote], the key waits until each cache that mirrors the kind shows the version. [Mirrors.CatchUp] checks a cache that
//     already shows it, or that is not followed.
//  2. No key waits for longer than [MaxBehind].
//  3. As long as nothing was written, the only cost is [Mirrors.Active], one atomic read.
package mirror
