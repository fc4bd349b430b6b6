package fence

import "fmt"

// ErrStale says that the term is less than one that was seen before: another leads.
var ErrStale = fmt.Errorf("fence: %w", staleError{})

func stale(term, highest uint64) error {
	return fmt.Errorf("fence: term %d after term %d: %w", term, highest, ErrStale)
}

// staleError is what [ErrStale] wraps.
type staleError struct{}

func (staleError) Error() string { return "term is stale" }

// Fenced tells a controller not to try again.
func (staleError) Fenced() bool { return true }
