// Package agenda has the keys that a controller must reconcile: those in its queue, and those that are held outside it, because they are
// paused, wait for expectations, or are left to the next Run. A worker takes a key from the queue and calls [Agenda.Admits]. Every change
// to the plan for a key goes through the agenda.
//
// # Guarantees
//
//  1. Nothing is lost: a key is held before the worker gives it back to the queue, and it is added to the queue before it is released. So
//     at each moment it is in one of the two, or in both, and counting both shows when there is nothing to do.
//  2. From [Agenda.Divert] to [Agenda.HandOver] no other key becomes ready: a key that is added, or comes back later, is left to the next
//     Run. It is left once, with the highest priority and the last reason of its adds.
//  3. A key has at most [MaxCauses] causes. If there are more, the oldest and the newest ones are kept. Equal causes are kept once.
//  4. Without a pause, a drain, and expectations, [Agenda.Add] and [Agenda.Admits] cost a few atomic reads. A key without a cause
//     costs no memory. While no key has a cause, [Causes.Take] costs one atomic read.
package agenda
