// Package streak remembers what happens to a key of a controller several times in a row, as far as it has to: conflicts, reconciles
// that do not finish, an attempt that a resync gives to a parked key, and reconciles that a newer event has ended. A [Budget] limits it.
//
// # Guarantees
//
//  1. [Book.End] forgets a key. A key to which nothing of this happens costs no memory, and as long as there is no such key, a
//     question costs one atomic read.
//  2. What [Flights.UnderWay] returns ends one reconcile, and no later one of the key. After [MaxSuperseded] in a row the next is
//     left in peace.
package streak
