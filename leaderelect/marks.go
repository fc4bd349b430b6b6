package leaderelect

import (
	"context"
	"errors"
	"fmt"
)

// errMarkHeld and errMarkLost are what MemoryStore.Hold returns.
var (
	errMarkHeld = errors.New("it is held")
	errMarkLost = errors.New("it was dropped")
)

// Hold makes the store a [Sentinel]: the mark is held until ctx ends, or [MemoryStore.DropMarks] is called.
func (s *MemoryStore) Hold(ctx context.Context, mark string, held func()) error {
	s.mu.Lock()
	if s.marks[mark] != nil {
		s.mu.Unlock()
		return fmt.Errorf("leaderelect: hold mark %q: %w", mark, errMarkHeld)
	}
	dropped := make(chan struct{})
	s.marks[mark] = dropped
	s.mu.Unlock()

	held()
	select {
	case <-dropped:
		return fmt.Errorf("leaderelect: hold mark %q: %w", mark, errMarkLost)
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.marks[mark] == dropped { // else it was dropped as well, and another may hold it
		s.dropLocked(mark)
	}
	return fmt.Errorf("leaderelect: hold mark %q: %w", mark, context.Cause(ctx))
}

// Gone returns when nobody holds the mark.
func (s *MemoryStore) Gone(ctx context.Context, mark string) error {
	s.mu.Lock()
	dropped := s.marks[mark]
	s.mu.Unlock()
	if dropped == nil {
		return nil
	}
	select {
	case <-dropped:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("leaderelect: wait for the end of mark %q: %w", mark, context.Cause(ctx))
	}
}

// DropMarks ends all marks that are held, as a server does that cuts all connections.
func (s *MemoryStore) DropMarks() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for mark := range s.marks {
		s.dropLocked(mark)
	}
}

// dropLocked ends a mark, if it is held.
func (s *MemoryStore) dropLocked(mark string) {
	if dropped := s.marks[mark]; dropped != nil {
		delete(s.marks, mark)
		close(dropped)
	}
}
