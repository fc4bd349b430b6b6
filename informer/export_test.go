package informer

import "fmt"

// MaxBatch is the number of inputs after which handlers are told.
const MaxBatch = maxBatch

// PieceSize is the number of objects of the cache that are read at once.
const PieceSize = pieceSize

// Waiting returns the size of the backlog of each handler that has joined.
func Waiting[K comparable, T any](in *Informer[K, T]) []int {
	in.mu.Lock()
	defer in.mu.Unlock()
	var sizes []int
	for _, l := range in.listeners {
		sizes = append(sizes, l.Waiting())
	}
	return sizes
}

// SetPiece makes a resync report n objects at a time. Call it before Run.
func SetPiece[K comparable, T any](in *Informer[K, T], n int) { in.piece = n }

// Joining returns the number of handlers that wait for the first list.
func Joining[K comparable, T any](in *Informer[K, T]) int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.joining)
}

// Waiters returns the number of calls that wait for a version.
func Waiters[K comparable, T any](in *Informer[K, T]) int {
	in.progress.mu.Lock()
	defer in.progress.mu.Unlock()
	return len(in.progress.waiters)
}

// Asks returns the number of calls of WaitIdle that are kept.
func Asks[K comparable, T any](in *Informer[K, T]) int {
	in.mu.Lock()
	defer in.mu.Unlock()
	n := len(in.asks)
	for _, l := range in.listeners {
		n += l.Asks()
	}
	return n
}

// Reach sets the version of in to v.
func Reach[K comparable, T any](in *Informer[K, T], v Version) { in.progress.reach(v) }

// CheckInvariants returns the first invariant that is broken.
func CheckInvariants[K comparable, T any](in *Informer[K, T]) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, l := range in.listeners {
		if err := l.CheckInvariants(); err != nil {
			return fmt.Errorf("%s: %w", l.Name(), err)
		}
	}
	return nil
}
