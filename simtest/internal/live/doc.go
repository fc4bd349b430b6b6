// Package live drives the systems of a simulation with the real Run of a manager, the real election, and a graceful stop. It is for
// package simtest.
//
// # Guarantees
//
//  1. Reconciles, calls of a process, watches, and controllers proceed when the driver says so, one at a time.
//  2. If the source of a cache polls, the cache shows every change that it may before the next reconcile, as in package step.
//  3. A process is the leader until the driver takes the lease away. It learns of that when the driver tells it.
package live
