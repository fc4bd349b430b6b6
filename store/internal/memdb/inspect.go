package memdb

import "fmt"

// CheckInvariants returns an error that names an invariant that does not hold. It is for tests. It calls live for each live item. It
// calls changed for each change in a history, with the previous change of the same key, or nil if that was dropped; an error of
// either is returned. Kinds in except are skipped.
func (db *DB) CheckInvariants(live func(Item) error, changed func(was, now Item) error, except ...string) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	skip := make(map[string]bool)
	for _, name := range except {
		skip[name] = true
	}
	for name, k := range db.kinds {
		if skip[name] {
			continue
		}
		if err := k.checkItemsLocked(live); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := k.checkHistoryLocked(changed); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (k *Kind) checkItemsLocked(live func(Item) error) error {
	for key, it := range k.live {
		switch {
		case key == "" || it.ItemKey() != key:
			return fmt.Errorf("%q is under the key %q", it.ItemKey(), key)
		case it.ItemVersion() == 0 || it.ItemVersion() > k.db.version:
			return fmt.Errorf("%q has version %d, the database %d", key, it.ItemVersion(), k.db.version)
		case it.IsDeleted() || k.gone[key] != nil:
			return fmt.Errorf("%q is live and gone", key)
		}
		if err := live(it); err != nil {
			return err
		}
	}
	for key, it := range k.gone {
		if !it.IsDeleted() || it.ItemKey() != key || it.ItemVersion() <= k.history.dropped {
			return fmt.Errorf("the tombstone of %q has version %d, and the history begins after %d", key, it.ItemVersion(), k.history.dropped)
		}
	}
	return nil
}

// checkHistoryLocked checks the ring, and that its last change of each key is what is stored.
func (k *Kind) checkHistoryLocked(changed func(was, now Item) error) error {
	h := &k.history
	if h.oldest > h.next || h.next-h.oldest > h.limit || len(h.ring) > h.limit {
		return fmt.Errorf("the history holds [%d, %d) in %d slots, its limit is %d", h.oldest, h.next, len(h.ring), h.limit)
	}
	last := h.dropped
	newest := make(map[string]Item)
	for p := h.oldest; p < h.next; p++ {
		now := h.at(p)
		if now.ItemVersion() <= last {
			return fmt.Errorf("change %d has version %d after version %d", p, now.ItemVersion(), last)
		}
		last = now.ItemVersion()
		if err := changed(newest[now.ItemKey()], now); err != nil {
			return err
		}
		newest[now.ItemKey()] = now
	}
	for key, it := range newest {
		if k.findLocked(key) != it {
			return fmt.Errorf("the last change of %q is not what is stored", key)
		}
	}
	for key, it := range k.live {
		if newest[key] == nil && it.ItemVersion() > h.dropped {
			return fmt.Errorf("version %d of %q is missing in the history after %d", it.ItemVersion(), key, h.dropped)
		}
	}
	return nil
}

// Term returns the greatest term of a lease that an accepted write carried. It is for tests.
func (db *DB) Term(lease string) uint64 {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.terms[lease]
}

// Waiting reports whether a watch waits for a change of any kind. It is for tests.
func (db *DB) Waiting() bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.changed.ch != nil
}
