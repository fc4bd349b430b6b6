// Package search tries plans on a world: those that once failed, every single fault, pairs, and random plans. It makes those that fail
// smaller. It is for package simtest.
//
// # Guarantees
//
//  1. The same seed tries the same plans in the same order, but for the number of random ones, which is a matter of time.
//  2. A failure that was shrunk fails in the same way as the first one of its sort.
//  3. A pair has two faults that fail under no rule alone.
package search
