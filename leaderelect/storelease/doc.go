// Package storelease keeps leases in any store.Store, beside the objects that the leader writes: it is a
// leaderelect.LeaseStore, a leaderelect.Watcher and a shard.Lister.
//
// # Usage
//
//	db, err := store.NewMemory(store.MemoryConfig{}) // or a backend of yours
//	records, err := store.Open[storelease.Record](db, "leases", store.Config[storelease.Record]{})
//	leases, err := storelease.New(records, storelease.Config{})
//	...
//	elector, err := leaderelect.New(leaderelect.Config{
//		Store: leases,
//		Key:   "shop-controller",
//		OnStartedLeading: func(ctx context.Context, l *leaderelect.Leadership) error {
//			...
//			_, err := apps.Update(ctx, app) // carries the term, by ctx
//
// # Guarantees
//
//  1. Each write is one write of the store: a Create, or an Update that compares the version.
//  2. Followers watch. A release, a takeover and a deletion are told as soon as the store tells them. A watch that the
//     store ends with informer.ErrExpired goes on from the record as it is.
//  3. Only the answers of the store that are definite become leaderelect.ErrConflict and ErrNotFound. After any other
//     error the outcome is unknown.
//  4. The floor of an entry is the version of its object, which is never less than a term that began before. So terms go
//     on to grow after a record was deleted by hand.
//  5. Once a takeover is acknowledged, the database refuses every write that carries an earlier term of the lease, on any
//     object of any kind. Writes under the context of a leader or a slot carry it by themselves. The name of the lease in
//     store.Fence is its key, so keys of leases in one database are unique, whatever the Prefix, or Config.Unfenced is set.
//
// # What it does not do
//
// The database does not check a write without a term. A lease whose key is not UTF-8, or contains NUL, fences nothing.
//
// The labels, owners and finalizers of an object that keeps a lease are removed with its next renewal.
//
// # What loses a lease
//
// A store that does not answer for RenewDeadline. What it has acknowledged is as durable as the store makes it: with
// store.Memory, nothing outlives the process. Fail-over takes LeaseDuration and up to 50ms; a release is taken up at
// once.
//
// # Shutdown
//
// The store starts no goroutine. A Watch runs in that of its consumer.
//
// # Testing
//
// store.NewMemory in a testing/synctest bubble.
package storelease
