// Package fault has the faults of a simulation, and plans of them, with their text. It is for package simtest, whose documentation
// describes each fault.
//
// # Guarantees
//
//  1. [Parse] is the reverse of [Plan.String].
//  2. An error of [Parse] names the fault that cannot be read.
package fault
