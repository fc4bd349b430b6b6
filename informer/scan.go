package informer

import (
	"hash/maphash"
	"iter"
)

// scan gives handlers every object of the cache once more, piece by piece: so that however many there are, what happens
// meanwhile does not wait. It is used by Run's goroutine alone.
type scan[K comparable, T any] struct {
	seed      maphash.Seed
	listeners []*listener[K, T]
	next      func() ([]object[K, T], bool)
	stop      func()
}

// newScan returns a scan of the cache of in for ls.
func newScan[K comparable, T any](in *Informer[K, T], ls []*listener[K, T]) *scan[K, T] {
	s := &scan[K, T]{seed: in.applier.seed, listeners: ls}
	s.next, s.stop = iter.Pull(pieces(in.indexer.All(), in.piece))
	return s
}

// advance tells the listeners of the next objects. It returns false when there are no more.
func (s *scan[K, T]) advance() (more bool) {
	objects, more := s.next()
	changes := make([]change[K, T], len(objects))
	for i, o := range objects {
		is := state[T]{o.obj, true}
		changes[i] = change[K, T]{key: o.key, hash: maphash.Comparable(s.seed, o.key), old: is, new: is}
	}
	for _, l := range s.listeners {
		l.tell(changes)
	}
	return more
}
