// Package statustag finds the fields that the tag `store:"status"` marks. Package store needs them to write each part of a value
// alone, and package owner to compare what was asked for.
//
// # Guarantees
//
//  1. [Of] either finds a tag or refuses it: no tag is ignored.
//  2. [Fields.Set] changes the tagged fields and nothing else.
package statustag
