package sqllease

import (
	"errors"
	"fmt"
)

var (
	// ErrFenced says that the record of the lease does not have the term of the writer: another has taken over, or the
	// record is gone. The writer must not try again. Nothing of its transaction may be committed.
	ErrFenced = fmt.Errorf("sqllease: %w", fencedError{})

	errNoLeadership = errors.New("the context belongs to no leadership")
)

// fencedError is what [ErrFenced] wraps.
type fencedError struct{}

func (fencedError) Error() string { return "term is over" }

// Fenced tells a controller not to try again.
func (fencedError) Fenced() bool { return true }
