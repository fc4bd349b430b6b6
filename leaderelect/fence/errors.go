package fence

import "fmt"

// ErrStale means that a greater term was seen before: another leader has taken over.
var ErrStale = fmt.Errorf("%w", staleError{})

func stale(term, highest uint64) error {
	return fmt.Errorf("fence: term %d after term %d: %w", term, highest, ErrStale)
}

// staleError is the error that [ErrStale] wraps.
type staleError struct{}

func (staleError) Error() string { return "term is stale" }

// Fenced tells a controller not to try again.
func (staleError) Fenced() bool { return true }
