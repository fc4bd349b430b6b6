package store

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// bad are the records that were met and did not decode.
type bad struct {
	count atomic.Int64 // of records; so that nobody takes the lock where all is well

	mu sync.Mutex
	// mu guards the following.
	records map[string]Undecodable // by key
}

// add notes u. False means that it was noted before.
func (b *bad) add(u Undecodable) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known, ok := b.records[u.Key]; ok && known.Version >= u.Version {
		return false
	}
	if b.records == nil {
		b.records = make(map[string]Undecodable)
	}
	b.records[u.Key] = u
	b.count.Store(int64(len(b.records)))
	return true
}

// remove forgets a key: it was repaired, or is gone.
func (b *bad) remove(key string) {
	if b.count.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.records, key)
	b.count.Store(int64(len(b.records)))
}

// keep forgets all keys but these.
func (b *bad) keep(keys map[string]bool) {
	if b.count.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.records, func(key string, _ Undecodable) bool { return !keys[key] })
	b.count.Store(int64(len(b.records)))
}

func (b *bad) all() []Undecodable {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.SortedFunc(maps.Values(b.records), func(a, b Undecodable) int { return cmp.Compare(a.Key, b.Key) })
}

// report notes a record that does not decode, and tells of it.
func (s *engine[T]) report(r unread) {
	u := Undecodable{Kind: s.kind, Key: r.key, Version: r.version, Err: r.err}
	if !s.bad.add(u) {
		return
	}
	s.cfg.Logger.Warn("store: a record does not decode", "kind", u.Kind, "key", u.Key, "version", u.Version, "error", u.Err)
	if s.cfg.Hooks.Undecodable != nil {
		s.cfg.Hooks.Undecodable(u)
	}
}

func (s *engine[T]) Stats() Stats { return Stats{Undecodable: s.bad.all()} }
