// Package workqueue has the queue between code that notices a change and code that acts on it.
//
// A [Queue] holds keys, never objects or events: a key says "look at this again". A key that is added a hundred times
// before a worker takes it is worked on once, and the worker sees the latest state. A key that is added while it is in
// process comes back after that attempt. No addition is lost.
//
// # Usage
//
//	q, err := workqueue.New(workqueue.Config[string]{})
//	if err != nil {
//		return err
//	}
//
//	for { // a worker; start as many as you like
//		key, err := q.Next(ctx)
//		if err != nil {
//			return // the queue is shut down, or ctx has ended
//		}
//		if err := work(key); err != nil {
//			q.AddRateLimited(key) // again, after a backoff that grows
//		} else {
//			q.Forget(key) // the next backoff starts small
//		}
//		q.Done(key)
//	}
//
// [Queue.Run] is that loop, with as many workers as you like.
//
// # Guarantees
//
//  1. A ready key is in line once, however often it is added.
//  2. Ready keys are handed out first in, first out, unless priorities or groups are used.
//  3. Between its hand-out and its Done, a key is handed out to nobody else.
//  4. An Add between the hand-out of its key and the Done makes the key ready after the Done, once.
//  5. No worker waits while a key may be handed out.
//  6. A key has at most one wake-up and one backoff. Of several wake-ups the earliest counts, and of several backoffs the
//     earliest counts, unless a [Policy] says otherwise. None comes early. Those that are due together come in the order
//     of their times.
//  7. No Add, attempt, Forget or backoff drops a wake-up: the key becomes ready when the wake-up is due. A backoff ends when
//     its key becomes ready or dirty in another way, because that attempt is the one that it waits for, and with Forget.
//  8. After a shutdown every ready key is still handed out. [Queue.Next], [Queue.Take] and [Queue.Run] return only when no
//     key can become ready any more. [Queue.Drain] returns nil only when no key is ready or in process, however many
//     callers drain.
//  9. A call has taken effect when it returns. The only exception is the timer of wake-ups, backoffs and quiet times.
//  10. The queue gives back the memory that a burst of keys took.
//  11. A key of a higher priority r overtakes a ready key of priority p only if it became ready within (r-p) times
//     Config.Ageing after it. So no key waits forever. With groups this holds of the keys whose turn it is in their
//     priority. A key that is raised stands where it would if it had had that priority since it became ready.
//  12. Within a priority the groups that have keys to hand out take turns, and each hands out its own first in, first out.
//     No group has more keys in process than Config.GroupLimit.
//  13. Until a shutdown, a failure is never the last that is heard of a key. The key has a backoff, or it is ready or dirty
//     already, or it is parked. A parked key can be listed and retried, and an addition revives it. Only Cancel, Forget and
//     DropParked, which say so, end this.
//  14. The queue keeps one count of the failures of a key, and everything follows from it: NumRequeues, Item.Attempt, the
//     budget, and the backoff. When the count begins anew, Config.RateLimiter has been told to forget the key.
//  15. However many keys are due at one time, the timer holds the lock only for a batch of them.
//
// # The contract
//
// A key is in one of five states: absent (not in the queue), ready (in line), process (handed out, not Done), dirty (in
// process, and added again meanwhile) or parked (it has spent its budget). Beside its state it may have up to three
// deadlines:
//
//   - A wake-up, "d", from AddAfter, or from AddWith with After or At. In every state.
//   - A backoff, "b", from AddRateLimited, or from AddWith with RateLimited. Only while the key is absent or in process: a
//     key that is ready or dirty is about to be tried, and a parked key is not to be tried.
//   - A quiet time, from an Add with Config.Debounce; see below. Only while the key is absent, in process or parked.
//
// The first table has the calls and events that ask for an attempt.
//
//	state        Add          AddAfter(t)  AddRateLimited  wake-up due  backoff due  RetryParked
//	-----        ---          -----------  --------------  -----------  -----------  -----------
//	absent       ready        absent+d     absent+b        -            -            -
//	absent+d     ready+d      earlier of   absent+db       ready        -            -
//	absent+b     ready        absent+db    earlier of      -            ready        -
//	absent+db    ready+d      earlier of   earlier of      ready        ready+d      -
//	ready        -            ready+d      -               -            -            -
//	ready+d      -            earlier of   -               ready        -            -
//	process      dirty        process+d    process+b       -            -            -
//	process+d    dirty+d      earlier of   process+db      dirty        -            -
//	process+b    dirty        process+db   earlier of      -            dirty        -
//	process+db   dirty+d      earlier of   earlier of      dirty        dirty+d      -
//	dirty        -            dirty+d      -               -            -            -
//	dirty+d      -            earlier of   -               dirty        -            -
//	parked       ready        parked+d     -               -            -            ready
//	parked+d     ready+d      earlier of   -               ready        -            ready+d
//
// The second table has the others.
//
//	state        handed out   Done         Forget       Cancel       DropParked   ShutDown
//	-----        ----------   ----         ------       ------       ----------   --------
//	absent       -            reported     -            -            -            -
//	absent+d     -            reported     -            absent       -            absent
//	absent+b     -            reported     absent       absent       -            absent
//	absent+db    -            reported     absent+d     absent       -            absent
//	ready        process      reported     -            absent       -            -
//	ready+d      process+d    reported     -            absent       -            ready
//	process      -            absent       -            -            -            -
//	process+d    -            absent+d     -            process      -            process
//	process+b    -            absent+b     process      process      -            process
//	process+db   -            absent+db    process+d    process      -            process
//	dirty        -            ready        -            process      -            -
//	dirty+d      -            ready+d      -            process      -            dirty
//	parked       -            reported     -            -            absent       -
//	parked+d     -            reported     -            parked       absent+d     parked
//
// "-" is no change, or not possible. "earlier of" leaves the state and keeps the earlier of the two deadlines of that kind;
// the other values of [Policy] keep the later one, or the new one. A policy never compares a wake-up with a backoff.
//
// An AddAfter whose time is not positive, and an AddWith whose After is negative or whose At has passed, act at once: like
// the column Add, and without Debounce. A wake-up that stands is left as it is. An AddRateLimited whose delay is not positive
// acts at once too: an absent key becomes ready, one in process becomes dirty, and ready, dirty and parked keys stay as they
// are. After these calls, and after RetryParked, the key is ready or dirty before the call returns, even with Config.Debounce.
//
// After a shutdown Add, AddAfter, AddRateLimited, AddWith and RetryParked change nothing, and the two that answer answer
// false. All other calls are as in the tables.
//
// # Failures, backoffs and budgets
//
// Each AddRateLimited counts one failure, in every state but parked. So does an AddWith with RateLimited. The count is
// remembered while the key is in the queue, and for an hour after ("absent" may remember failures: see [Stats]). It goes back
// to zero
//
//   - with Forget, unless the key is parked,
//   - when a parked key is revived or dropped, or a key that is to be parked becomes ready instead,
//   - when the hour is over.
//
// The delay is the one that the AddWith brings, with After or At. If it brings none, it is [Backoff] of Config.RateLimiter,
// the key and the count, this failure included. Without a RateLimiter it is that of [DefaultControllerRateLimiter]. So a
// failure that brings its own delay makes the next backoff longer, as every other failure does. A limiter that is not of
// this package counts for itself. The queue calls its When once for each failure that brings no delay, and its Forget with
// each Forget, with each failure that spends the budget, and when the hour is over. It may also call Forget more often.
// So a key that is revived or retried has a whole budget and a small backoff, whatever the limiter.
//
// A failure spends the budget if it is number Config.MaxAttempts, or comes Config.MaxElapsed or more after the first one of
// the count. It schedules nothing, and ends a backoff that stands. AddWith answers false. A key that is absent is parked
// at once, one in process with its Done. If a key in process is dirty at its Done, it is not parked, but becomes ready with a
// count of zero. A ready key is not parked either: its count goes back to zero at once, since the attempt that comes was asked
// for by an addition. A Forget between the failure and the Done takes the failure back, so that the key is not parked.
// A wake-up stands in all these cases.
//
// # Debounce
//
// With Config.Debounce an Add, or an AddWith without After, At and RateLimited, of a key that is absent, in process or parked
// gives the key a quiet time: Debounce after the last such Add, and at most DebounceLimit after the first. When it is
// over, the key becomes what the column Add says. Until then the call changes neither the state nor the other deadlines.
// Ready and dirty keys are not debounced, nor is what has a delay of its own, not even one of zero: AddAfter(key, 0) acts at
// once. Whatever makes the key ready or dirty before ends the quiet time, because that is what the Adds wait for.
// Cancel ends it. A shutdown lets the Adds have their effect at once, in the order in which they would have been due.
// AddRateLimited, Forget, Done and DropParked leave it. A budget that is spent during the quiet time parks the key, and the end
// of the quiet time revives it.
//
// # Waiting
//
// An ended context takes no key, even if it ended during the call: Next and Take return its cause, also when the queue is
// shut down, and also when a key is ready. If it has not ended, they return a key as soon as one may be handed out, and
// [ErrShutDown] when the queue is shut down and no key is ready or dirty: then none can become ready any more. So while a key
// is dirty they wait for its Done. A goroutine that owes this Done itself asks for more keys with [Queue.TryGet].
// Get is client-go's: it answers true for shutdown as soon as the queue is shut down and no key is ready, even if one is dirty.
// A dispatcher, which runs the work in other goroutines, has to use Next or Take.
//
// The queue is idle when no key is ready, in process or in its quiet time. Wake-ups and backoffs do not count. WaitIdle and
// Drain return nil if the queue is idle when they are called, or becomes idle before they see the end of their context,
// even if both have happened when they look. Drain prefers nil to ErrShutDown, and that to the cause of its context.
//
// # Shutdown
//
// [Queue.ShutDown] ends the intake and returns. It drops wake-ups and backoffs, and ends quiet times as above. Parked keys and
// counts stay. [Queue.Drain] also waits until the queue is idle, and [Queue.ShutDownWithDrain] is a Drain without a time
// limit. A later call of ShutDown releases both: Drain returns ErrShutDown. A second Drain releases nobody. A queue that is no
// longer used needs no shutdown: it has no goroutine.
//
// # Workers
//
// Run takes an item, calls work, and calls Done. Before the Done it
//
//   - calls Forget if work returned nil;
//   - adds the key again, without counting a failure, if the context of Run has ended and work returned an error that
//     wraps its cause, or its Err: that is a graceful stop. The key keeps its count and its priority, is not debounced,
//     and is ready after the Done, for the next Run;
//   - counts a failure if work returned any other error, with the text as the reason, and logs the error;
//   - counts a failure in the same way if work called runtime.Goexit. Another worker takes the place of the one that ended.
//
// When ctx has ended, or Next would return ErrShutDown, Run waits for the calls of work that have not ended, and returns nil.
// It does not capture a panic of work: the process ends. It panics at the call if workers is not positive or work is nil.
//
// # client-go
//
// For the methods that client-go's workqueue has, its behavior is the model. The method sets are equal, so that a Queue takes
// the place of a client-go queue. It differs where client-go is at fault:
//
//   - A drain there does not wait for ready keys, returns before a dirty key was done, and lets only one of several
//     callers return (https://github.com/kubernetes/kubernetes/pull/141079).
//   - A Done too many there hands one key to two workers.
//   - A drained burst there keeps its memory.
//   - A backoff there fires even though the key was tried meanwhile (https://github.com/kubernetes/client-go/issues/131), and
//     an earlier backoff swallows a wake-up.
//
// # Testing
//
// A queue works in a bubble of testing/synctest, where its delays take no time. [Queue.TryGet] drives it without a
// goroutine. [Queue.WaitIdle] waits until all work is done.
package workqueue
