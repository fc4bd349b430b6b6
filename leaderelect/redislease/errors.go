package redislease

import "errors"

// ErrFenced says that the record of the lease does not have the term of the writer: another has taken over, or the record
// is gone. The writer must not try again.
var ErrFenced error = fencedError{}

var errNoLeadership = errors.New("the context belongs to no leadership")

// fencedError is the type of [ErrFenced].
type fencedError struct{}

func (fencedError) Error() string { return "redislease: term is over" }

// Fenced tells a controller not to try again.
func (fencedError) Fenced() bool { return true }
