// Package wait holds what the other packages wait with: how long to wait between attempts ([Backoff]), loops that run
// until a context ends, polls that run until a condition is true, and functions that run beside each other and are
// waited for.
//
// # Usage
//
// Which function to pick:
//
//	Sleep                           a pause that a context can end
//	For                             until a condition is true; how often it is tried does not matter
//	PollUntilContextCancel          until a condition is true, tried at a fixed interval
//	PollUntilContextTimeout         the same, with a limit of its own
//	ExponentialBackoffWithContext   until a condition is true, tried less and less often, some number of times
//	Until, JitterUntil              again and again, a pause between the end of a run and the start of the next
//	NonSlidingUntil                 again and again, at a fixed interval from start to start
//	BackoffUntil                    again and again, slower while it fails
//	Group                           functions beside each other, joined at the end
//	Parallelize                     n pieces of work on some workers
//	SlowStart                       n pieces of work, one at first, then more and more until one fails
//	Call                            one function; a panic becomes an error
//
// Each comes in one form: the context is the first argument; the function to run is the last, and gets that context. For
// calls that may fail and deserve another attempt, see package retry.
//
// A loop whose interval is measured from end to start is [Sliding], one from start to start is [NonSliding]. With an
// interval of 10s and runs (###) of 3s, of which the third takes 14s:
//
//	            0         10        20        30        40        50
//	            |         |         |         |         |         |
//	Sliding     ###..........###..........##############..........##
//	NonSliding  ###.......###.......#################...###.......##
//	                                              ^ late, so at once; then back on the grid. Missed rounds become one.
//
// # Guarantees
//
//  1. A context that has ended is noticed first: nothing is run for it, not even once. What is due at the very moment
//     of the context's deadline has missed it.
//  2. Every error by which this package reports the end of a context wraps both the context's Err and its Cause.
//     [Interrupted] recognizes it, and a limit of the wait's own ([ErrTimeout]) too.
//  3. Functions of the caller run one at a time within a loop or a poll, and each piece of [Parallelize] and
//     [SlowStart] runs at most once.
//  4. A panic in a function of the caller ends neither the process nor a sibling. It is returned as a [*PanicError], with
//     its stack, and ends the loop in which it happened. It is not logged, and never swallowed.
//  5. A delay is never negative and never overflows, whatever the fields of its [Backoff]. A Backoff does not change with
//     use: a loop counts, the Backoff only answers.
//  6. What has started goroutines returns after they have ended: [Group.Wait], [Parallelize] and [SlowStart].
//     Everything else runs on the goroutine of its caller.
//
// # Shutdown
//
// Loops and polls end when their context ends, as soon as the function that is running returns: it is not abandoned,
// it has the same context to notice. The loops return nil then, because they have done what they were asked to do; the
// polls return an error, because the condition has not been seen.
//
// # Testing
//
// Time is taken from package time, so that a test in a testing/synctest bubble decides it. Jitter is drawn from
// Backoff.Rand, which a test sets to a constant.
package wait
