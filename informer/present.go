package informer

import (
	"iter"

	"github.com/setpoint-go/setpoint/cache"
)

// pieceSize is the number of objects of the cache that are read at once.
const pieceSize = 128

// object is one that is there, with its key.
type object[K comparable, T any] struct {
	key K
	obj T
}

// pieces yields objects by n, as they are when they are read: a piece is read when it is asked for, and may be used until the
// next one is.
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

// present is what the cache held when a handler joined, and the handler has not been told of. The zero value is nothing.
//
// It is not safe for concurrent use.
type present[K comparable, T any] struct {
	piece []object[K, T] // has been read; the first one is next
	next  func() ([]object[K, T], bool)
	stop  func()
}

// presentOf returns all that s has. It is to be ended.
func presentOf[K comparable, T any](s *cache.Snapshot[K, T]) present[K, T] {
	var p present[K, T]
	p.next, p.stop = iter.Pull(pieces(s.All(), min(s.Len(), pieceSize)))
	return p
}

// first returns the object whose turn it is, or nil. It may be used until pass is called.
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

// pass goes on to the next object.
func (p *present[K, T]) pass() { p.piece = p.piece[1:] }

// end lets go of what is left.
func (p *present[K, T]) end() {
	if p.stop != nil {
		p.stop()
	}
	*p = present[K, T]{}
}
