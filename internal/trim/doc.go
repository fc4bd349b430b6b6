// Package trim makes a database in memory drop its history, for the tests of packages store and storetest.
//
// # Guarantees
//
//  1. After [History], a watch from before has expired, if the backend keeps no more changes of a kind than the given number.
//  2. The kind has the same live records as before.
package trim
