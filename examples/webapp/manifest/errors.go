package manifest

import (
	"strconv"
	"strings"
	"unicode"
)

// Error is the problem of one file.
type Error struct {
	File  string // the name of the file, without its directory
	Field string // the wrong field; "" for the file as a whole
	Err   error
}

// Error returns "manifest: file: field: cause". A name that could do things to a terminal is quoted.
func (e *Error) Error() string {
	if e.Field == "" {
		return "manifest: " + quoted(e.File) + ": " + e.Err.Error()
	}
	return "manifest: " + quoted(e.File) + ": " + e.Field + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// quoted returns the name of a file, in quotes if it has characters that cannot be printed.
func quoted(file string) string {
	if strings.ContainsFunc(file, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(file)
	}
	return file
}
