package store

import (
	"fmt"
	"reflect"

	"github.com/setpoint-go/setpoint/internal/statustag"
	"github.com/setpoint-go/setpoint/internal/strictjson"
	"github.com/setpoint-go/setpoint/store/backend"
)

// CheckInvariants returns an error that names an invariant of db that does not hold.
func (db *Memory) CheckInvariants() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	for name, k := range db.kinds {
		if err := k.checkLocked(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if name == "raw" || name == "raw2" { // storetest writes records there that no engine has made
			continue
		}
		if err := k.checkObjectsLocked(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// checkLocked checks the maps and the ring, and that its last change of each key is what is stored.
func (k *memoryKind) checkLocked() error {
	for key, r := range k.live {
		switch {
		case key == "" || r.Key != key:
			return fmt.Errorf("%q is under the key %q", r.Key, key)
		case r.Version == 0 || r.Version > k.db.version:
			return fmt.Errorf("%q has version %d, the database %d", key, r.Version, k.db.version)
		case r.Deleted || k.tombstones[key] != nil:
			return fmt.Errorf("%q is live and deleted", key)
		}
	}
	h := &k.history
	for key, r := range k.tombstones {
		if !r.Deleted || r.Key != key || r.Version <= h.dropped {
			return fmt.Errorf("the tombstone of %q has version %d, and the history begins after %d", key, r.Version, h.dropped)
		}
	}
	if h.oldest > h.next || h.next-h.oldest > h.limit || len(h.ring) > h.limit {
		return fmt.Errorf("the history holds [%d, %d) in %d slots, its limit is %d", h.oldest, h.next, len(h.ring), h.limit)
	}
	last := h.dropped
	newest := make(map[string]*backend.Record)
	for p := h.oldest; p < h.next; p++ {
		r := h.at(p)
		if r.Version <= last {
			return fmt.Errorf("change %d has version %d after version %d", p, r.Version, last)
		}
		last = r.Version
		newest[r.Key] = r
	}
	for key, r := range newest {
		if k.findLocked(key) != r {
			return fmt.Errorf("the last change of %q is not what is stored", key)
		}
	}
	for key, r := range k.live {
		if newest[key] == nil && r.Version > h.dropped {
			return fmt.Errorf("version %d of %q is missing in the history after %d", r.Version, key, h.dropped)
		}
	}
	return nil
}

// checkObjectsLocked checks the objects, and each step from one state of an object to the next.
func (k *memoryKind) checkObjectsLocked() error {
	uids := map[string]string{}
	for _, r := range k.live {
		o := stateOf(r)
		switch {
		case o.UID == "" || uids[o.UID] != "":
			return fmt.Errorf("%q has the UID %q of %q", o.Key, o.UID, uids[o.UID])
		case o.Created.IsZero():
			return fmt.Errorf("%q was never created", o.Key)
		case !o.Deleting.IsZero() && len(o.Finalizers) == 0:
			return fmt.Errorf("%q is being deleted and waits for nothing", o.Key)
		case o.Generation < 1 || !o.Deleting.IsZero() && o.Generation < 2:
			return fmt.Errorf("%q has generation %d", o.Key, o.Generation)
		}
		uids[o.UID] = o.Key
	}
	newest := map[string]*state[any]{}
	for p := k.history.oldest; p < k.history.next; p++ {
		o := stateOf(k.history.at(p))
		if was := newest[o.Key]; was != nil {
			if err := checkStep(was, o); err != nil {
				return err
			}
		} else if o.created && o.Generation != 1 {
			return fmt.Errorf("%q is added with generation %d", o.Key, o.Generation)
		}
		newest[o.Key] = o
	}
	return nil
}

// stateOf returns the state in r, whatever the type of its value.
func stateOf(r *backend.Record) *state[any] {
	st, _ := (&codec[any]{"", strictjson.Encode[any], strictjson.Decode[any]}).state(r)
	return st
}

// checkStep checks what a change makes of the one before it of the same key.
func checkStep(was, c *state[any]) error {
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

// CheckStatus returns the error of Open if the status tags of t are wrong.
func CheckStatus(t reflect.Type) error {
	_, err := statustag.Of(t)
	return err
}
