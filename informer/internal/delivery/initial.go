package delivery

import (
	"hash/maphash"
	"iter"

	"github.com/setpoint-go/setpoint/cache"
)

// PieceSize is the number of objects of the cache that are read together.
const PieceSize = 128

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

// present is the objects that were in the cache when a handler joined, and that the handler has yet to get. The zero value has no
// objects. It is not safe for concurrent use.
type present[K comparable, T any] struct {
	piece []object[K, T] // objects that were read; the first one is next
	next  func() ([]object[K, T], bool)
	stop  func()
}

// presentOf returns all objects of s. The caller must call end.
func presentOf[K comparable, T any](s *cache.Snapshot[K, T]) present[K, T] {
	var p present[K, T]
	p.next, p.stop = iter.Pull(pieces(s.All(), min(s.Len(), PieceSize)))
	return p
}

// first returns the next object, or nil. It is valid until pass is called.
func (p *present[K, T]) first() *object[K, T] {
	if len(p.piece) == 0 && p.next != nil {
		piece, ok := p.next()
		if !ok {
			p.end()
			return nil
		}
		p.piece = piece
	}
	if len(p.piece) == 0 {
		return nil
	}
	return &p.piece[0]
}

// pass advances to the next object.
func (p *present[K, T]) pass() { p.piece = p.piece[1:] }

// end drops the remaining objects.
func (p *present[K, T]) end() {
	if p.stop != nil {
		p.stop()
	}
	*p = present[K, T]{}
}

// Resync yields a resync of objects as changes, in pieces of n, so that other changes need not wait for the whole cache. Each piece
// is made when it is yielded.
func Resync[K comparable, T any](objects iter.Seq2[K, T], seed maphash.Seed, n int) iter.Seq[[]Change[K, T]] {
	return func(yield func([]Change[K, T]) bool) {
		for piece := range pieces(objects, n) {
			changes := make([]Change[K, T], len(piece))
			for i, o := range piece {
				is := State[T]{o.obj, true}
				changes[i] = Change[K, T]{Key: o.key, Hash: maphash.Comparable(seed, o.key), Old: is, New: is, Resync: true}
			}
			if !yield(changes) {
				return
			}
		}
	}
}
