// Package step drives the systems of a simulation in steps: it steps their informers and controllers, in one goroutine. It is for
// package simtest.
//
// # Guarantees
//
//  1. Every cache reads what it may before a key is reconciled, and one key is reconciled at a time.
//  2. Only a part in the background has goroutines of its own, and each of its calls waits for its turn.
package step
