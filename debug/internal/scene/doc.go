// Package scene is a program whose page shows every feature, for pictures of the page and for tests in a browser.
//
// # Guarantees
//
//  1. Of the sites, one is in flight, one is held, one is parked, and one has failed.
//  2. The program uses no network, and needs nothing to be installed.
package scene
