// Package dbtest has the common parts of the tests of the databases behind package store, apart from the suites.
//
// # Guarantees
//
//  1. It uses only the public methods of a backend.
package dbtest
