// Package sitetest has helpers for the tests of informers and of polled sources.
//
// # Guarantees
//
//  1. An informer that was started has ended when its test is over, without an error.
//  2. The returned events or errors are all that there are when every goroutine of the bubble is blocked.
package sitetest
