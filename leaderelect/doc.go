// Package leaderelect elects one leader among many processes, with a lease in any store that supports compare-and-swap.
//
// It has the names and the defaults of client-go (https://pkg.go.dev/k8s.io/client-go/tools/leaderelection). It differs when something
// fails: there is one leader at a time, and the process survives the loss of a lease. Each leadership has a term, with which a store
// refuses writes of earlier leaders.
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
//			return work(ctx) // until ctx ends; send l.Term() with every write
//		},
//	})
//	...
//	err = elector.Run(ctx) // until ctx ends; competes again after a loss
//
// A [LeaseStore] has three methods. Packages sqllease, redislease, storelease, filelease and memlease implement it, so does
// Leases of store/etcd, and package leasetest tests your own. Package fence is for services that leaders call, and
// packages fencehttp and fencegrpc are for both ends of such calls. Package shard shares keys among replicas.
//
// docs/leaderelection.md explains why the guarantees hold, what loses a lease, how long a failover takes, and what an
// election costs.
//
// # Guarantees
//
//  1. At most one elector of a record runs its work at a time. For that, the work must return within StepDownTimeout,
//     clocks must differ in speed by at most MaxClockRateSkew, and the store must keep the contract of [LeaseStore].
//  2. The contexts of a leadership end RenewDeadline after the leader sent its last acknowledged renewal. This does not
//     depend on the store, and a later reply changes nothing. [Leadership.Err] is right even if the timer is late.
//  3. A leader that sees another leader in the record stops at once.
//  4. Every leadership has a greater term than the one before: by one, or the [Entry.Floor] if the record was deleted. If a
//     store loses terms, electors wait for a lease and continue after the greatest term that they have seen. After the last
//     term, 2^64-1 (in SQL 2^63-1), no elector leads.
//  5. After the caller cancels, the elector renews the lease until the work has returned or DrainTimeout has passed. It
//     releases the lease after OnStoppedLeading, and replaces only a record that it wrote itself.
//  6. A write without a clear reply counts as neither done nor failed, even if the store panics. The elector reads the
//     record, which names the request that wrote it.
//  7. Electors with the same Identity compete like any others, because each has a random incarnation.
//  8. Each OnStartedLeading is followed by one OnStoppedLeading in the same term, and they never overlap. A panic in a
//     callback, a hook, or Rand is captured. A panic in the work ends the term.
//  9. An elector competes again only after its work has returned. Work that returns in time, with its OnStoppedLeading, is
//     never reported as an overrun.
//  10. A watch ([Watcher]) makes an elector faster and changes nothing else. Events may be late, lost, or repeated.
//  11. [Sessions] make an elector faster and change nothing else, unless Config.Fenced is set. With Fenced, a leader that
//     loses its session may be replaced while it still works. Then the term decides whose writes count.
//
// # Limits
//
// A process can be suspended between the moment it asks whether it leads and the moment it acts. No lease prevents that
// (https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html). Send [Leadership.Term] with every action,
// and let the receiver refuse lower terms. A store.Store, the guards of sqllease and redislease, and package fence do that.
//
// # Shutdown
//
// Cancel the context of Run. The context of the work ends, the work returns, OnStoppedLeading is called, the lease is
// released if ReleaseOnCancel is set, and Run returns nil. No goroutine of the elector is left, except those that Run
// reports with [ErrStoreStuck].
//
// # Testing
//
// Electors run in a testing/synctest bubble, where a lease of 15s takes no time. Give all electors of a test one store of
// package memlease, and set Config.Rand to a function that returns a constant.
package leaderelect
