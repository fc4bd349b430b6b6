// Package streak counts what happens to a key of a controller several times in a row: conflicts, reconciles that do not finish, an attempt
// that a resync gives to a parked key, and reconciles that a newer event has ended. A [Budget] limits them.
//
// # Guarantees
//
//  1. [Book.End] forgets a key. A key without a streak costs no memory. While no key has a streak, a lookup costs one atomic read.
//  2. The function that [Flights.UnderWay] returns ends one reconcile, and no later one of the key. After [MaxSuperseded] in a row, the
//     next reconcile is not ended.
package streak
