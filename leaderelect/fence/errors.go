package fence

import (
	"errors"
	"fmt"
)

// ErrStale says that the term is less than one that was seen before: another leads.
var ErrStale = errors.New("fence: term is stale")

func stale(term, highest uint64) error {
	return fmt.Errorf("fence: term %d after term %d: %w", term, highest, ErrStale)
}
