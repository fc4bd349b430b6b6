// Package tally counts the reconciles of a controller.
//
// # Guarantees
//
//  1. No count ever decreases, and each reconcile counts for one outcome and one duration.
//  2. Counting takes no lock, and allocates nothing.
package tally
