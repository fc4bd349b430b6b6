package delivery

// Kept returns the number of items that a listener keeps for use again, and the size of its table.
func Kept[K comparable, T any](l *Listener[K, T]) (items, chains int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for it := l.backlog.free; it != nil; it = it.chain {
		n++
	}
	return max(n, l.backlog.nfree), len(l.backlog.chains)
}

// FillAndDrain lets n keys wait for a handler, and takes them.
func FillAndDrain(n int) {
	var b backlog[int, int]
	for key := range n {
		b.add(&Change[int, int]{Key: key, Hash: uint64(key), New: State[int]{key, true}})
	}
	for it := b.take(); it != nil; it = b.take() {
		b.release(it)
	}
}
