// Package sim runs a world under a plan, once: it starts processes, lets them act one at a time, applies the faults of the plan, and
// records what happens. It is for package simtest. A [Driver] runs the parts of a process.
//
// # Guarantees
//
//  1. One goroutine at a time acts: the goroutine of the run, or that of the call for which the run waits.
//  2. Each fault of the plan happens at most once.
//  3. A process that has ended does nothing: its next call ends the goroutine (runtime.Goexit).
//  4. Faults end: when nothing else is left to do, caches catch up and processes that are down come back.
//  5. [Play] returns when all goroutines of the run have ended.
package sim
