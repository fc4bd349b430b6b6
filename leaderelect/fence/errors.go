package fence

import "fmt"

// ErrStale means that a greater term was seen before: another leader has taken over.
var ErrStale = fmt.Errorf("%w", staleError{})

// StaleError is the error of work in a term that is over. It wraps [ErrStale].
type StaleError struct {
	Lease string // of the term; empty if the guard does not know it
	Term  uint64 // of the work
	Have  uint64 // the greatest term that was seen
}

// Error returns "fence: term 6 after term 7: term is stale", with the lease if that is known.
func (e *StaleError) Error() string {
	if e.Lease == "" {
		return fmt.Sprintf("fence: term %d after term %d: %v", e.Term, e.Have, ErrStale)
	}
	return fmt.Sprintf("fence: lease %q: term %d after term %d: %v", e.Lease, e.Term, e.Have, ErrStale)
}

// Unwrap returns [ErrStale].
func (e *StaleError) Unwrap() error { return ErrStale }

// Fenced makes a controller give up: trying again cannot help.
func (e *StaleError) Fenced() bool { return true }

// staleError is the error that [ErrStale] wraps.
type staleError struct{}

func (staleError) Error() string { return "term is stale" }

// Fenced makes a controller give up: trying again cannot help.
func (staleError) Fenced() bool { return true }
