// Package retry calls a function again when it has failed.
//
// # Usage
//
//	Do          with everything that can be said about it, in a Config
//	DoValue     the same for a function that returns a value
//	OnError     some errors, with a backoff
//	OnConflict  lost races for an object: read, change, write, and again if somebody else was faster
//
// The function says by its error what happens next:
//
//	Permanent(err)   it failed, and nothing tries again
//	After(err, d)    it failed, and is tried again in d
//	err              it failed, and is tried again after a backoff
//	NotYet(err, d)   it did not fail, is not finished, and goes on in d
//
// These words mean the same to [Do], to a controller, and to a queue of events. A reconcile returns them through all its
// helpers, and none of these has to know about a controller. [Do] is the only one of the three that counts an unfinished
// attempt as a step, so that it ends. When errors are joined, a permanent one decides, then a failure, then an unfinished one.
//
// An error type of your own takes part with a method: Conflict() bool, RetryAfter() time.Duration. So a store need not know
// this package, nor this package a store.
//
// Backoffs are those of package wait. [DefaultRetry] and [DefaultBackoff] make the two that client-go made customary.
//
// # Guarantees
//
//  1. An ended context is noticed before each attempt, also the first: the function is not called for it. It ends a wait at
//     once, even one that an error asked for.
//  2. When the end of the context has ended the attempts, errors.Is finds the context's Err, its Cause and the error of the
//     last attempt; never nil, and never an older error in their place. Nil means that the function has returned nil.
//  3. With Steps n the function is called at most n times, with n-1 waits in between. Reaching Cap ends nothing.
//  4. Attempts come one after the other, on the goroutine of the caller. Nothing is started, nothing is kept between calls.
//  5. Panics pass through.
//
// # Testing
//
// Time is taken from package time, so that a test in a testing/synctest bubble decides it. Jitter is drawn from
// Backoff.Rand.
package retry
