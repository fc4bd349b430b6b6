// Package statustag finds the fields with the tag `store:"status"`. Package store needs them to write the status and the rest of a value
// separately, and package owner needs them to compare only the rest.
//
// # Guarantees
//
//  1. [Of] either finds a tag or refuses it: no tag is ignored.
//  2. [Fields.Set] changes the tagged fields and nothing else.
package statustag
