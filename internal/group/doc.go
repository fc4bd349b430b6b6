// Package group implements group commit: requests that arrive during a commit wait, and are then committed together. Databases whose
// writers take turns use it, so that the writers of a process share a turn, and one flush of the disk.
//
// # Guarantees
//
//  1. A request is run at most once, and [Commit.Do] returns nil only after the run.
//  2. One turn runs at a time. It takes all requests that wait when it has begun, up to Limit, in the order of their arrival.
//  3. A request whose context ends before its turn is never run. If it ends during the turn, Do returns at once, and the request may or
//     may not have been run. The context of a turn ends when the contexts of all its requests have ended. What Begin
//     has returned is bound to that context too, and not to the context of a request.
//  4. If a turn lasts longer than Patience, the next one begins without waiting for it.
package group
