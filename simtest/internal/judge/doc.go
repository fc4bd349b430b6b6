// Package judge examines the state at the end of a run of a simulation, and reports the rule that it breaks. It is for package simtest.
//
// # Guarantees
//
//  1. An orphan, a finalizer, a second owner, and a lost write of the run without faults are not reported in another run.
//  2. The same two databases give the same verdict.
package judge
