// Package dbtest has the common parts of the tests of the databases behind package store, apart from the suites: checks, benchmarks,
// sources that break a promise (see [Altered]), and processes that write while a test breaks something (see [Writers] and [Processes]).
//
// # Guarantees
//
//  1. It uses only the public methods of a backend, or of a source.
package dbtest
