package informer

import (
	"hash/maphash"
	"iter"
	"slices"
	"time"
)

// pieceSize is the number of objects of the cache that a resync reports together, and that are read together when a handler joins.
const pieceSize = 128

// scan is a resync in progress: it reports every object of the cache to handlers again, in pieces.
type scan[K comparable, T any] struct {
	listeners []*listener[K, T]
	next      func() ([]change[K, T], bool)
	stop      func()
}

// newScan returns a scan of the cache of in for ls.
func newScan[K comparable, T any](in *Informer[K, T], ls []*listener[K, T]) *scan[K, T] {
	s := &scan[K, T]{listeners: ls}
	s.next, s.stop = iter.Pull(resyncs(in.indexer.All(), in.applier.seed, in.piece))
	return s
}

// scanFor takes the first piece of a scan, and leaves the rest to later steps.
func (in *Informer[K, T]) scanFor(s *scan[K, T]) {
	if in.advance(s) {
		in.scans = append(in.scans, s)
		in.signal()
	}
}

// scan advances each scan by one piece.
func (in *Informer[K, T]) scan() {
	in.scans = slices.DeleteFunc(in.scans, func(s *scan[K, T]) bool { return !in.advance(s) })
	if len(in.scans) > 0 {
		in.signal()
	}
}

// advance passes the next objects of a scan to its handlers, and reports whether there is more of it.
func (in *Informer[K, T]) advance(s *scan[K, T]) (more bool) {
	changes, more := s.next()
	for _, l := range s.listeners {
		switch {
		case !more:
			l.resyncing = false
		case l.direct:
			l.call(changes)
		default:
			l.add(changes)
		}
	}
	return more
}

// stopAll ends the scans that Run leaves unfinished, and stops all handlers.
func (in *Informer[K, T]) stopAll() {
	for _, s := range in.scans {
		s.stop()
	}
	for _, l := range in.joined() {
		l.stop()
	}
}

// resync starts a scan for the handlers whose resync is due. If a change of an object is pending, the scan adds nothing to it: both lead to
// the state of the cache. A handler whose last scan is still in progress is skipped.
func (in *Informer[K, T]) resync(now time.Time) {
	in.progress.begin(false)
	defer in.progress.end()
	in.rescheduled = true
	var due []*listener[K, T]
	for _, l := range in.joined() {
		if l.period == 0 || l.due.After(now) {
			continue
		}
		l.due = now.Add(l.period)
		if !l.resyncing {
			l.resyncing = true
			due = append(due, l)
		}
	}
	if len(due) > 0 {
		in.scanFor(newScan(in, due))
	}
}

// nextResync returns the time until the next resync, and whether it may have changed since it was last called.
func (in *Informer[K, T]) nextResync() (next time.Duration, changed bool) {
	if !in.rescheduled {
		return never, false
	}
	in.rescheduled = false
	in.mu.Lock()
	defer in.mu.Unlock()
	next = never
	for _, l := range in.listeners {
		if l.period > 0 {
			next = min(next, time.Until(l.due))
		}
	}
	return next, true
}

// object is an object of the cache, with its key.
type object[K comparable, T any] struct {
	key K
	obj T
}

// pieces yields objects in pieces of n. A piece is read when it is yielded, and is valid until the next one.
func pieces[K comparable, T any](objects iter.Seq2[K, T], n int) iter.Seq[[]object[K, T]] {
	return func(yield func([]object[K, T]) bool) {
		piece := make([]object[K, T], 0, n)
		for key, obj := range objects {
			if piece = append(piece, object[K, T]{key, obj}); len(piece) == n {
				if !yield(piece) {
					return
				}
				piece = piece[:0]
			}
		}
		if len(piece) > 0 {
			yield(piece)
		}
	}
}

// resyncs yields a resync of objects as changes, in pieces of n, so that other changes need not wait for the whole cache. Each piece
// is made when it is yielded.
func resyncs[K comparable, T any](objects iter.Seq2[K, T], seed maphash.Seed, n int) iter.Seq[[]change[K, T]] {
	return func(yield func([]change[K, T]) bool) {
		for piece := range pieces(objects, n) {
			changes := make([]change[K, T], len(piece))
			for i, o := range piece {
				is := state[T]{o.obj, true}
				changes[i] = change[K, T]{key: o.key, hash: maphash.Comparable(seed, o.key), old: is, new: is, resync: true}
			}
			if !yield(changes) {
				return
			}
		}
	}
}
