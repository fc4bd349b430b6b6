// Package sim runs a world under a plan, once: it starts processes, lets them act one at a time, applies the faults of the plan, and
// records what happens. It is for package simtest. A [Driver] runs the parts of a process.
//
// # Guarantees
//
//  1. One goroutine at a time acts: the goroutine of the run, or that of the call for which the run waits.
//  2. Each fault of the plan happens at most once.
//  3. A process that has ended does nothing: its next call ends the goroutine (runtime.Goexit).
//  4. Faults end: when nothing else is left to do, caches catch up and processes that are down come back.
//  5. Nothing is judged before each source that polls has listed the last change, and each reconcile in flight has returned, or
//     [Longest] has passed. Nor is it before all work that is due within the horizon has been done. The horizon begins with the last
//     commit, step of the user, news in a cache, fault, or end of a fault.
//  6. [Play] returns when all goroutines of the run have ended.
package sim
