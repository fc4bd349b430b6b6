// Package corpus keeps plans in files, one in each, as go test keeps the inputs that fuzzing has found. It is for package simtest.
//
// A file has lines that begin with "#", which are comments, and the text of one plan.
//
// # Guarantees
//
//  1. Read returns what Write has written, in order of the names of the files.
//  2. Write changes no existing file: the name of a file is derived from the plan.
package corpus
