// Package browser drives a headless Chromium, for tests and pictures of the page. It speaks the DevTools protocol over a pipe.
//
// # Guarantees
//
//  1. When [Browser.Close] returns, the process of the browser has ended, and its profile is deleted.
//  2. Every call ends with its context.
package browser
