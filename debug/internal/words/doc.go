// Package words turns values into the text that the pages of package debug show. It does not escape HTML, which the templates do.
//
// # Guarantees
//
//  1. The text of [Visible] and [Short] prints: whatever does not, or changes the direction of the text, is escaped as in a Go string.
//  2. A [Span] has at most two units, and is never negative.
package words
