package store

import (
	"fmt"

	"github.com/setpoint-go/setpoint/informer"
)

// CheckInvariants returns an error that says which invariant of db does not hold.
func (db *Memory) CheckInvariants() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	uids := map[string]string{}
	for kind, s := range db.kinds {
		if err := s.(interface {
			checkLocked(uids map[string]string) error
		}).checkLocked(uids); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return db.writes.check()
}

// check returns an error that says which invariant of r does not hold.
func (r *requests) check() error {
	if len(r.ring) != len(r.byID) || len(r.ring) > r.limit {
		return fmt.Errorf("%d requests are remembered, %d by their id, the limit is %d", len(r.ring), len(r.byID), r.limit)
	}
	for i, q := range r.ring {
		if at, ok := r.byID[q.id]; !ok || at != i || q.id == "" || q.result == nil {
			return fmt.Errorf("the request %q is at %d, and to be found at %d", q.id, i, at)
		}
	}
	if len(r.ring) < r.limit && r.next != 0 || r.next > 0 && r.next >= r.limit {
		return fmt.Errorf("the oldest of %d requests is at %d, the limit is %d", len(r.ring), r.next, r.limit)
	}
	return nil
}

func (s *MemoryStore[T]) checkLocked(uids map[string]string) error {
	for key, o := range s.objects {
		switch {
		case key == "" || o.Key != key:
			return fmt.Errorf("%q is under the key %q", o.Key, key)
		case o.Version == 0 || o.Version > s.db.version:
			return fmt.Errorf("%q has version %d, the database %d", key, o.Version, s.db.version)
		case o.UID == "" || uids[o.UID] != "":
			return fmt.Errorf("%q has the UID %q of %q", key, o.UID, uids[o.UID])
		case o.Created.IsZero():
			return fmt.Errorf("%q was never created", key)
		case !o.Deleting.IsZero() && len(o.Finalizers) == 0:
			return fmt.Errorf("%q is being deleted and waits for nothing", key)
		case o.Generation < 1 || !o.Deleting.IsZero() && o.Generation < 2:
			return fmt.Errorf("%q has generation %d", key, o.Generation)
		}
		uids[o.UID] = key
	}
	return s.checkHistoryLocked()
}

// checkHistoryLocked checks the ring, and that it ends in what the store holds.
func (s *MemoryStore[T]) checkHistoryLocked() error {
	h := &s.history
	if h.oldest > h.next || h.next-h.oldest > h.limit || len(h.ring) > h.limit {
		return fmt.Errorf("the history holds [%d, %d) in %d slots, its limit is %d", h.oldest, h.next, len(h.ring), h.limit)
	}
	last := h.dropped
	newest := map[string]change[T]{}
	for p := h.oldest; p < h.next; p++ {
		c := h.at(p)
		if c.object.Version <= last {
			return fmt.Errorf("change %d has version %d after version %d", p, c.object.Version, last)
		}
		last = c.object.Version
		if err := s.checkStep(newest[c.object.Key], c); err != nil {
			return err
		}
		newest[c.object.Key] = c
	}
	for key, c := range newest {
		if held := s.objects[key]; (c.kind == informer.Deleted) != (held == nil) || held != nil && held != c.object {
			return fmt.Errorf("the last change of %q is %v of version %d, which is not what is held", key, c.kind, c.object.Version)
		}
	}
	for key, o := range s.objects {
		if _, ok := newest[key]; !ok && o.Version > h.dropped {
			return fmt.Errorf("version %d of %q is missing in the history after %d", o.Version, key, h.dropped)
		}
	}
	return nil
}

// checkStep checks what a change makes of the one before it of the same key, if that is known.
func (s *MemoryStore[T]) checkStep(before, c change[T]) error {
	o := c.object
	switch was := before.object; {
	case c.kind == informer.Added && (o.Generation != 1 || was != nil && (before.kind != informer.Deleted || was.UID == o.UID)):
		return fmt.Errorf("%q is added with generation %d, UID %q", o.Key, o.Generation, o.UID)
	case c.kind == informer.Added || was == nil:
		return nil
	case before.kind == informer.Deleted || was.UID != o.UID:
		return fmt.Errorf("%v of %q, which is gone", c.kind, o.Key)
	case !was.Deleting.IsZero() && !o.Deleting.Equal(was.Deleting):
		return fmt.Errorf("the deletion of %q is taken back", o.Key)
	}
	want := before.object.Generation
	asked, askedBefore := o.Value, before.object.Value
	if s.withStatus != nil {
		askedBefore = s.withStatus(askedBefore, asked)
	}
	if !s.values.equal(&asked, &askedBefore) ||
		before.object.Deleting.IsZero() && !o.Deleting.IsZero() {
		want++
	}
	if o.Generation != want {
		return fmt.Errorf("%q has generation %d in version %d, want %d", o.Key, o.Generation, o.Version, want)
	}
	return nil
}

// Term returns the greatest term that db has seen.
func (db *Memory) Term() uint64 {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.term
}

// Waiting returns whether any watch waits for a change of any kind.
func (db *Memory) Waiting() bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.changed.ch != nil
}

// Stored returns the object under key as it is stored. It must not be changed.
func (s *MemoryStore[T]) Stored(key string) *Object[T] {
	s.db.mu.RLock()
	defer s.db.mu.RUnlock()
	return s.objects[key]
}
