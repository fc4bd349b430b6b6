// Package timeline records what happens in a run of a simulation, and returns it as lines of text. It is for package simtest.
//
// # Guarantees
//
//  1. Lines are in the order in which things happened.
//  2. The text of a line is made when it is read. Most runs break no rule, and their text is never read.
package timeline
