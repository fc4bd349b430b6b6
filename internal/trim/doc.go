// Package trim makes a database in memory forget its history, for the tests of packages store and storetest.
//
// # Guarantees
//
//  1. After [History], a watch from before it has expired, if the backend keeps no more changes of a kind than it was told.
//  2. The kind has the same live records as before.
package trim
