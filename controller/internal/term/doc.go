// Package term has the context of the work of a Run. A term of leadership bounds the work; the context of the Run does not.
//
// # Guarantees
//
//  1. The context that [Context] returns does not end with its parent. It ends when its stop is called, or when the leadership of
//     the parent is lost, and then it ends before the parent does.
//  2. It has the values of the parent. No goroutine forwards the cancellation.
//  3. [Err] checks the clock. So it detects that a deadline has passed even if no timer has fired yet.
package term
