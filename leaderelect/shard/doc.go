// Package shard shares keys among replicas: for work that one process cannot do alone. Each key belongs to one of a fixed
// number of slots, and each slot is a lease of its own, with the guarantees of package leaderelect.
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
// Each replica that takes part holds a second lease, its membership. From the members and the owners that it has read,
// each replica computes the same plan. A replica that owns too many slots drains one and hands it over. Nobody takes a
// slot that is led.
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
//	owns a slot too many           is to own a slot
//	      │                              │
//	revoke: no new work            waits until it is free
//	      │                              │
//	drain: work in flight ends           │
//	      │                              │
//	release, to the new owner ─────► acquire: OnAcquired, a new term
//
// # Guarantees
//
//  1. Each slot has the guarantees of a leaderelect.Elector: at most one replica works on its keys, in a term that grows
//     with each owner.
//  2. A slot is only taken when it is free, never from a replica that leads it. It is released when all work that was
//     begun in it has ended.
//  3. Eventually, when nothing happens, every slot has an owner, and no replica owns two more than another.
//  4. A replica that joins or leaves moves no more slots than it gets or had.
//  5. A replica that cannot acquire a slot leaves it to others. The slot has an owner as long as one replica can own it.
//  6. The slot of a key depends on the key and the number of slots alone. Replicas with another number do not run: see
//     leaderelect.ErrMismatch.
//
// # What it costs
//
// With N slots and M replicas there are N+M writes in a RetryPeriod, and each replica lists the N+M records once: 64 slots
// and 3 replicas at 2s make 34 writes and 1.5 lists a second. A store that does 4,000 writes a second serves some thousands
// of slots. A replica has four goroutines for each slot, and two more for one that it owns.
//
// # Shutdown
//
// Cancel the context of Run. The slots drain and are released, and Run returns nil when all its goroutines have ended, or
// an error that wraps leaderelect.ErrStoreStuck.
//
// # Testing
//
// Slots work in a testing/synctest bubble, with one store of package memlease for all replicas.
package shard
