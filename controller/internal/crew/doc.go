// Package crew has the workers of one Run of a controller. How many there are can change while they work.
//
// # Guarantees
//
//  1. There are as many workers as were asked for last, as soon as those that are too many have done what they do.
//  2. A worker that calls runtime.Goexit is replaced: its seat is never empty.
//  3. When [Crew.Wait] has returned after [Crew.Close], all workers have ended.
//  4. To end workers costs the same for each, however many there are.
package crew
