package entry

import (
	"cmp"
	"maps"
	"slices"
)

// lane holds the entries of one priority and one group. Entries that were raised to the priority while they were ready may be older than
// some in the list. They are in raised, sorted by number. Of the heads of raised and the list, the older comes first.
type lane[K comparable] struct {
	list       List[K]
	raised     []*Entry[K]
	level      *level[K]
	group      *group[K]
	prev, next *lane[K] // the ring of lanes that take turns; nil outside of it
}

// push adds e, by its number.
func (n *lane[K]) push(e *Entry[K]) {
	if n.list.n == 0 || n.list.pool.at(n.list.last).Number < e.Number {
		n.list.Push(e)
		return
	}
	i, _ := n.search(e)
	n.raised = slices.Insert(n.raised, i, e)
}

// remove removes e.
func (n *lane[K]) remove(e *Entry[K]) {
	switch i, ok := n.search(e); {
	case !ok:
		n.list.Remove(e)
	case i == 0: // without moving the others
		n.raised[0], n.raised = nil, n.raised[1:]
	default:
		n.raised = slices.Delete(n.raised, i, i+1)
	}
}

// search returns the place of e in raised, and whether it is there.
func (n *lane[K]) search(e *Entry[K]) (int, bool) {
	return slices.BinarySearchFunc(n.raised, e.Number, func(r *Entry[K], number uint64) int { return cmp.Compare(r.Number, number) })
}

// head returns the next entry, nil if the lane is empty.
func (n *lane[K]) head() *Entry[K] {
	e := n.list.Head()
	if len(n.raised) > 0 && (e == nil || n.raised[0].Number < e.Number) {
		return n.raised[0]
	}
	return e
}

// entries returns the entries of the lane, in order.
func (n *lane[K]) entries() []*Entry[K] {
	entries := append(slices.Collect(n.list.All()), n.raised...)
	slices.SortFunc(entries, func(a, b *Entry[K]) int { return cmp.Compare(a.Number, b.Number) })
	return entries
}

// open puts n at the end of its level's ring.
func (l *Line[K]) open(n *lane[K]) {
	if n.next != nil {
		return
	}
	l.turns++
	first := n.level.turn
	if first == nil {
		n.prev, n.next = n, n
		n.level.turn = n
		return
	}
	n.prev, n.next = first.prev, first
	n.prev.next, n.next.prev = n, n
}

// close removes n from its level's ring.
func (l *Line[K]) close(n *lane[K]) {
	if n.next == nil {
		return
	}
	l.turns--
	if n.next == n {
		n.level.turn = nil
	} else {
		n.prev.next, n.next.prev = n.next, n.prev
		if n.level.turn == n {
			n.level.turn = n.next
		}
	}
	n.prev, n.next = nil, nil
}

// group is the keys that share a group name.
type group[K comparable] struct {
	name      string
	keys      int // entries that belong to it
	inProcess int
	lanes     []*lane[K] // those that are not empty
}

// Join, Leave, Begin, and End are called for each key, with or without groups. They are short so that they are inlined.

// Join puts e, which has no group, in the group of that name. Without groups, it does nothing.
func (l *Line[K]) Join(e *Entry[K], name string) {
	if l.groups != nil {
		l.join(e, name)
	}
}

func (l *Line[K]) join(e *Entry[K], name string) {
	g := l.groups[name]
	if g == nil {
		g = reuse(&l.spareGroups)
		g.name = name
		l.groups[name] = g
		l.peak = max(l.peak, len(l.groups))
	}
	g.keys++
	l.pool.own(e).group = g
}

// Leave removes e from its group, if it has one. The caller removes e from the table next.
func (l *Line[K]) Leave(e *Entry[K]) {
	if e.group != nil {
		l.leave(e.group)
	}
}

func (l *Line[K]) leave(g *group[K]) {
	g.keys--
	if g.keys > 0 {
		return
	}
	delete(l.groups, g.name)
	*g = group[K]{lanes: g.lanes[:0]}
	l.spareGroups = spare(l.spareGroups, g)
	if l.peak > keep && len(l.groups) <= l.peak/16 { // a map keeps the memory of its largest size
		l.groups = maps.Collect(maps.All(l.groups))
		l.peak = len(l.groups)
	}
}

// Begin records that e, which was removed from the line, is in process.
func (l *Line[K]) Begin(e *Entry[K]) {
	if e.group != nil {
		l.begin(e.group)
	}
}

func (l *Line[K]) begin(g *group[K]) {
	g.inProcess++
	if !l.mayStart(g) {
		for _, n := range g.lanes {
			l.close(n)
		}
	}
}

// End records that e is no longer in process. It reports whether another entry of its group may now be dispatched. It does so on every call,
// because each call lets another worker take one.
func (l *Line[K]) End(e *Entry[K]) bool { return e.group != nil && l.end(e.group) }

func (l *Line[K]) end(g *group[K]) bool {
	g.inProcess--
	if l.limit <= 0 || len(g.lanes) == 0 {
		return false
	}
	for _, n := range g.lanes {
		l.open(n)
	}
	return true
}

// MayStart reports whether e, which is in line, may be dispatched out of turn.
func (l *Line[K]) MayStart(e *Entry[K]) bool { return l.mayStart(e.group) }

// mayStart reports whether one more entry of g may be in process.
func (l *Line[K]) mayStart(g *group[K]) bool {
	return g == nil || l.limit <= 0 || g.inProcess < l.limit
}

// spare keeps a value for reuse, unless there are enough of them.
func spare[T any](stock []*T, value *T) []*T {
	if len(stock) < keep {
		stock = append(stock, value)
	}
	return stock
}

// reuse returns a spare value, or a new one.
func reuse[T any](stock *[]*T) *T {
	last := len(*stock) - 1
	if last < 0 {
		return new(T)
	}
	value := (*stock)[last]
	(*stock)[last] = nil
	*stock = (*stock)[:last]
	return value
}
