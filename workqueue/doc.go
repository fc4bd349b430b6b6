// Package workqueue is the queue between the code that notices a change and the code that acts on it.
//
// A [Queue] holds keys, never objects or events: a key says "look at this again". If a key is added a hundred times before
// a worker takes it, the worker processes it once and sees the latest state. No addition is lost.
//
// # Usage
//
//	q, err := workqueue.New(workqueue.Config[string]{})
//	...
//	q.Add("berlin")
//	err = q.Run(ctx, 4, func(ctx context.Context, item workqueue.Item[string]) error {
//		return work(ctx, item.Key) // after an error, Run adds the key again with a backoff
//	})
//
// # Guarantees
//
// The documentation of [Queue] has the contract: a table of what each call does in each state of a key.
//
//  1. A ready key is in line once, however often it is added.
//  2. Keys leave first in, first out, unless priorities or groups say otherwise.
//  3. Between its dispatch and its Done, a key is not dispatched again.
//  4. If a key is added in that time, it becomes ready again after the Done, once.
//  5. No worker waits while a key may be dispatched. None may be between Pause and Resume.
//  6. A key has at most one wake-up and one backoff. Without AddOptions.Replace, the earliest of each kind counts. None
//     comes early, and they come in the order of their times.
//  7. Only Cancel, AddOptions.Replace, and a shutdown drop a wake-up. A backoff also ends when its key becomes ready or dirty or has spent its
//     budget, and with Forget. If the attempt that ended it early fails, the retry comes no later than that backoff would have ended.
//  8. After a shutdown, every ready key is still dispatched. Take and Run return only when no key can become ready anymore.
//     Drain returns nil only when no key is ready or in process. If the queue is paused, none of this holds for keys that are not in process.
//  9. A call has taken effect when it returns.
//  10. The queue frees the memory of a burst of keys.
//  11. No key waits forever behind higher priorities: see Config.Aging.
//  12. Groups take turns, and none exceeds Config.GroupLimit.
//  13. A failed key has a backoff, is ready or dirty, or is parked, at the latest with its Done. Only Cancel, Forget, DropParked, and a
//     shutdown end this.
//  14. One count of failures decides Item.Attempt, the budget, and the backoff. A failure before the end of the latest backoff does not
//     count: see AddRateLimited. So events, at any rate, neither lengthen the backoff nor spend the budget.
//  15. The timer and a shutdown hold the lock for a batch of keys at a time.
//  16. In Run, an error says what becomes of its key, as in a controller: the errors of package retry, and conflicts. A panic of work is a
//     failed attempt, and no panic of the caller's code ends a worker: see Run and [Config].
package workqueue
