package redislease

import "errors"

// ErrFenced says that the record of the lease does not have the term of the writer: another has taken over, or the record
// is gone. The writer must not try again.
var ErrFenced = errors.New("redislease: term is over")

var errNoLeadership = errors.New("the context belongs to no leadership")
