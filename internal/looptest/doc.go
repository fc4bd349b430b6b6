// Package looptest has the common parts of the tests of loops: it runs a loop, records events, and finds goroutines that are left.
//
// # Guarantees
//
//  1. A loop that was started has ended when its test is over.
//  2. A [MemoryDir] is removed when its test is over.
//  3. [Stacks] has only the goroutines of the caller's bubble.
//  4. [Started] counts only goroutines that the caller's goroutine, or one that it has started, has started.
package looptest
