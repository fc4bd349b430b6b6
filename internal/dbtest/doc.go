// Package dbtest has what the tests of the databases behind package store have in common, beside the suites.
//
// # Guarantees
//
//  1. What it returns and checks goes through the public methods of a backend alone.
package dbtest
