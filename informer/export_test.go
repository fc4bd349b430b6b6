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
		l.mu.Lock()
		sizes = append(sizes, l.backlog.n)
		l.mu.Unlock()
	}
	return sizes
}

// Kept returns the largest number of items that a handler keeps for use again, and the largest size of a table.
func Kept[K comparable, T any](in *Informer[K, T]) (items, chains int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, l := range in.listeners {
		l.mu.Lock()
		n := 0
		for it := l.backlog.free; it != nil; it = it.chain {
			n++
		}
		items, chains = max(items, n, l.backlog.nfree), max(chains, len(l.backlog.chains))
		l.mu.Unlock()
	}
	return items, chains
}

// SetPiece lets a resync tell of n objects at once. It is to be called before Run.
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
		l.mu.Lock()
		n += len(l.asks)
		l.mu.Unlock()
	}
	return n
}

// Reach lets in be at version v.
func Reach[K comparable, T any](in *Informer[K, T], v Version) { in.progress.reach(v) }

// CheckInvariants returns the first invariant that is broken.
func CheckInvariants[K comparable, T any](in *Informer[K, T]) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, l := range in.listeners {
		if err := l.checkInvariants(); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	return nil
}

func (l *listener[K, T]) checkInvariants() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	var before *item[K, T]
	for it := l.backlog.first; it != nil; before, it = it, it.after {
		n++
		switch {
		case !l.backlog.every && l.backlog.find(it.hash, it.key) != it:
			return fmt.Errorf("key %v: the list has an item that the table has not", it.key)
		case it.before != before:
			return fmt.Errorf("key %v: the list is broken", it.key)
		case !it.known.present && !it.now.present:
			return fmt.Errorf("key %v: nothing is to be told", it.key)
		case it.gone && !it.known.present:
			return fmt.Errorf("key %v: it goes, and was not there", it.key)
		case it.known.present && !it.now.present && !it.gone:
			return fmt.Errorf("key %v: it is not there, and does not go", it.key)
		case it.initial:
			return fmt.Errorf("key %v: it is initial, and in the backlog", it.key)
		}
	}
	switch {
	case l.backlog.last != before:
		return fmt.Errorf("the last item is not the last")
	case n != l.backlog.n:
		return fmt.Errorf("%d items in the list, %d counted", n, l.backlog.n)
	case l.dismissed && n > 0:
		return fmt.Errorf("it is dismissed, and something waits")
	}
	return nil
}

// Astray returns how many keys of a list are not found beside those of a cache, and have to be looked up.
func Astray(cached []string, pages [][]string) int {
	m := merger[string, struct{}]{}
	for _, keys := range pages {
		m.pages = append(m.pages, page[string, struct{}]{keys, make([]struct{}, len(keys))})
	}
	for _, key := range cached {
		m.find(key)
	}
	m.rest()
	return len(m.astray)
}

// FillAndDrain lets n keys wait for a handler, and takes them.
func FillAndDrain(n int) {
	var b backlog[int, int]
	for key := range n {
		b.add(&change[int, int]{key: key, hash: uint64(key), new: state[int]{key, true}})
	}
	for it := b.take(); it != nil; it = b.take() {
		b.release(it)
	}
}
