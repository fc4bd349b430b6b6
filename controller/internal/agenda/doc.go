// Package agenda has the keys that a controller is to reconcile, and what is known of each: those in its queue, and those that are
// held beside it, because they are paused, wait for expectations, or are left to the next Run. A worker takes a key from the queue
// and asks [Agenda.Admits]; whatever becomes of a key goes through the agenda.
//
// # Guarantees
//
//  1. Nothing is lost: a key is held before the worker gives it back to the queue, and it is added to the queue before it is
//     released. So at each moment it is in one of the two, or in both, and who counts both knows when there is nothing to do.
//  2. From [Agenda.Divert] to [Agenda.HandOver] no key becomes ready that was not: a key that is added, or comes back later, is left
//     to the next Run. It is left once, with the highest priority and the last reason that it was added with.
//  3. A key has at most [MaxCauses] causes. If there are more, the oldest and the newest ones are kept. A cause is kept once.
//  4. Without a pause, a drain, and expectations, [Agenda.Add] and [Agenda.Admits] cost a few atomic reads. A key without a cause
//     costs no memory. While no key has a cause, [Causes.Take] costs one atomic read.
package agenda
