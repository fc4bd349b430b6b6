// Package storelease keeps leases in any store.Store, next to the objects that the leader writes. It is a
// leaderelect.LeaseStore, a leaderelect.Watcher, and a shard.Lister.
//
// # Usage
//
//	db := store.NewMemory(store.MemoryConfig{}) // or your database
//	records, err := store.Open[storelease.Record](db, "leases", store.Config[storelease.Record]{})
//	leases := storelease.New(records, storelease.Config{})
//	...
//	elector, err := leaderelect.New(leaderelect.Config{
//		Store: leases,
//		Key:   "shop-controller",
//		OnStartedLeading: func(ctx context.Context, l *leaderelect.Leadership) error {
//			...
//			_, err := apps.Update(ctx, app) // ctx carries the term
//
// # Guarantees
//
//  1. Each write is one write of the store: a Create, or an Update that compares the version.
//  2. Followers watch. They see a release, a takeover, or a deletion as soon as the store reports it. If the store ends a
//     watch with informer.ErrExpired, the watch continues with the current record.
//  3. Only definite errors of the store become leaderelect.ErrConflict or ErrNotFound. After any other error, the outcome is
//     unknown.
//  4. The floor of an entry is the version of its object, which is never less than an earlier term. So terms also grow
//     after a record was deleted by hand.
//  5. After a takeover is acknowledged, the database refuses every write that carries an earlier term of the lease, on
//     any object of any kind. Writes under the context of a leader or a slot carry the term by themselves. The name of
//     the lease in store.Fence is its key. So the keys of leases must be unique in a database, whatever the Prefix,
//     unless Config.Unfenced is set.
//
// # Limits
//
// The database does not check a write without a term. A lease whose key is not UTF-8, or contains NUL, fences nothing.
//
// The Prefix and the key of a lease together have at most backend.MaxKey bytes. In the key, a percent sign, a NUL, and each byte that is not
// ASCII count three times. An elector with a longer key ends with store.ErrInvalid, which is marked with retry.Permanent.
//
// If the object of a lease does not decode, because it was edited by hand for example, no elector takes the lease until the
// object is deleted.
//
// A renewal removes the labels, owners, and finalizers of the object that keeps the lease.
//
// # What loses a lease
//
// A store that does not answer for RenewDeadline. Acknowledged writes are as durable as the store makes them: nothing in
// store.Memory survives the process. A failover takes LeaseDuration and up to 50ms. A follower takes a released lease at
// once.
//
// # Shutdown
//
// The store starts no goroutine. A Watch runs in the goroutine of its consumer.
//
// # Testing
//
// Use store.NewMemory in a testing/synctest bubble.
package storelease
