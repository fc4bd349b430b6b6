// Package leaderelect picks one leader among many processes, by a lease in any store that can compare and swap. It has
// the words and the defaults of Kubernetes' client-go, and differs from it when something goes wrong:
// https://pkg.go.dev/k8s.io/client-go/tools/leaderelection.
//
// # Usage
//
//	leases, err := sqllease.New(db, sqllease.Config{}) // leases in Postgres
//	...
//	elector, err := leaderelect.New(leaderelect.Config{
//		Store:           leases,
//		Key:             "shop-controller",
//		ReleaseOnCancel: true,
//		OnStartedLeading: func(ctx context.Context, l *leaderelect.Leadership) error {
//			return work(ctx) // until ctx ends; l.Term() goes with every write
//		},
//	})
//	...
//	err = elector.Run(ctx) // until ctx ends; leads again after a loss
//
// A [LeaseStore] has three methods. The packages below this one have some: sqllease on Postgres and SQLite, redislease,
// storelease on any store.Store, filelease for the processes of one host, and memlease for tests. Package leasetest tests
// your own. Package fence is for services that leaders call. Package shard shares keys among replicas, by many leases.
//
// # The trust window
//
// The record names the holder and the length of its lease. It has times too, but nothing is decided by them. The leader
// renews the record every RetryPeriod. Each side counts from a moment of its own:
//
//	          request  commit                        deadline                    work has returned
//	             │        │                             │                             │
//	leader    ───┼────────┼─────────────────────────────┼─────────────────────────────┼───────────────► time
//	             │◄──────── RenewDeadline: acts ───────►│◄─ StepDownTimeout: stops ──►│
//	             │        │
//	             │        └─► read ─► reply
//	             │                      │
//	follower  ───┼──────────────────────┼────────────────────────────────────────────────────────┼──► time
//	             │                      │◄────────── LeaseDuration: sees no change ─────────────►│ takes over
//	             │                                                                    │
//	             │◄────── LeaseDuration, on the fastest clock that is allowed ───────►│
//
// The leader counts from before it sent a write that was acknowledged. A follower counts from after the reply that showed
// that write. The store committed the write in between. So a follower starts to count later than the leader, whatever the
// clocks show and however long messages take. It also counts longer, as long as clocks differ in speed by less than
// MaxClockRateSkew: (RenewDeadline + StepDownTimeout) * (1 + MaxClockRateSkew) <= LeaseDuration. The default is twenty
// percent: chrony, at its default maxslewrate, may speed one clock up and slow another down by 8.3%.
//
// A follower takes over by replacing exactly the version that it has watched. If the leader has renewed and the follower
// has missed it, the version differs and the write fails. So a read that is stale, lost or late can delay a change of
// leader, and never causes one. docs/leaderelection.md has the states of an elector, what it does about every record that
// it may find, and how sessions make a takeover early.
//
// # Guarantees
//
//  1. At most one elector of a record runs its work at a time, provided that the work returns within StepDownTimeout,
//     clocks keep to MaxClockRateSkew, and the store keeps to the contract of [LeaseStore].
//  2. The contexts of a leadership end at RenewDeadline after its last good renewal was sent, by a timer that does not
//     depend on the store. A later reply changes nothing. [Leadership.Err] reports the end even if the timer is late.
//  3. A leader that sees the record in other hands stops at once.
//  4. The term grows with every leadership: by one, or to the [Entry.Floor] of a record that was deleted and created again.
//     A leader never goes back to a term. If a store has forgotten terms, electors wait for a lease and continue after the
//     greatest term that they know. After the last term, 2^64-1 (in SQL 2^63-1), nobody leads.
//  5. When the caller cancels, the elector renews the lease until the work has returned or DrainTimeout is over. It
//     releases the lease after that and after OnStoppedLeading, by replacing exactly the record that it has written.
//  6. A write without a clear reply is neither a success nor a failure: the elector reads the record again, and each
//     record names the request that wrote it. A panic in the store is no clear reply either.
//  7. Two electors with one identity are two: a random incarnation tells them apart. Identities are for people.
//  8. OnStartedLeading and OnStoppedLeading run one at a time, and one OnStoppedLeading follows each OnStartedLeading, in
//     the same term. OnNewLeader runs concurrently with them, one call at a time. If it hangs, only the end of Run waits
//     for it. OnStepDownOverrun runs concurrently with all others. A panic in a callback, a hook or Rand is captured; a
//     panic in the work ends the term.
//  9. An elector does not compete again before its work has returned. Work that has returned in time is no overrun.
//  10. A watch ([Watcher]) makes everything faster and changes nothing else: an event may be late, lost or repeated.
//  11. [Sessions] make everything faster and change nothing else, unless Config.Fenced is true. Then the first guarantee
//     holds as long as sessions end only with their processes. A leader that lives and has lost its session may be
//     replaced before its lease is over. It continues until a watch or its next renewal reports that, or until
//     RenewDeadline. Until then two leaders work, and the term decides whose writes count. A lease is taken early only
//     from a record that was read after the session in it was seen to end, in place of exactly that record. Sessions that
//     fail, hang or were never held make a follower wait for the lease.
//
// # What it cannot guarantee
//
// A process can be stopped between asking whether it leads and acting on the answer, and continue after another has taken
// over. No lease prevents that. Only the receiver of the action can, by refusing terms that are less than the greatest it
// has seen: https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html. So send [Leadership.Term] along.
// Terms also help in these cases:
//
//   - Work that continues after its lease is lost. OnStepDownOverrun reports it, and may end the process.
//   - A machine that is suspended: Go's clock stops with it (https://go.dev/issue/24595), and so do its timers. On Linux
//     [Leadership.Err] counts that time (CLOCK_BOOTTIME), and the contexts end at the next renewal, after at most
//     RetryPeriod. On other systems a leader that wakes up believes for as long that it still leads. A virtual machine
//     that its host has stopped or restored cannot know on any system.
//   - A store that loses what it has acknowledged, or a record that is deleted by hand. Electors that have seen the record
//     wait for a lease. A new elector cannot know, and takes over at once. The old leader notices at its next renewal, or
//     at once if it watches. Terms still grow if the backend has an [Entry.Floor].
//
// # What loses a lease
//
// A store that cannot be reached for three quarters of RenewDeadline: 7.5s with the defaults. Replies that take longer than
// RequestTimeout, 2.5s. A process that is stopped for RenewDeadline. Somebody else who writes the record. None of these
// ends the process: Run competes again when the work has returned.
//
// Failover takes up to 50ms more than LeaseDuration, from the last good renewal, if followers watch; otherwise up to 1.2
// RetryPeriod more. A release is taken up at once if followers watch or have [Sessions].
//
// # What it costs
//
// A leader writes once in a RetryPeriod. A follower reads as often, or never while a watch reports the renewals.
//
// # Shutdown
//
// Cancel the context of Run. The context of the work ends, the work drains and returns, OnStoppedLeading is called, the
// lease is released if ReleaseOnCancel is set, the session ends, and Run returns nil. Nothing of the elector runs then,
// with one exception, which Run reports by [ErrStoreStuck].
//
// # Testing
//
// Everything works in a testing/synctest bubble, where a lease of 15s takes no time. Give the electors of a test one store
// of package memlease, and set Config.Rand to a constant.
package leaderelect
