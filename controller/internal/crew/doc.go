// Package crew has the workers of one Run of a controller. Their number can change while they work.
//
// # Guarantees
//
//  1. The number of workers is the one that was last requested, as soon as excess workers have finished their current work.
//  2. A worker that calls runtime.Goexit is replaced: its seat is never empty.
//  3. When [Crew.Wait] has returned after [Crew.Close], all workers have ended.
//  4. The cost of ending a worker does not depend on the number of workers.
package crew
