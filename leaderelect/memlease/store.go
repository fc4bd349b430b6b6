package memlease

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/setpoint-go/setpoint/internal/broadcast"
	"github.com/setpoint-go/setpoint/internal/ended"
	"github.com/setpoint-go/setpoint/leaderelect"
)

// Store is a [leaderelect.LeaseStore] within one process. It is a [leaderelect.Watcher], a shard.Lister and a
// [leaderelect.Sessions], and its entries have a [leaderelect.Entry.Floor].
//
// Tests make it fail. [Store.Inject] delays, loses, or refuses calls. [Store.Put] and [Store.Delete] change records as an
// operator does by hand.
//
// All methods may be called concurrently. Without faults, none blocks except Watch, Hold, and AwaitEnd.
type Store struct {
	mu sync.Mutex
	// mu guards the following.
	entries  map[string]leaderelect.Entry
	floors   map[string]uint64 // number of writes by key; stays when a record is deleted
	writes   uint64            // of all keys; the last version
	faults   Faults
	sessions map[string]chan struct{} // sessions that are held; each channel is closed when its session ends

	changed broadcast.Signal // wakes all watches
}

// Faults makes calls of a [Store] slow or fail. The goroutine of the call calls both functions, without a lock. They may
// block, for example until ctx ends. The call returns their errors. Watches never fail.
type Faults struct {
	// Before is called before a call has any effect. An error simulates a lost request. Optional.
	Before func(ctx context.Context, c Call) error

	// After is called after a call has had its effect. An error simulates a lost reply. Optional.
	After func(ctx context.Context, c Call) error
}

// Call is a call of a [Store].
type Call struct {
	Op  string // "get", "create", "update" or "list"
	Key string // the prefix of a "list"
}

// New returns a store without records.
func New() *Store {
	return &Store{
		entries: make(map[string]leaderelect.Entry), floors: make(map[string]uint64), sessions: make(map[string]chan struct{}),
	}
}

// Get returns the record, or leaderelect.ErrNotFound.
func (s *Store) Get(ctx context.Context, key string) (leaderelect.Entry, error) {
	return s.on(ctx, Call{"get", key}, func(have leaderelect.Entry, exists bool) (leaderelect.Entry, error) {
		if !exists {
			return leaderelect.Entry{}, leaderelect.ErrNotFound
		}
		have.Value = bytes.Clone(have.Value)
		return have, nil
	})
}

// Create stores a new record, or returns leaderelect.ErrConflict.
func (s *Store) Create(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	return s.on(ctx, Call{"create", e.Key}, func(_ leaderelect.Entry, exists bool) (leaderelect.Entry, error) {
		if exists {
			return leaderelect.Entry{}, leaderelect.ErrConflict
		}
		return s.putLocked(e), nil
	})
}

// Update replaces a record, or returns leaderelect.ErrConflict.
func (s *Store) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	return s.on(ctx, Call{"update", e.Key}, func(have leaderelect.Entry, exists bool) (leaderelect.Entry, error) {
		if !exists || have.Version != e.Version {
			return leaderelect.Entry{}, leaderelect.ErrConflict
		}
		return s.putLocked(e), nil
	})
}

// List returns the records whose keys begin with prefix, sorted by key.
func (s *Store) List(ctx context.Context, prefix string) (list []leaderelect.Entry, err error) {
	err = s.call(ctx, Call{"list", prefix}, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for key, e := range s.entries {
			if strings.HasPrefix(key, prefix) {
				e.Value = bytes.Clone(e.Value)
				list = append(list, e)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b leaderelect.Entry) int { return strings.Compare(a.Key, b.Key) })
	return list, nil
}

// Watch yields the current record, and then the record after each change. It leaves out states that were replaced while the
// consumer was busy.
func (s *Store) Watch(ctx context.Context, key string) iter.Seq2[leaderelect.Entry, error] {
	return func(yield func(leaderelect.Entry, error) bool) {
		yielded := "nothing" // the version that was yielded last; no version has this name
		for ctx.Err() == nil {
			changed := s.changed.Next()
			s.mu.Lock()
			e, found := s.entries[key]
			s.mu.Unlock()
			if !found {
				e = leaderelect.Entry{Key: key}
			}
			if e.Version != yielded {
				e.Value, yielded = bytes.Clone(e.Value), e.Version
				if !yield(e, nil) {
					return
				}
				continue
			}
			select {
			case <-ctx.Done():
			case <-changed:
			}
		}
	}
}

// Inject applies f to all calls that begin from now on. The zero Faults ends all faults.
func (s *Store) Inject(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

// Put stores e under e.Key unconditionally, like a backup that is restored, or an operator who edits a record.
func (s *Store) Put(e leaderelect.Entry) leaderelect.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.putLocked(e)
}

// Delete removes a record, like an operator by hand. No elector does.
func (s *Store) Delete(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, key)
	s.changed.Wake()
}

// on makes a call on one record. It calls f with the record, if it exists, and with mu held.
func (s *Store) on(ctx context.Context, c Call, f func(have leaderelect.Entry, exists bool) (leaderelect.Entry, error)) (e leaderelect.Entry, err error) {
	err = s.call(ctx, c, func() (err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		have, exists := s.entries[c.Key]
		e, err = f(have, exists)
		return err
	})
	if err != nil {
		return leaderelect.Entry{}, err // even if only the reply was lost
	}
	return e, nil
}

// call calls f with the current faults.
func (s *Store) call(ctx context.Context, c Call, f func() error) error {
	s.mu.Lock()
	faults := s.faults
	s.mu.Unlock()
	var err error
	if faults.Before != nil {
		err = faults.Before(ctx, c)
	}
	if err == nil && ctx.Err() != nil {
		err = ended.Err(ctx, context.Cause(ctx), answers)
	}
	if err == nil {
		err = f()
		if faults.After != nil {
			if lost := faults.After(ctx, c); lost != nil {
				err = lost
			}
		}
	}
	if err != nil {
		return fmt.Errorf("memlease: %s %q: %w", c.Op, c.Key, err)
	}
	return nil
}

// answers are the errors with which a store of leases answers a call.
var answers = []error{leaderelect.ErrNotFound, leaderelect.ErrConflict}

// putLocked stores a copy of e under the next version, and returns e with that version.
func (s *Store) putLocked(e leaderelect.Entry) leaderelect.Entry {
	s.writes++
	s.floors[e.Key]++
	e.Version, e.Floor = strconv.FormatUint(s.writes, 10), s.floors[e.Key]
	kept := e
	kept.Value = bytes.Clone(e.Value)
	s.entries[e.Key] = kept
	e.Value = bytes.Clone(e.Value)
	s.changed.Wake()
	return e
}
