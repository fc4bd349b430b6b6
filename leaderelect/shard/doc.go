// Package shard divides keys among replicas, for work that is too much for one process. Each key belongs to one of a fixed
// number of slots. Each slot is a lease with the guarantees of package leaderelect.
//
// # Usage
//
//	slots, err := shard.New(shard.Config{
//		Lease: leaderelect.Config{Store: leases, Key: "shop-orders"},
//		OnAcquired: func(ctx context.Context, slot int) error {
//			return enqueueKeysOf(slot)
//		},
//	})
//	...
//	go func() { ended <- slots.Run(ctx) }()
//	...
//	work, done, ok := slots.Begin(ctx, key)
//	if ok {
//		err = reconcile(work, key) // each write to a store.Store carries the term of the slot
//		done()
//	}
//
// # How slots move
//
// Each replica also holds a membership, which is one more lease. All replicas read the members and the owners, and
// compute the same plan. A replica that owns too many slots drains one and hands it over. No replica takes a slot that
// another one leads.
//
//	replica joins                replica leaves, or dies
//	      │                            │
//	      ▼                            ▼
//	becomes a member             its membership is released, or expires
//	      │                            │
//	      └───────────► plan ◄─────────┘
//	                     │
//	      ┌──────────────┴───────────────┐
//	      ▼                              ▼
//	owns one slot too many         gets a slot by the plan
//	      │                              │
//	revoke: no new work            waits until it is free
//	      │                              │
//	drain: work in flight ends           │
//	      │                              │
//	release, to the new owner ─────► acquire: Prepare, OnAcquired, a new term
//
// # Guarantees
//
//  1. Each slot has the guarantees of a leaderelect.Elector: at most one replica works on its keys, and each owner has a
//     greater term than the one before.
//  2. A replica takes a slot only if the slot is free. Work in it begins after Config.Prepare has returned nil. It releases a slot after all work that was begun in it has ended.
//  3. If nothing else changes, eventually every slot has an owner, and the numbers of slots per replica differ by at most
//     one.
//  4. A replica that joins moves only the slots that it gets. A replica that leaves moves only the slots that it had, and
//     at most one more for each replica that stays.
//  5. A replica that cannot acquire a slot leaves it to others. The slot has an owner as long as one replica can own it.
//  6. The slot of a key depends only on the key and the number of slots ([Slots.HashRange]). A replica with another number does not run: see
//     leaderelect.ErrMismatch.
//
// docs/leaderelection.md has the costs, and explains how to change the number of slots.
//
// # Shutdown
//
// Cancel the context of Run. The slots drain and are released. Run returns nil after all its goroutines have ended. If
// calls of the store hang, the error wraps leaderelect.ErrStoreStuck.
//
// # Testing
//
// Slots run in a testing/synctest bubble, with one store of package memlease for all replicas.
package shard
