// Package depth keeps the depths of queues over the last five minutes, and draws them, for package debug.
//
// # Guarantees
//
//  1. [Samples] keeps at most 150 points of a queue, and none of a queue that the last round does not have.
//  2. A [Line] has a gap where samples are missing, and nothing that is older than five minutes.
package depth
