// Package search tries plans on a world: earlier failures, every single fault, pairs, and random plans. It shrinks the plans that fail. It
// is for package simtest.
//
// # Guarantees
//
//  1. The same seed tries the same plans in the same order. Only the number of random plans depends on time.
//  2. A failure that was shrunk fails in the same way as the first one of its sort.
//  3. A pair has two faults that fail under no rule alone.
package search
