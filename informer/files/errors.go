package files

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"unicode"
)

// Error is the problem of a file or a directory. An object that it affects has it as the reason of [informer.Informer.Unread], and a file
// without known objects as one of [informer.List].Missing.
type Error struct {
	Path string // relative to the root, with slashes; "." is the root
	Err  error
}

// Error returns "files: path: cause". A path that could do things to a terminal is quoted.
func (e *Error) Error() string { return "files: " + quoted(e.Path) + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// quoted returns a path, in quotes if it has characters that cannot be printed.
func quoted(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(path)
	}
	return path
}

// cause returns why an operation on a file failed, without the path, which the caller names.
func cause(err error) error {
	if e := new(fs.PathError); errors.As(err, &e) {
		return e.Err
	}
	return err
}

var (
	errSlow     = errors.New("it cannot be read in time")
	errEmpty    = errors.New("the file is empty")
	errSpecial  = errors.New("it is not a regular file")
	errNoFiles  = errors.New("there are no files: is it mounted? Config.Empty permits that")
	errReplaced = errors.New("the directory was replaced while it was read")
)

// goesOn is an error after which a watch goes on: see [informer.ListWatcher].
type goesOn struct{ error }

func (e goesOn) Unwrap() error { return e.error }
func (goesOn) Continues() bool { return true }
