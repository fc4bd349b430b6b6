// Package live drives the systems of a simulation with the real Run of a manager, the real election, and a graceful stop. It is for
// package simtest.
//
// # Guarantees
//
//  1. A reconcile, a call of a process, a watch, and a controller go on when the driver says so, one at a time.
//  2. A process is leader until the driver takes the lease away, and learns that it is not when the driver tells it.
package live
