// Package leaderelect picks one leader among many processes, by a lease in any store that can compare and swap. It has
// the words and the defaults of Kubernetes' client-go, and differs from it in what happens when something goes wrong:
// https://pkg.go.dev/k8s.io/client-go/tools/leaderelection.
//
// # Usage
//
//	store, err := leaderelect.NewFileStore("/var/lib/shop/leases")
//	...
//	elector, err := leaderelect.New(leaderelect.Config{
//		Store:           store,
//		Key:             "shop-controller",
//		ReleaseOnCancel: true,
//		OnStartedLeading: func(ctx context.Context, l *leaderelect.Leadership) error {
//			return controller.Run(ctx) // until ctx ends; l.Term() goes with every write
//		},
//	})
//	...
//	err = elector.Run(ctx) // until ctx ends; leads again after a loss
//
// A [LeaseStore] is three methods. [MemoryStore] serves tests, and [FileStore] the processes of one host; the packages
// below this one have those on databases. Package leasetest tests those of others. Package fence is for services that
// leaders call.
//
// [Slots] is for work that one process cannot do alone: keys are shared among replicas, by many leases of this kind.
//
// # The trust window
//
// The record names the holder and how long its lease lasts, but no time that anybody goes by. A leader renews it every
// RetryPeriod. Each side counts from a moment of its own:
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
// The leader counts from before it sent a write that was acknowledged; a follower from after the reply that showed that
// write. The write was committed in between. So the follower's count starts later than the leader's, whatever the clocks
// show and however long messages take, and lasts longer, as long as clocks differ in speed by less than
// MaxClockRateSkew: (RenewDeadline + StepDownTimeout) * (1 + MaxClockRateSkew) <= LeaseDuration. The default is twenty
// percent: chrony, at its default maxslewrate, may speed one clock up and slow another down by 8.3%.
//
// And the follower takes over by replacing exactly the version that it has watched. If the leader has renewed without
// the follower seeing it, the version is another one and nothing happens. So reads that are old, lost or late can delay
// a change of leader, but never cause one. Every other state of a record follows the same rule:
//
//	what is seen                 what follows
//	a holder                     wait for its LeaseDuration without a change, then the next term
//	it was released              free at once, the next term
//	ourselves, in a term before  free at once, the next term: our work has returned
//	no record, nor ever one      free at once, term 1
//	no record any more           wait for a lease, then the next term
//	a record older than before   wait for a lease, then the term after the greatest that was seen
//	what no elector has written  wait for a lease, then the next term: also JSON of another tool, or an emptied holder
//	released in favor of one     free at once for it, for all others after four RetryPeriods
//	released by fenced work      free at once for fenced work, for all others after a lease
//
// # States
//
//	            free, and not staying out
//	follower ─────────────────────────────► claims ── acknowledged, or found ──► leads
//	   ▲  ▲                                    │        by reading               │  │
//	   │  └──────────── conflict ──────────────┘                                 │  │ expired, taken,
//	   │                                                                         │  │ store regressed
//	   │              caller cancels, Resign, HandOver, work returns             │  │
//	   │         ┌───────────────────────────────────────────────────────────────┘  ▼
//	   │         ▼                                                              steps down:
//	   │      drains: renews until the work has returned ──── lost ───────────► waits for the work,
//	   │         ▼                                                              writes nothing
//	   │      releases: a tombstone, in place of exactly its own record             │
//	   │         ▼                                                                  │
//	   └─────────┴──────────────────────────────────────────────────────────────────┘
//
// # Guarantees
//
//  1. At most one elector of a record runs its work at a time, provided that the work returns within StepDownTimeout,
//     clocks keep to MaxClockRateSkew, and the store keeps to the contract of [LeaseStore].
//  2. The contexts of a leadership end at RenewDeadline after its last good renewal was sent, by a timer that waits for no
//     call of the store. A reply that comes later changes nothing. [Leadership.Err] says so even if the timer is late.
//  3. A leader that sees the record in other hands stops at once.
//  4. The term grows with every leadership, by one for each that was claimed, or to the [Entry.Floor] of a record that was
//     created anew. A leader never goes back to a term, and a store that has forgotten some makes an elector wait for a
//     lease and then continue after the greatest it knows. After the last, 2^64-1, there is none, and nobody leads. In SQL the last is 2^63-1.
//  5. When the caller cancels, the lease is renewed until the work has returned (or DrainTimeout is over), and released
//     only after that and after OnStoppedLeading. A release replaces exactly the record that this elector has written.
//  6. A write without a clear reply is neither taken for a success nor for a failure: the record is read again, and each
//     record tells which request it comes from. A panic in the store is no clear reply either.
//  7. Two electors of one identity are two: each is told apart by a random incarnation. Identities are for people.
//  8. OnStartedLeading and OnStoppedLeading run one at a time, and each OnStartedLeading is followed by one OnStoppedLeading
//     in the same term. OnNewLeader runs beside them, one call at a time: if it hangs, only the end of Run waits for it.
//     OnStepDownOverrun runs beside all others. A panic in a callback, a hook or Rand is captured; in the work it ends
//     the term.
//  9. An elector does not compete again before its work has returned.
//  10. A watch ([Watcher]) makes everything faster and nothing else: an event that is late, lost or repeated changes
//     nothing of the above.
//  11. A [Sentinel] makes everything faster and nothing else, as a watch does, unless Config.FencedWork is true. Then the
//     first guarantee holds while marks end with their processes only. A leader that lives and has lost its mark may be
//     replaced before its lease is over; it goes on until a watch tells it so, or its next renewal does, or RenewDeadline.
//     Until then two work, and the term tells who is right. A lease is taken early only from a record that was read after
//     the mark that it names was seen gone, in place of exactly that record. A Sentinel that fails, hangs or has never held
//     a mark makes a follower wait for the lease, and changes nothing else of the above.
//
// [Slots] guarantee all of this for each slot. Beyond that: a slot is only taken when it is free, never from one that
// leads; it is released when all work that was begun in it has ended; when nothing has happened for a while, every slot is
// owned, and no replica owns two more than another; and a replica that joins or leaves moves no more slots than it gets
// or had.
//
// # Early takeover
//
// A lease says that a leader may live for as long as it lasts. That a process is dead can be known sooner, from what
// dies with it: a session of a database, a lock of a file. With Config.Sentinel each elector holds such a mark while it
// runs, and changes it after a release. So a follower that waits for its end knows of a release at once, as by a watch.
// And with Config.FencedWork it does not wait for the lease of a leader that is gone:
//
//	leader     ── holds a mark ── writes its name into the record, in the claim or at once ── is killed
//	                                                                                            │
//	follower   ── reads the record ── waits for the end of that mark ◄── the mark is gone ──────┘
//	                                             │
//	                                             └─► reads again ── the same mark ── replaces that record, with the next term
//	                                                      │
//	                                                      └──────── another, or none ── goes by the lease
//
// Whether a mark is gone is a hint: a connection can be cut while the leader lives. Such a leader says at once that it has
// lost its mark, by a renewal, and takes another one after a RetryPeriod, so it is replaced only if it cannot say so in
// time. If it is, its writes have to be refused. An elector takes over early once in a LeaseDuration at most, in case that
// a Sentinel is wrong about everything. One that ends without a release is taken over early, too; its work has returned.
//
// It costs no writes but one when a mark is taken late or is lost, and what the Sentinel takes for two calls that block.
//
// # What it cannot guarantee
//
// A process can be stopped between asking whether it leads and acting on the answer, and go on after another has taken
// over. No lease prevents that; only the receiver of the action can, by refusing terms that are less than the greatest it
// has seen: https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html. So send [Leadership.Term]
// along. Terms also help against what else is out of reach:
//
//   - Work that goes on after its lease is lost. OnStepDownOverrun reports it, and may end the process.
//   - A machine that sleeps: Go's clock stops with it (https://go.dev/issue/24595), and so do its timers. On Linux
//     [Leadership.Err] counts that time (CLOCK_BOOTTIME), and the contexts end at the next renewal, after at most
//     RetryPeriod. Elsewhere a leader that wakes up believes for so long that it still leads. A virtual machine that was
//     stopped or restored by its host while it led cannot know anywhere.
//   - A store that loses what it has acknowledged, or a record that is deleted by hand. Electors that have seen the
//     record wait for a lease, but one that is new cannot know, and takes over at once. The old leader notices at its
//     next renewal, or at once if it watches. Terms grow all the same if the backend has an [Entry.Floor].
//
// # What loses a lease
//
// A store that cannot be reached: with the defaults a leader survives every outage that is shorter than 7.5s (three quarters
// of RenewDeadline), and none of 10s. Replies that take longer than 2.5s (RequestTimeout). A process that is stopped for
// 10s. Somebody else writing the record. None of it ends the process: Run competes again when the work has returned.
//
// Fail-over takes, from the last good renewal of a leader that dies: LeaseDuration and 50ms if followers watch,
// otherwise up to 1.2 RetryPeriod more. So 13s to 15s after its death with the defaults, or to 17.5s. With a [Sentinel]
// it is what that takes to notice, one read and one write: milliseconds on an idle machine and less than a second on a
// loaded one, when the process dies and not its machine.
// After a release it takes two requests if followers watch, three and the end of a mark with a [Sentinel], otherwise up
// to 1.2 RetryPeriod. An elector whose own lease has expired takes the record back at once if nobody else has it. A new
// elector that finds the record of one that died long ago waits for a LeaseDuration as well, because it cannot know.
//
// # What it costs
//
// A leader writes once in a RetryPeriod. A follower reads as often, or never while it is told of renewals by a watch.
// With N [Slots] and M replicas there are N+M writes in a RetryPeriod, and each replica lists the N+M records once: 64
// slots and 3 replicas at 2s make 34 writes and 1.5 lists a second. A store that does 4,000 writes a second serves some
// thousands of slots. A replica has four goroutines for each slot, and two more for one that it owns.
//
// # Shutdown
//
// Cancel the context of Run. The work sees its context end, drains, returns; OnStoppedLeading is called; the lease is
// released if ReleaseOnCancel is set; its mark is let go; Run returns nil. Nothing of the elector runs then, with one
// exception that Run reports by [ErrStoreStuck].
//
// # Testing
//
// Everything works in a testing/synctest bubble, where a lease of 15s takes no time. Give electors of a test one
// [MemoryStore] to compete for, and set Config.Rand to a constant.
package leaderelect
