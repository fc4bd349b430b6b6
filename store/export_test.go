package store

import (
	"fmt"
	"reflect"

	"github.com/setpoint-go/setpoint/internal/statustag"
	"github.com/setpoint-go/setpoint/store/internal/strictjson"
)

// CheckInvariants returns an error that says which invariant of db does not hold.
func (db *Memory) CheckInvariants() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	uids := map[string]string{}
	for kind, k := range db.kinds {
		if kind == "raw" { // storetest writes records there that no engine has made
			continue
		}
		if err := k.checkLocked(db, uids); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return nil
}

// view is what an item has for everybody, whatever the type of its value.
type view struct {
	Object[any]
	hidden
	value item
}

// viewer is a state of any type.
type viewer interface{ view() view }

func (s *state[T]) view() view {
	o := s.Object
	return view{Object[any]{
		Key: o.Key, UID: o.UID, Version: o.Version, Generation: o.Generation, Labels: o.Labels, Owners: o.Owners,
		Finalizers: o.Finalizers, Created: o.Created, Deleting: o.Deleting, Value: o.Value,
	}, s.hidden, s}
}

// viewOf returns the view of an item, also of one that was written as a record.
func viewOf(it item) view {
	if v, ok := it.(viewer); ok {
		return v.view()
	}
	rec, _ := it.record()
	st, _ := (&codec[any]{"", strictjson.Encode[any], strictjson.Decode[any]}).state(&rec)
	return view{st.Object, st.hidden, it}
}

func (k *memoryKind) checkLocked(db *Memory, uids map[string]string) error {
	for key, it := range k.live {
		o := viewOf(it)
		switch {
		case key == "" || o.Key != key:
			return fmt.Errorf("%q is under the key %q", o.Key, key)
		case o.Version == 0 || o.Version > db.version:
			return fmt.Errorf("%q has version %d, the database %d", key, o.Version, db.version)
		case o.UID == "" || uids[o.UID] != "":
			return fmt.Errorf("%q has the UID %q of %q", key, o.UID, uids[o.UID])
		case o.Created.IsZero():
			return fmt.Errorf("%q was never created", key)
		case !o.Deleting.IsZero() && len(o.Finalizers) == 0:
			return fmt.Errorf("%q is being deleted and waits for nothing", key)
		case o.Generation < 1 || !o.Deleting.IsZero() && o.Generation < 2:
			return fmt.Errorf("%q has generation %d", key, o.Generation)
		case o.deleted || k.gone[key] != nil:
			return fmt.Errorf("%q is there and gone", key)
		case len(o.requests) > keptRequests:
			return fmt.Errorf("%q remembers %d requests", key, len(o.requests))
		}
		uids[o.UID] = key
	}
	for key, it := range k.gone {
		if !it.isDeleted() || it.itemKey() != key || it.itemVersion() <= k.history.dropped {
			return fmt.Errorf("the tombstone of %q is of version %d, and the history begins after %d", key, it.itemVersion(), k.history.dropped)
		}
	}
	return k.checkHistoryLocked()
}

// checkHistoryLocked checks the ring, and that it ends in what the store holds.
func (k *memoryKind) checkHistoryLocked() error {
	h := &k.history
	if h.oldest > h.next || h.next-h.oldest > h.limit || len(h.ring) > h.limit {
		return fmt.Errorf("the history holds [%d, %d) in %d slots, its limit is %d", h.oldest, h.next, len(h.ring), h.limit)
	}
	last := h.dropped
	newest := map[string]view{}
	for p := h.oldest; p < h.next; p++ {
		c := viewOf(h.at(p))
		if c.Version <= last {
			return fmt.Errorf("change %d has version %d after version %d", p, c.Version, last)
		}
		last = c.Version
		if was, ok := newest[c.Key]; ok {
			if err := checkStep(was, c); err != nil {
				return err
			}
		} else if c.created && c.Generation != 1 {
			return fmt.Errorf("%q is added with generation %d", c.Key, c.Generation)
		}
		newest[c.Key] = c
	}
	for key, c := range newest {
		if c.deleted != (k.live[key] == nil) || !c.deleted && k.live[key] != c.value || c.deleted && k.gone[key] != c.value {
			return fmt.Errorf("the last change of %q is not what is stored", key)
		}
	}
	for key, it := range k.live {
		if _, ok := newest[key]; !ok && it.itemVersion() > h.dropped {
			return fmt.Errorf("version %d of %q is missing in the history after %d", it.itemVersion(), key, h.dropped)
		}
	}
	return nil
}

// checkStep checks what a change makes of the one before it of the same key.
func checkStep(was, c view) error {
	switch {
	case c.created && (c.Generation != 1 || !was.deleted || was.UID == c.UID):
		return fmt.Errorf("%q is added with generation %d, UID %q", c.Key, c.Generation, c.UID)
	case c.created:
		return nil
	case was.deleted || was.UID != c.UID:
		return fmt.Errorf("a change of %q, which is gone", c.Key)
	case !was.Deleting.IsZero() && !c.Deleting.Equal(was.Deleting):
		return fmt.Errorf("the deletion of %q is taken back", c.Key)
	case c.Generation < was.Generation || c.Generation > was.Generation+1:
		return fmt.Errorf("%q has generation %d after %d", c.Key, c.Generation, was.Generation)
	case was.Deleting.IsZero() && !c.Deleting.IsZero() && c.Generation != was.Generation+1:
		return fmt.Errorf("a deletion of %q begins with generation %d after %d", c.Key, c.Generation, was.Generation)
	}
	return nil
}

// Term returns the greatest term of a lease that db has seen.
func (db *Memory) Term(lease string) uint64 {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.terms[lease]
}

// Waiting returns whether any watch waits for a change of any kind.
func (db *Memory) Waiting() bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.changed.ch != nil
}

// Stored returns the object under key as a Memory stores it. It must not be changed.
func Stored[T any](s Store[T], key string) *Object[T] {
	d := s.(*engine[T]).direct
	it, _ := d.db.find(d.items, key, nil)
	return &it.(*state[T]).Object
}

// IsDirect reports whether s keeps values as they are.
func IsDirect[T any](s Store[T]) bool { return s.(*engine[T]).direct != nil }

// CheckStatus returns the error of Open if the status tags of t are wrong.
func CheckStatus(t reflect.Type) error {
	_, err := statustag.Of(t)
	return err
}
