// Package outcome decides what the end of an attempt means, and when the next one comes. Package retry, the workers of package workqueue, and package controller ask
// it, so an error means the same to all of them. The public rules are in the documentation of package retry and of controller.Outcome.
//
// # Guarantees
//
//  1. Of never returns Failed for an error that a stop or a later leader has caused.
//  2. Of several errors that are joined, a permanent one takes precedence, then a failure, then a conflict, then an unfinished attempt.
//  3. A key waits 5 ms after a conflict, and twice as long after each further one in a row. After eight, further ones are failures. A conflict
//     that comes before the end of the wait after the last one changes nothing.
//  4. An unfinished key never waits past the Elapsed of its budget.
package outcome
