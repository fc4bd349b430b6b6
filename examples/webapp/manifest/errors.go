package manifest

// Error is the problem of one file.
type Error struct {
	File  string // the name of the file, without its directory
	Field string // the field that is wrong; "" when it is the file as a whole
	Err   error
}

// Error returns "manifest: file: field: cause".
func (e *Error) Error() string {
	if e.Field == "" {
		return "manifest: " + e.File + ": " + e.Err.Error()
	}
	return "manifest: " + e.File + ": " + e.Field + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
