// Package view decides what an informer of a simulation may hear: everything, nothing since some version, or, after a broken watch,
// a list. It is for package simtest.
//
// # Guarantees
//
//  1. A view that is frozen hears nothing that was committed after the version at which it froze.
//  2. A view that thaws hears everything again: each change in its turn, or a list if its watch breaks.
package view
