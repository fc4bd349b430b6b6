// Package memlease keeps leases in the memory of one process: for tests, for examples, and for electors that share a
// process. A test can make it fail.
//
// # Usage
//
//	leases := memlease.New()
//	leases.Inject(memlease.Faults{After: loseEveryReply})
//	...
//	leases.Inject(memlease.Faults{}) // no faults
//
// # Guarantees
//
//  1. [Store] passes leasetest. It is also a leaderelect.Watcher, a shard.Lister, and a leaderelect.Sessions, and its
//     entries have a Floor.
//  2. A version is never used again, for any key, and a floor grows even when the record is deleted.
//  3. A call whose Before returns an error changes nothing. A call whose After returns an error has had its effect.
//  4. Without faults, no call blocks, except Watch, Hold, and AwaitEnd.
//  5. Watches do not fail, and report only changes that happened. A busy consumer may miss intermediate states, but never
//     the newest.
//
// Nothing survives the process.
//
// # Shutdown
//
// A store starts no goroutine and needs no Close.
//
// # Testing
//
// A store works in a testing/synctest bubble.
package memlease
