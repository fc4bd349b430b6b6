// Package servertest starts real servers for tests, and puts a network between them and their clients that fails when a
// test says so.
//
// # Guarantees
//
//  1. A server listens on a free port of this host, keeps its files in a temporary directory, and ends with its test, or at
//     the latest with the process of the test. An empty Postgres cluster stays there, which later tests copy.
//  2. A server whose command is an [OwnClock] has a wall clock of its own, which a test sets. This works for Go programs too; clocks
//     that measure durations stay right.
//  3. If a program is not installed, the test is skipped, and the reason says how to install it. If the environment
//     variable CI is set, the test fails instead.
package servertest
