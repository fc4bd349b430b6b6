package fence

import "sync"

// Register is a value that only the newest leader can change. The zero value holds a zero T of term 0 and is ready for
// use. A Register must not be copied after its first use. All methods may be called concurrently.
type Register[T any] struct {
	mu sync.Mutex
	// mu guards the following.
	highest uint64
	value   T
}

// Write replaces the value. If a greater term was seen, the error is a [*StaleError].
func (r *Register[T]) Write(term uint64, value T) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.raiseLocked(term); err != nil {
		return err
	}
	r.value = value
	return nil
}

// Read returns the value and bars all terms below term. So the value does not change unless this leader or a later one
// changes it. If a greater term was seen, the error is a [*StaleError].
func (r *Register[T]) Read(term uint64) (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.raiseLocked(term); err != nil {
		var zero T
		return zero, err
	}
	return r.value, nil
}

// Peek returns the value and the greatest term that was seen, for readers that do not lead.
func (r *Register[T]) Peek() (value T, term uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.value, r.highest
}

func (r *Register[T]) raiseLocked(term uint64) error {
	if term < r.highest {
		return &StaleError{Term: term, Have: r.highest}
	}
	r.highest = term
	return nil
}
