// Package state has the objects of a simulation as text, and the differences between two states. It is for package simtest.
//
// # Guarantees
//
//  1. The text of an object contains nothing that differs from run to run: no version, no UID, and no time.
//  2. Differences are in the order of the names of the objects.
package state
