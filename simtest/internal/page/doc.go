// Package page draws failures of a simulation as one HTML file that needs nothing else: no script, no font, no network. It is for
// package simtest.
//
// Each failure is a table of what happened, from the top to the bottom, next to an inline SVG with one lane for each system. The page
// follows the reader's choice of light and dark colors, and fits on a phone.
//
// # Guarantees
//
//  1. Every text of a [Page] is escaped: it is shown, and never interpreted.
//  2. The same Page gives the same bytes.
package page
