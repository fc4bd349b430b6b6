// Package sim runs a world under a plan, once: it starts processes, lets them act one at a time, does what the faults of the plan say,
// and notes what happens. It is for package simtest. How the parts of a process are driven is up to a [Driver].
//
// # Guarantees
//
//  1. One goroutine at a time acts: that of the run, or that of the call that the run waits for.
//  2. Each fault of the plan happens at most once.
//  3. A process that has ended does nothing: its next call ends the goroutine (runtime.Goexit).
//  4. Faults end: when nothing else is left to do, caches catch up and processes that are down come back.
//  5. [Play] returns when all goroutines of the run have ended.
package sim
