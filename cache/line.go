package cache

// line holds items by key, in the order in which they came.
type line[K comparable, T any] struct {
	byKey      table[K, *item[K, T]]
	head, tail *item[K, T] // the same items; nil when there are none
}

// push puts it at the end. There must not be one with its key.
func (l *line[K, T]) push(it *item[K, T]) {
	l.byKey.put(it.key, it)
	if it.prev = l.tail; it.prev != nil {
		it.prev.next = it
	} else {
		l.head = it
	}
	l.tail = it
}

// remove takes it out.
func (l *line[K, T]) remove(it *item[K, T]) {
	if it.prev != nil {
		it.prev.next = it.next
	} else {
		l.head = it.next
	}
	if it.next != nil {
		it.next.prev = it.prev
	} else {
		l.tail = it.prev
	}
	it.prev, it.next = nil, nil
	delete(l.byKey.m, it.key)
	if l.byKey.wasteful() {
		l.byKey = l.byKey.smaller()
	}
}

// reserve makes room for n items more, if there are none yet.
func (l *line[K, T]) reserve(n int) {
	if l.head == nil && n >= minPeak {
		l.byKey = newTable[K, *item[K, T]](n)
	}
}

// lower sees to it that no floor is higher than this one. Floors never fall from head to tail.
func (l *line[K, T]) lower(floor uint64) {
	for it := l.tail; it != nil && it.floor > floor; it = it.prev {
		it.floor = floor
	}
}
