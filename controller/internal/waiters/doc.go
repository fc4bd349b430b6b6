// Package waiters has the callers that wait until a key of a controller is reconciled.
//
// # Guarantees
//
//  1. A waiter gets one answer, from the first decisive reconcile that began when the waiter was ready for it.
//  2. Without a waiter, [Keys.Begin] and [Keys.End] cost one atomic read.
package waiters
