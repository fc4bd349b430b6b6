// Package sitetest has what the tests of informers and of polled sources have in common.
//
// # Guarantees
//
//  1. An informer that was started has ended when its test is over, without an error.
//  2. What is returned of a watch or of errors is all that there is when nothing moves any more.
package sitetest
