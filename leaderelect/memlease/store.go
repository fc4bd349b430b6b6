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

	"github.com/setpoint-go/setpoint/leaderelect"
)

// Store is a [leaderelect.LeaseStore] within one process. It is a [leaderelect.Watcher], a shard.Lister and a
// [leaderelect.Sessions], and its entries have a [leaderelect.Entry.Floor].
//
// Tests make it fail: [Store.Inject] delays, loses or refuses calls, [Store.Put] and [Store.Delete] do what people do by
// hand.
//
// All methods may be called concurrently. A store without faults never blocks.
type Store struct {
	mu sync.Mutex
	// mu guards the following.
	entries  map[string]leaderelect.Entry
	floors   map[string]uint64 // writes by key, also of those that were deleted
	writes   uint64            // of all keys; the last version
	changed  chan struct{}
	faults   Faults
	sessions map[string]chan struct{} // that are held; each is closed when it ends
}

// Faults makes calls of a [Store] fail, slowly or at once. Both functions are called without a lock, by the
// goroutine of the call, and may block, for example until ctx ends. An error that one returns is returned by the call.
// Watches never fail, and report only changes that have happened.
type Faults struct {
	// Before is called before the store looks at anything. An error is a request that was lost. Optional.
	Before func(ctx context.Context, c Call) error

	// After is called when a call has had its effect, whatever it was. An error is a reply that was lost. Optional.
	After func(ctx context.Context, c Call) error
}

// Call is a call of a [Store].
type Call struct {
	Op  string // "get", "create", "update" or "list"
	Key string // of "list": the prefix
}

// New returns a store without records.
func New() *Store {
	return &Store{
		entries: make(map[string]leaderelect.Entry), floors: make(map[string]uint64), changed: make(chan struct{}),
		sessions: make(map[string]chan struct{}),
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

// Watch yields the record as it is, and then after each change. States that come and go while the consumer is busy are
// left out.
func (s *Store) Watch(ctx context.Context, key string) iter.Seq2[leaderelect.Entry, error] {
	return func(yield func(leaderelect.Entry, error) bool) {
		told := "nothing" // the version; none is called that
		for ctx.Err() == nil {
			s.mu.Lock()
			e, found := s.entries[key]
			changed := s.changed
			s.mu.Unlock()
			if !found {
				e = leaderelect.Entry{Key: key}
			}
			if e.Version != told {
				e.Value, told = bytes.Clone(e.Value), e.Version
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

// Inject makes the calls that begin from now on fail as f says. The zero Faults ends it.
func (s *Store) Inject(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

// Put stores e under e.Key, whatever is there: a backup that is restored, or somebody who edits records by hand.
func (s *Store) Put(e leaderelect.Entry) leaderelect.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.putLocked(e)
}

// Delete removes a record, as nobody should.
func (s *Store) Delete(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, key)
	s.wakeLocked()
}

// on makes a call that is about one record: f gets it, if it exists, and is called with mu held.
func (s *Store) on(ctx context.Context, c Call, f func(have leaderelect.Entry, exists bool) (leaderelect.Entry, error)) (e leaderelect.Entry, err error) {
	err = s.call(ctx, c, func() (err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		have, exists := s.entries[c.Key]
		e, err = f(have, exists)
		return err
	})
	if err != nil {
		return leaderelect.Entry{}, err // not even if the reply was lost
	}
	return e, nil
}

// call makes a call with the faults that are due.
func (s *Store) call(ctx context.Context, c Call, f func() error) error {
	s.mu.Lock()
	faults := s.faults
	s.mu.Unlock()
	var err error
	if faults.Before != nil {
		err = faults.Before(ctx, c)
	}
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
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

// putLocked stores a copy of e under the next version and returns e with it.
func (s *Store) putLocked(e leaderelect.Entry) leaderelect.Entry {
	s.writes++
	s.floors[e.Key]++
	e.Version, e.Floor = strconv.FormatUint(s.writes, 10), s.floors[e.Key]
	kept := e
	kept.Value = bytes.Clone(e.Value)
	s.entries[e.Key] = kept
	e.Value = bytes.Clone(e.Value)
	s.wakeLocked()
	return e
}

// wakeLocked wakes all watches.
func (s *Store) wakeLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}
