// Package judge looks at what a run of a simulation has left, and says which rule that breaks. It is for package simtest.
//
// # Guarantees
//
//  1. An orphan, a finalizer, a second owner, and a lost write of the run without faults are no news in another run.
//  2. The same two databases give the same verdict.
package judge
