// Package wait has backoffs, loops, polls, and small helpers that run functions concurrently and wait for them. The other
// packages of this module build on it.
//
// # Usage
//
// Which function to pick:
//
//	Sleep                           pause for a time; a context can end the pause
//	For                             wait until a condition is true; the interval does not matter
//	PollUntilContextCancel          wait until a condition is true; try it at a fixed interval
//	PollUntilContextTimeout         the same, with a timeout
//	ExponentialBackoffWithContext   wait until a condition is true; try it a number of times, with growing delays
//	Until, JitterUntil              run a function repeatedly, with a pause between the end of a run and the next start
//	NonSlidingUntil                 run a function repeatedly, at a fixed interval from start to start
//	BackoffUntil                    run a function repeatedly, and less often while it fails
//	Group                           run functions concurrently, and join their errors
//	Parallelize                     run n pieces of work on some workers
//	SlowStart                       run n pieces of work: first one, then more and more, until a piece fails
//	Call                            run one function, and turn a panic into an error
//
// The context is always the first argument. The function to run is the last argument, and receives that context. To retry
// calls that may fail, see package retry.
//
// A [Sliding] loop measures its interval from the end of a run to the next start. A [NonSliding] loop measures it from start
// to start. With an interval of 10s and runs (###) of 3s, of which the third takes 14s:
//
//	            0         10        20        30        40        50
//	            |         |         |         |         |         |
//	Sliding     ###..........###..........##############..........##
//	NonSliding  ###.......###.......#################...###.......##
//	                                              ^ late, so at once; then back on the grid. Missed rounds become one.
//
// # Guarantees
//
//  1. If a context has ended, no function is called for it, not even once. A run that is due exactly at the deadline of the
//     context does not start. The exceptions are [Call] and [Group.Start]: they always run their function.
//  2. Every error that reports the end of a context wraps both the context's Err and its Cause. [Interrupted] recognizes
//     these errors, and also the timeout of a wait itself ([ErrTimeout]).
//  3. A loop or a poll never calls its function twice at the same time. [Parallelize] and [SlowStart] call each piece at
//     most once.
//  4. A panic in a function of the caller ends neither the process nor any other function. The panic is returned as a
//     [*PanicError] with its stack, and ends the loop in which it happened. It is never logged and never swallowed. The
//     exception is Backoff.Rand, whose panic reaches the caller.
//  5. A delay is never negative and never overflows, whatever the fields of its [Backoff] are. A Backoff has no state: the
//     loop counts.
//  6. [Group.Wait], [Parallelize], and [SlowStart] return after all goroutines that they started have ended. All other
//     functions run on the goroutine of their caller.
//
// # Shutdown
//
// Loops and polls end when their context ends. If a function is running then, they first wait until it returns; it has the
// same context. A loop returns nil, because it did what it was asked to do. A poll returns an error, because its condition
// was never true.
//
// # Testing
//
// All time comes from package time, so it is fake in a testing/synctest bubble. Jitter comes from Backoff.Rand, which a test
// can set to a constant.
package wait
