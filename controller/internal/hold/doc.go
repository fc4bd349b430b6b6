// Package hold has the keys of a controller that are to be reconciled and are not in its queue: those that are paused, those that
// wait for expectations, and those that a Run leaves to the next. [All] says for what, and for how long, a key waits.
//
// # Guarantees
//
//  1. Nothing is lost: a key is held before the worker gives it back to the queue, and it is added to the queue before it is
//     released. So at each moment it is in one of the two, or in both, and who counts both knows when there is nothing to do.
//  2. A key that is left to the next Run is left once, with the highest priority and the last reason that it was added with.
//  3. Without a pause and a drain, [Keys.Pausing] and [Keys.Diverting] cost one atomic read.
package hold
