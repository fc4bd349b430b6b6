package informer

import (
	"hash/maphash"
	"iter"
	"slices"

	"github.com/setpoint-go/setpoint/cache"
)

// scanChunk is the number of objects that handlers are told of before Run turns to what has happened meanwhile. It is
// larger than maxBatch, so that a scan ends however many objects come.
const scanChunk = 512

// object is one that is there, with its key.
type object[K comparable, T any] struct {
	key K
	obj T
}

// scan tells handlers of every object in the cache, piece by piece: so that however many there are, what happens
// meanwhile does not wait. It is used by Run's goroutine alone.
//
// A scan for handlers that join must tell them nothing twice. So it knows which keys they have been told of. The
// changes of those are passed on. A change of another key needs no telling, because the key is still to come: in the list
// of keys that the scan began with, or among the fresh ones.
type scan[K comparable, T any] struct {
	indexer   *cache.Indexer[K, T]
	seed      maphash.Seed
	chunk     int
	listeners []*listener[K, T]
	joins     bool // the listeners are new; otherwise it is a resync

	next  func() ([]K, bool) // nil when every key that the scan began with has had its turn
	stop  func()
	told  map[K]bool // false: fresh, and still to come
	fresh []K        // keys that came since the scan began, in order, and have not been told
}

// newScan returns a scan of the cache of in for ls.
func newScan[K comparable, T any](in *Informer[K, T], ls []*listener[K, T], joins bool) *scan[K, T] {
	s := &scan[K, T]{indexer: in.indexer, seed: in.applier.seed, chunk: in.chunk, listeners: ls, joins: joins}
	s.next, s.stop = iter.Pull(chunks(s.indexer.All(), s.chunk))
	if joins {
		s.told = make(map[K]bool)
	}
	return s
}

// chunks yields the keys of objects by n. Each slice may be used until the next one is asked for. The objects may be out
// of date by the time their chunk is looked at, so they are left out.
func chunks[K comparable, T any](objects iter.Seq2[K, T], n int) iter.Seq[[]K] {
	return func(yield func([]K) bool) {
		keys := make([]K, 0, n)
		for key := range objects {
			if keys = append(keys, key); len(keys) == n {
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

// advance tells the listeners of the next objects. It returns false when there are no more, or nobody listens any more.
func (s *scan[K, T]) advance() (more bool) {
	s.listeners = slices.DeleteFunc(s.listeners, func(l *listener[K, T]) bool { return isClosed(l.gone) })
	if len(s.listeners) == 0 {
		return false
	}
	if s.next != nil {
		keys, ok := s.next()
		if ok && s.joins {
			s.tellInitial(keys)
		} else {
			s.tell(keys)
		}
		if len(keys) == s.chunk {
			return true
		}
		s.next = nil
		if s.joins {
			for _, l := range s.listeners {
				l.join()
			}
		}
	}
	n := min(len(s.fresh), s.chunk)
	s.tell(s.fresh[:n])
	s.fresh = slices.Delete(s.fresh, 0, n)
	return len(s.fresh) > 0
}

// tellInitial tells the listeners of objects that were there when the scan began.
func (s *scan[K, T]) tellInitial(keys []K) {
	piece := make([]object[K, T], 0, len(keys))
	for _, key := range keys {
		if _, known := s.told[key]; known {
			continue // it went, and came again
		}
		if obj, ok := s.indexer.Get(key); ok {
			s.told[key] = true
			piece = append(piece, object[K, T]{key, obj})
		}
	}
	for _, l := range s.listeners {
		l.tellInitial(piece)
	}
}

// tell tells the listeners of objects as they are now: that they have come, or, in a resync, that they are there.
func (s *scan[K, T]) tell(keys []K) {
	changes := make([]change[K, T], 0, len(keys))
	for _, key := range keys {
		obj, ok := s.indexer.Get(key)
		if !ok {
			delete(s.told, key)
			continue
		}
		c := change[K, T]{key: key, hash: maphash.Comparable(s.seed, key), new: state[T]{obj, true}}
		if s.joins {
			s.told[key] = true
		} else {
			c.old = c.new
		}
		changes = append(changes, c)
	}
	for _, l := range s.listeners {
		l.tell(changes)
	}
}
