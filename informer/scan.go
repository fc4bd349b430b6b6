package informer

import (
	"iter"
	"slices"

	"github.com/setpoint-go/setpoint/cache"
)

// scanChunk is the number of objects that handlers are told of before Run turns to what has happened meanwhile. It is
// larger than maxBatch, so that a scan ends however many objects come.
const scanChunk = 1024

// scan tells handlers of every object in the cache, piece by piece: so that however many there are, what happens
// meanwhile does not wait. It is used by Run's goroutine alone.
//
// A scan for handlers that join must tell them nothing twice. So it knows which keys they have been told of. The
// changes of those are passed on; the handlers hold them until they have been told of every initial object. A change of
// another key needs no telling, because the key is still to come: in the list of keys that the scan began with, or among
// the fresh ones.
type scan[K comparable, T any] struct {
	listeners []*listener[K, T]
	next      func() ([]K, bool)
	stop      func()
	joins     bool // the listeners are new; otherwise it is a resync
	initial   bool // keys come from the list that the scan began with

	told  map[K]bool // false: fresh, and still to come; nil if no change can come between
	fresh []K        // keys that came since the scan began, in order, and have not been told
}

func newScan[K comparable, T any](x *cache.Indexer[K, T], ls []*listener[K, T], joins bool) *scan[K, T] {
	s := &scan[K, T]{listeners: ls, joins: joins, initial: true}
	s.next, s.stop = iter.Pull(chunks(x.All()))
	return s
}

// chunks yields the keys of objects by scanChunk. Each slice may be used until the next one is asked for. The objects
// may be out of date by the time their chunk is looked at, so they are left out.
func chunks[K comparable, T any](objects iter.Seq2[K, T]) iter.Seq[[]K] {
	return func(yield func([]K) bool) {
		keys := make([]K, 0, scanChunk)
		for key := range objects {
			if keys = append(keys, key); len(keys) == scanChunk {
				if !yield(keys) {
					return
				}
				keys = keys[:0]
			}
		}
		if len(keys) > 0 {
			yield(keys)
		}
	}
}

// pass passes on those changes that the listeners are to be told of already. It is for a scan that joins.
func (s *scan[K, T]) pass(changes []change[K, T]) {
	var pass []change[K, T]
	for i := range changes {
		c := &changes[i]
		told, known := s.told[c.key]
		switch {
		case told:
			pass = append(pass, *c)
		case !known && !c.old.present:
			s.told[c.key] = false
			s.fresh = append(s.fresh, c.key)
		}
	}
	for _, l := range s.listeners {
		l.tell(pass)
	}
}

// advance tells the listeners of the next objects. It returns false when there are no more.
func (s *scan[K, T]) advance(x *cache.Indexer[K, T]) (more bool) {
	if s.initial {
		keys, _ := s.next()
		s.tell(x, keys)
		if len(keys) == scanChunk {
			return true
		}
		s.initial = false
		if s.joins {
			for _, l := range s.listeners {
				l.join()
			}
		}
	}
	n := min(len(s.fresh), scanChunk)
	s.tell(x, s.fresh[:n])
	s.fresh = slices.Delete(s.fresh, 0, n)
	return len(s.fresh) > 0
}

func (s *scan[K, T]) tell(x *cache.Indexer[K, T], keys []K) {
	changes := make([]change[K, T], 0, len(keys))
	for _, key := range keys {
		if _, known := s.told[key]; s.initial && known {
			continue // it went, and came again
		}
		obj, ok := x.Get(key)
		if !ok {
			delete(s.told, key)
			continue
		}
		c := change[K, T]{key: key, new: state[T]{obj, true}}
		if !s.joins {
			c.old = c.new
		} else if s.told != nil {
			s.told[key] = true
		}
		changes = append(changes, c)
	}
	for _, l := range s.listeners {
		if s.joins && s.initial {
			l.tellInitial(changes)
		} else {
			l.tell(changes)
		}
	}
}
