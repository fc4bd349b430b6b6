package sqllease

import "errors"

var (
	// ErrFenced says that the record of the lease does not have the term of the writer: another has taken over, or the
	// record is gone. The writer must not try again. Nothing of its transaction may be committed.
	ErrFenced = errors.New("sqllease: term is over")

	errNoLeadership = errors.New("the context belongs to no leadership")
)
