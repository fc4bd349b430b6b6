// Package timeline notes what happens in a run of a simulation, and returns it as lines of text. It is for package simtest.
//
// # Guarantees
//
//  1. Lines are in the order in which things happened.
//  2. The text of a line is made when somebody reads it: most runs fail under no rule, and nobody reads theirs.
package timeline
