// Package rule has the rules that a simulation checks, and the meaning of breaking each. It is for package simtest.
//
// # Guarantees
//
//  1. Each rule has a severity and a meaning.
//  2. [All] is in the order in which a report names the rules.
package rule
