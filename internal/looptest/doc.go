// Package looptest has what the tests of loops have in common: it runs a loop, writes down what happens, and finds goroutines
// that are left.
//
// # Guarantees
//
//  1. A loop that was started has ended when its test is over.
//  2. [Stacks] has the goroutines of the caller's bubble, and of no other test.
package looptest
