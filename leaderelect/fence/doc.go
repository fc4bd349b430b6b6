// Package fence lets a service refuse leaders of the past: it remembers the greatest term that it has seen, and takes
// nothing of a lower one. It is the other half of package leaderelect, for services of one's own: no lease can stop a
// leader that was paused between asking whether it leads and sending a request; the receiver can
// (https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html).
//
// # Usage
//
// A leader sends the term along (leaderelect.Leadership.Term), and the service works through a [Gate]:
//
//	var gate fence.Gate // one for each lease; with shard.Slots one for each slot
//	...
//	err := gate.Do(ctx, term, func(ctx context.Context) error { return apply(ctx, request) })
//
// A [Register] is a value that is guarded in the same way. What keeps its data in a store has the store compare: see
// store.WithFence, and the recipes of the packages below leaderelect.
//
// # Guarantees
//
//  1. What was let in, was let in with terms that never decrease.
//  2. Work of a term begins when all work of lower terms has ended. So no two leaders work at a time, whatever their clocks
//     and networks do; and a leader that was paused in the middle of a request holds its successor up until it ends.
//  3. A term that has once been seen bars all lower ones, also if its own work was given up before it began.
//
// # More than one replica
//
// A Gate and a Register are in the memory of one process. If the receiver has two replicas, each has its own: a leader of
// the past can still write through the replica that has not seen the new term. Choose one of these:
//
//   - Both replicas write to one store, and the store compares the terms: store.IfTerm, or the guards of sqllease and
//     redislease with the key and the term of the request. Then a Gate is not needed.
//   - Each key of the receiver belongs to one replica, and only that one lets requests for the key in.
//   - A new leader calls [Gate.Raise] on every replica, and begins when all have answered. It cannot begin while one is
//     unreachable, and a replica that restarts has to be raised before it serves.
//
// # Restarts
//
// A gate forgets when the process ends. A service that restarts while a leader of the past may still be under way
// raises it to a term that it has kept, or reads from the lease. A new leader bars its predecessors with its first request;
// one that must not wait for it begins with [Gate.Raise].
//
// # Testing
//
// Everything works in a testing/synctest bubble.
package fence
