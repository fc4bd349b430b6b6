// Package group is a group commit: requests that arrive while others are committed wait, and are then committed together. Databases
// whose writers take turns use it, so that the writers of a process share a turn, and one flush of the disk.
//
// # Guarantees
//
//  1. A request is run at most once, and [Commit.Do] returns nil only after it was run.
//  2. One turn runs at a time. It takes all requests that wait when it has begun, up to Limit, in the order of their arrival.
//  3. A request whose context ends before its turn is never run. If it ends during the turn, Do returns at once, and the request may
//     have been run or not. The context of the turn ends when those of all its requests have.
//  4. A turn that lasts for longer than Patience holds up no other: the next one begins.
package group
