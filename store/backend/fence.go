package backend

import (
	"errors"
	"fmt"

	"github.com/setpoint-go/setpoint/informer"
)

var (
	// ErrExpired ends a watch that no longer knows what has changed. It is informer.ErrExpired.
	ErrExpired = informer.ErrExpired

	// ErrFenced is what a [FencedError] wraps.
	ErrFenced = fmt.Errorf("%w", fencedError{})

	// ErrTooLarge reports that a record is larger than the backend allows. Nothing was written.
	ErrTooLarge = errors.New("the record is too large")
)

// fencedError has a method that controllers and queues call: they need not import a store.
type fencedError struct{}

func (fencedError) Error() string { return "a later term has written" }
func (fencedError) Fenced() bool  { return true }

// Fence is the term in which a leader writes, and the lease that the term belongs to. Terms of different leases are unrelated. A backend
// records terms up to 1<<63 - 1. It records a greater one too, or returns an error that does not wrap [ErrFenced].
type Fence struct {
	Lease string
	Term  uint64
}

// Check returns a [*FencedError] if a greater term than that of f was recorded. Zero means that the lease has no recorded term.
func (f Fence) Check(recorded uint64) error {
	if f.Term < recorded {
		return &FencedError{Fence: f, Have: recorded}
	}
	return nil
}

// FencedError is the error of a write in a term that is over.
type FencedError struct {
	Fence Fence  // of the write
	Have  uint64 // the term that was recorded
}

// Error returns "a later term has written: term 6 of lease "shop" is over, 7 has written".
func (e *FencedError) Error() string {
	return fmt.Sprintf("%v: term %d of lease %q is over, %d has written", ErrFenced, e.Fence.Term, e.Fence.Lease, e.Have)
}

// Unwrap returns [ErrFenced].
func (e *FencedError) Unwrap() error { return ErrFenced }
