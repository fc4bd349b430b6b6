package shard

import (
	"context"
	"iter"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
)

// Lister is a [leaderelect.LeaseStore] that reads many records at once. [Slots] need it.
type Lister interface {
	// List returns every record whose key begins with prefix, sorted by key. The prefix "" matches every record. Each
	// record is as recent as one that Get returns. The list need not be a snapshot of one moment.
	List(ctx context.Context, prefix string) ([]leaderelect.Entry, error)
}

// linked returns s as a store that carries a link to its elector.
func linked(s leaderelect.LeaseStore, link *lease.Link) leaderelect.LeaseStore {
	plain := linkedStore{s, link}
	if w, ok := s.(leaderelect.Watcher); ok {
		return linkedWatcher{plain, w}
	}
	return plain
}

// linkedStore is a store that carries a link.
type linkedStore struct {
	leaderelect.LeaseStore
	link *lease.Link
}

// Link returns the link: see [lease.Linked].
func (s linkedStore) Link() *lease.Link { return s.link }

// linkedWatcher is a linkedStore that watches.
type linkedWatcher struct {
	linkedStore
	leaderelect.Watcher
}

// told is a store whose watches report the records that peers has read. So the electors of all slots share one read, in a
// store that cannot watch.
type told struct {
	leaderelect.LeaseStore
	peers *peers
}

// Watch yields the record whenever peers has read another version.
func (s told) Watch(ctx context.Context, key string) iter.Seq2[leaderelect.Entry, error] {
	return func(yield func(leaderelect.Entry, error) bool) {
		version, first := "", true
		for ctx.Err() == nil {
			changed := s.peers.changed.Wait()
			s.peers.mu.Lock()
			e, read := s.peers.entries[key], s.peers.seen != nil
			s.peers.mu.Unlock()
			if read && (first || e.Version != version) {
				e.Key, version, first = key, e.Version, false
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
