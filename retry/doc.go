// Package retry calls a function again after it has failed.
//
// # Usage
//
//	Do          retry as a Config says
//	DoValue     the same, for a function that returns a value
//	OnError     retry some errors, with a backoff
//	OnConflict  retry optimistic writes: read, change, write, and start over if another writer was faster
//
// The error that the function returns says what happens next:
//
//	Permanent(err)   it failed, and is not retried
//	After(err, d)    it failed, and is retried after d
//	err              it failed, and is retried after a backoff
//	NotYet(err, d)   it did not fail, but is not finished, and continues after d
//
// These errors mean the same to [Do], to a controller, and to the method Run of a workqueue. A reconcile can return them from any depth,
// through helpers that know nothing about a controller. Only [Do] counts an unfinished attempt as a step, so that it ends eventually. If
// errors are joined, a permanent error takes precedence, then a failure, then a conflict, then an unfinished attempt. [Do] does not
// distinguish a conflict from a failure.
//
// Your own error types work the same way if they have a method Conflict() bool or RetryAfter() time.Duration. So a store need not import
// this package, and this package need not import a store.
//
// Backoffs are those of package wait. [DefaultRetry] and [DefaultBackoff] return the two that client-go uses.
//
// # Guarantees
//
//  1. The context is checked before each attempt, including the first: if it has ended, the function is not called. The end of the context
//     also ends a wait at once, even one that an error requested.
//  2. If the attempts end because the context ended, the result wraps the context's Err and its Cause. It also wraps the
//     error of the last attempt, and no older error. The result is nil only if the function returned nil.
//  3. With Steps n, the function is called at most n times, with n-1 waits in between. Reaching Cap does not end the attempts.
//  4. Attempts run one after the other, on the goroutine of the caller. No goroutine is started, and nothing is kept between
//     calls.
//  5. Panics are not recovered.
//
// # Testing
//
// All time comes from package time, so it is fake in a testing/synctest bubble. Jitter comes from Backoff.Rand.
package retry
