// Command screenshots takes pictures of the page, for the documentation. It needs Chromium.
//
//	go run ./debug/internal/screenshots -dir docs/pictures
//
// # Guarantees
//
//  1. Its browser has ended when it returns, also after an error.
package main
