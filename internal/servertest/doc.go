// Package servertest starts real servers for tests, with a network between them and their clients that fails on demand.
//
// # Guarantees
//
//  1. A server listens on a free port of this host, and keeps its files in a temporary directory. It ends with its test, or at the
//     latest with the process of the test. The empty data of Postgres and MariaDB stay there, and later tests copy them.
//  2. A server whose command is an [OwnClock] has its own wall clock, which a test sets. This works for Go programs too. Clocks that
//     measure durations stay right.
//  3. If a program is not installed, the test is skipped, and the reason says how to install it. If the environment
//     variable CI is set, the test fails instead.
package servertest
