// Package fence lets a service refuse requests of earlier leaders. It remembers the greatest term that it has seen, and
// refuses lower ones. It complements package leaderelect: no lease can stop a leader that is suspended between asking
// whether it leads and sending a request, but the receiver can
// (https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html).
//
// # Usage
//
// A leader sends its term along (leaderelect.Leadership.Term), and the service passes each request through a [Guard]:
//
//	var guard fence.Guard // one for each lease; with shard.Slots one for each slot
//	...
//	err := guard.Do(ctx, term, func(ctx context.Context) error { return apply(ctx, request) })
//
// A [Register] guards a single value in the same way. Package fencehttp, and package fencegrpc in a module of its own, do both
// halves for you: they send the term along, and have a guard for each lease. A service that keeps its data in a store does
// not need a guard: the store compares the terms. See store.WithFence, and the guards of sqllease and redislease.
//
// # Guarantees
//
//  1. The terms of admitted work never decrease.
//  2. Work of a term begins only after all work of lower terms has ended. So two leaders never work at the same time,
//     whatever their clocks and networks do. If a leader is suspended in the middle of a request, its successor waits for
//     the request.
//  3. A term that was seen once bars all lower terms, even if its own work was canceled before it began.
//
// # More than one replica
//
// A Guard and a Register live in the memory of one process. If the receiver has two replicas, each has its own. An earlier
// leader can still write through the replica that has not seen the new term. Choose one of these:
//
//   - All replicas write to one store, and the store compares the terms: store.IfTerm, or the guards of sqllease and
//     redislease with the key and the term of the request. Then you need no Guard.
//   - Each key of the receiver belongs to one replica, and only that replica admits requests for the key.
//   - A new leader calls [Guard.Raise] on every replica, and begins after all have replied. It cannot begin while a
//     replica is unreachable. A replica that restarts has to be raised before it serves.
//
// # Restarts
//
// A guard is empty after a restart. If an earlier leader may still send requests, raise the guard first: to a term that the
// service has stored, or that it reads from the lease. A new leader bars its predecessors with its first request, or
// earlier with [Guard.Raise].
//
// # Testing
//
// Everything works in a testing/synctest bubble.
package fence
