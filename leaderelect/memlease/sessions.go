package memlease

import (
	"context"
	"errors"
	"fmt"
)

// errHeld and errDropped are the reasons that Store.Hold returns.
var (
	errHeld    = errors.New("another call holds it")
	errDropped = errors.New("it was dropped")
)

// Hold implements [leaderelect.Sessions]. It holds the session until ctx ends or [Store.DropSessions] is called. If another call holds the
// session, Hold returns an error at once.
func (s *Store) Hold(ctx context.Context, name string, held func()) error {
	s.mu.Lock()
	if s.sessions[name] != nil {
		s.mu.Unlock()
		return fmt.Errorf("memlease: hold session %q: %w", name, errHeld)
	}
	dropped := make(chan struct{})
	s.sessions[name] = dropped
	s.mu.Unlock()

	held()
	select {
	case <-dropped:
		return fmt.Errorf("memlease: hold session %q: %w", name, errDropped)
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[name] == dropped { // otherwise it was dropped too, and another may hold it
		s.dropLocked(name)
	}
	return fmt.Errorf("memlease: hold session %q: %w", name, context.Cause(ctx))
}

// AwaitEnd blocks while the session is held.
func (s *Store) AwaitEnd(ctx context.Context, name string) error {
	s.mu.Lock()
	dropped := s.sessions[name]
	s.mu.Unlock()
	if dropped == nil {
		return nil
	}
	select {
	case <-dropped:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("memlease: wait for the end of session %q: %w", name, context.Cause(ctx))
	}
}

// DropSessions ends all sessions, like a server that cuts all connections.
func (s *Store) DropSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.sessions {
		s.dropLocked(name)
	}
}

// dropLocked ends a session, if it is held.
func (s *Store) dropLocked(name string) {
	if dropped := s.sessions[name]; dropped != nil {
		delete(s.sessions, name)
		close(dropped)
	}
}
