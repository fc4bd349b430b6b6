package shard

import (
	"context"
	"iter"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// Lister is a [leaderelect.LeaseStore] that reads many records at once. [Slots] need it.
type Lister interface {
	// List returns every record whose key begins with prefix, sorted by key. The prefix "" matches every record. Each
	// record is as recent as one that Get returns. The list need not be a snapshot of one moment.
	List(ctx context.Context, prefix string) ([]leaderelect.Entry, error)
}

// listed is a store that cannot watch by itself. Its watches report the records that peers has listed, so the electors of all
// slots share one read.
type listed struct {
	leaderelect.LeaseStore
	peers *peers
}

// Watch yields the record whenever peers has listed another version.
func (s listed) Watch(ctx context.Context, key string) iter.Seq2[leaderelect.Entry, error] {
	return func(yield func(leaderelect.Entry, error) bool) {
		version, first := "", true
		for ctx.Err() == nil {
			changed := s.peers.changed.Next()
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
