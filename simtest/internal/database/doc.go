// Package database is the database of a simulation: a log of commits in memory. It is for package simtest.
//
// # Guarantees
//
//  1. Version v is the state after the first v commits, and every version can be read.
//  2. A [Handle] shows the current state, and no fault hits it.
package database
