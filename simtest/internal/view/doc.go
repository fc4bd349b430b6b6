// Package view decides what an informer of a simulation may receive: everything, nothing after some version, or, after a broken watch, a
// list. It is for package simtest.
//
// # Guarantees
//
//  1. A frozen view receives nothing that was committed after the version at which it froze.
//  2. A view that thaws receives everything again: each change in order, or a list if its watch breaks.
package view
