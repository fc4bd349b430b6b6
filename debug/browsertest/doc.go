// Package browsertest opens the live page in a headless Chromium, for its tests and for the command screenshots, which takes the pictures
// of the documentation.
//
//	go test ./debug/browsertest                                           # every page, in light, dark, and on a phone
//	go run -trimpath ./debug/browsertest/screenshots -dir docs/screenshots   # the pictures
//
// It is a separate module, so that the tests of the library need no browser. It is for tests only. Without Chromium, a test is skipped or,
// if the environment variable CI is set, fails.
//
// # Guarantees
//
//  1. When [Browser.Close] returns, the process of the browser has ended, and its profile is deleted.
//  2. Every call that takes a context ends with it.
//  3. [Tab.Load], [Tab.Follow], and [Tab.Until] work on the current page, even while another page replaces it.
package browsertest
