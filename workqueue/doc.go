// Package workqueue has the queue between those who notice that something changed and those who do something about it.
//
// What waits in a [Queue] are keys, never objects or events: a key says "look at this again". So a key that was added a
// hundred times before a worker came to it is worked on once, and the worker sees the latest state. A key that is added
// while it is worked on comes back when that work is done. Nothing that was added is lost.
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
//  1. A key that is ready is in line once, however often it is added.
//  2. Keys that are ready are handed out first in, first out, unless priorities or groups are used.
//  3. Between Get and Done a key is handed out to nobody else.
//  4. An Add that comes after a Get of its key and before the Done makes the key ready after the Done, once.
//  5. A key that may be handed out does not wait while a worker waits.
//  6. Of several wake-ups of one key the earliest counts, unless a [Policy] says otherwise. A wake-up never comes early,
//     and wake-ups that are due together come in the order of their times.
//  7. A wake-up of AddAfter is not dropped by an Add or an attempt before it. A wake-up of AddRateLimited, or of any failure,
//     is dropped by an attempt before it, which is the attempt that it waited for.
//  8. After a shutdown everything that is ready is still handed out, and [Queue.Drain] returns nil only when nothing is
//     ready, in process or added while in process, however many drain.
//  9. A call has taken effect when it returns: no goroutine does anything later, but for the timer of what is scheduled.
//  10. The memory that a burst of keys took is given back when the burst is over.
//  11. A key of priority p that is ready is overtaken by keys of a higher priority r only if these became ready within
//     (r-p) times Config.Ageing after it. So no key waits for ever. With groups this holds of those keys whose turn it is
//     in their priority. A key that is raised stands where it would if it had had that priority since it became ready.
//  12. Within a priority the groups that have something to hand out take turns, and each hands out its own first in, first
//     out. No group has more keys in process than Config.GroupLimit.
//  13. Until a shutdown, a failure is never the last that is heard of a key: it is scheduled again, or it is parked, where
//     it can be listed and retried, and where an addition revives it.
//
// # The contract
//
// The states of a key, and what each call makes of them. "+d" is a key that has a wake-up of AddAfter scheduled as well,
// "+b" one that has a backoff of AddRateLimited.
//
//	state        Add          AddAfter(t)   AddRateLimited  handed out   Done         due          Cancel       ShutDown
//	-----        ---          -----------   --------------  ----------   ----         ---          ------       --------
//	absent       ready        absent+d      absent+b        -            reported     -            -            absent
//	absent+d     ready+d      earlier of    earlier of      -            reported     ready        absent       absent
//	absent+b     ready+b      earlier of    earlier of      -            reported     ready        absent       absent
//	ready        -            ready+d       ready+b         process      reported     -            absent       ready
//	ready+d      -            earlier of    earlier of      process+d    reported     ready        absent       ready
//	ready+b      -            earlier of    earlier of      process      reported     ready        absent       ready
//	process      dirty        process+d     process+b       -            absent       -            -            process
//	process+d    dirty+d      earlier of    earlier of      -            absent+d     dirty        process      process
//	process+b    dirty+b      earlier of    earlier of      -            absent+b     dirty        process      process
//	dirty        -            dirty+d       dirty+b         -            ready        -            process      dirty
//	dirty+d      -            earlier of    earlier of      -            ready+d      dirty        process      dirty
//	dirty+b      -            earlier of    earlier of      -            ready+b      dirty        process      dirty
//	parked       ready        parked+d      -               -            reported     -            -            parked
//	parked+d     ready+d      earlier of    -               -            reported     ready        parked       parked
//
// "-" is no change or not possible, "earlier of" keeps the earlier of the two wake-ups, of whichever kind it is; the other
// values of [Policy] keep the later one, or the new one. After a shutdown Add, AddAfter, AddRateLimited and AddWith change
// nothing; all else is as in the table. "absent" may remember failures: see [Stats]. A failure that brings its own delay, an
// AddWith with RateLimited and After or At, is an AddRateLimited whose delay the limiter is not asked for.
//
// An AddRateLimited that spends the budget of a key, which Config.MaxAttempts and Config.MaxElapsed limit, schedules
// nothing: the key is parked, after its Done if it is in process. If it is added before that it is not parked, and has a
// new budget. An AddRateLimited of a key that is ready and spends its budget gives it a new one: the attempt that comes was
// asked for by an addition.
//
// With Config.Debounce an Add of a key that is absent, in process or parked makes the key wait until its Adds are quiet,
// and has the effect that the table gives it then. Cancel takes it back, a shutdown lets it have its effect at once.
//
// For the methods that client-go's workqueue has, its behaviour is the model, and the method sets are equal, so that a
// Queue takes the place of a client-go queue. It differs where client-go is at fault: a drain there does not wait for
// keys that are ready, returns before a key that is dirty was done, and lets only one of several drainers return
// (https://github.com/kubernetes/kubernetes/pull/141079); a Done too many hands one key to two workers; a drained burst
// keeps its memory; and a backoff fires even though the key was tried meanwhile
// (https://github.com/kubernetes/client-go/issues/131).
//
// # Shutdown
//
// [Queue.ShutDown] ends the intake and returns. [Queue.Drain] also waits, with a time limit. Both drop the wake-ups that
// are scheduled. A queue that nobody uses any more needs no shutdown: it has no goroutine.
//
// # Testing
//
// A queue works in a bubble of testing/synctest, where its delays take no time. [Queue.TryGet] drives it without a
// goroutine, [Queue.WaitIdle] waits until all is done.
package workqueue
