package redislease

import (
	"errors"
	"fmt"
)

// ErrFenced means that the record of the lease does not have the term of the writer. Another leader has taken over, or
// the record is missing. The writer must not try again.
var ErrFenced = fmt.Errorf("%w", fencedError{})

var errNoLeadership = errors.New("the context belongs to no leadership")

// fencedError is the error that [ErrFenced] wraps.
type fencedError struct{}

func (fencedError) Error() string { return "term is over" }

// Fenced makes a controller give up: trying again cannot help.
func (fencedError) Fenced() bool { return true }
