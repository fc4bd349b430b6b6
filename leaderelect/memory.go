package leaderelect

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"
)

// MemoryStore is a [LeaseStore] within one process, for tests, examples, and electors that share a process. Nothing
// outlives it. It never blocks.
//
// All methods may be called by many goroutines at once.
type MemoryStore struct {
	mu sync.Mutex
	// mu guards the following.
	entries map[string]Entry
	writes  uint64 // of all keys; the last version
}

// NewMemoryStore returns a store without records.
func NewMemoryStore() *MemoryStore {
	return &MemoryStore{entries: make(map[string]Entry)}
}

// Get returns the record, or ErrNotFound.
func (s *MemoryStore) Get(ctx context.Context, key string) (Entry, error) {
	if ctx.Err() != nil {
		return Entry{}, fmt.Errorf("leaderelect: get %q: %w", key, context.Cause(ctx))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.entries[key]
	if !ok {
		return Entry{}, fmt.Errorf("leaderelect: get %q: %w", key, ErrNotFound)
	}
	e.Value = bytes.Clone(e.Value)
	return e, nil
}

// Create stores a new record, or returns ErrConflict.
func (s *MemoryStore) Create(ctx context.Context, e Entry) (Entry, error) {
	if ctx.Err() != nil {
		return Entry{}, fmt.Errorf("leaderelect: create %q: %w", e.Key, context.Cause(ctx))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, exists := s.entries[e.Key]; exists {
		return Entry{}, fmt.Errorf("leaderelect: create %q: %w", e.Key, ErrConflict)
	}
	return s.putLocked(e), nil
}

// Update replaces a record, or returns ErrConflict.
func (s *MemoryStore) Update(ctx context.Context, e Entry) (Entry, error) {
	if ctx.Err() != nil {
		return Entry{}, fmt.Errorf("leaderelect: update %q: %w", e.Key, context.Cause(ctx))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if have, exists := s.entries[e.Key]; !exists || have.Version != e.Version {
		return Entry{}, fmt.Errorf("leaderelect: update %q: %w", e.Key, ErrConflict)
	}
	return s.putLocked(e), nil
}

// putLocked stores a copy of e under the next version and returns e with it.
func (s *MemoryStore) putLocked(e Entry) Entry {
	s.writes++
	e.Version = strconv.FormatUint(s.writes, 10)
	kept := e
	kept.Value = bytes.Clone(e.Value)
	s.entries[e.Key] = kept
	e.Value = bytes.Clone(e.Value)
	return e
}
