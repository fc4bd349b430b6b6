// Package fault has the faults of a simulation, and plans of them, with their text. It is for package simtest, whose documentation
// says what each fault does.
//
// # Guarantees
//
//  1. [Parse] returns the plan whose text [Plan.String] has made.
//  2. An error of [Parse] names the fault that cannot be read.
package fault
