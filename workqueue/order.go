package workqueue

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
)

// order holds the ready entries in the order in which they leave. It knows nothing else about the queue.
//
// Without priorities or groups, it is one list. Otherwise there is a level for each priority in use. A level has a lane for each group with
// ready entries in it, or one lane for all. The lanes of a level take turns. Between levels, age decides: see isOlder.
//
// Invariants, tested by check:
//
//  1. Either levels is empty and all entries are in plain, or plain is empty and each entry is in the lane of its priority and
//     its group.
//  2. levels is sorted, the highest priority first.
//  3. A lane takes turns if and only if it is not empty and its group may have one more entry in process.
//  4. n counts the entries, and turns the lanes that take turns.
//  5. A lane is in the order of the entries' numbers, which is the order in which they became ready.
type order[K comparable] struct {
	n      int
	plain  list[K]
	levels []*level[K]
	turns  int

	aging  int64 // the waiting time that is worth one priority, in nanoseconds; not positive for none
	limit  int   // of a group's entries in process; 0 for none
	groups map[string]*group[K]
	peak   int // the greatest number of groups since the map was made

	spareLanes  []*lane[K] // for reuse, at most keep of them
	spareGroups []*group[K]
}

// level holds the entries of one priority.
type level[K comparable] struct {
	priority int
	turn     *lane[K] // the lane whose turn it is, in a ring; nil if none takes turns
	only     *lane[K] // the lane of the entries without a group
	n        int
}

// lane holds the entries of one priority and one group. Entries that were raised to the priority while they were ready may be older than
// some in the list. They are in raised, sorted by number. Of the heads of raised and the list, the older comes first.
type lane[K comparable] struct {
	list       list[K]
	raised     []*entry[K]
	level      *level[K]
	group      *group[K]
	prev, next *lane[K] // the ring of lanes that take turns; nil outside of it
}

// group is the keys that share a group name.
type group[K comparable] struct {
	name      string
	keys      int // entries that belong to it
	inProcess int
	lanes     []*lane[K] // those that are not empty
}

// maxLevels is the number of levels up to which the order keeps empty ones.
const maxLevels = 16

// graded reports whether there are levels. If so, each push needs the time.
func (o *order[K]) graded() bool { return len(o.levels) > 0 }

// grade makes the first level.
func (o *order[K]) grade() {
	l := o.level(0)
	l.n = o.plain.n
	l.only.list, o.plain = o.plain, list[K]{pool: o.plain.pool}
	if l.n > 0 {
		o.open(l.only)
	}
}

// push adds e at the end of its lane, or at the place that its number gives it if it was raised.
func (o *order[K]) push(e *entry[K]) {
	o.n++
	if !o.graded() {
		o.plain.push(e)
		return
	}
	l := o.level(e.priority)
	n := o.lane(l, e.group)
	n.push(e)
	l.n++
	if o.mayStart(e.group) {
		o.open(n)
	}
}

// pop removes and returns the next entry, or returns nil if none may be dispatched.
func (o *order[K]) pop() *entry[K] {
	if !o.graded() {
		e := o.plain.head()
		if e != nil {
			o.plain.remove(e)
			o.n--
		}
		return e
	}
	var best *level[K]
	for _, l := range o.levels {
		if l.turn != nil && (best == nil || o.isOlder(l.turn.head(), best.turn.head())) {
			best = l
		}
	}
	if best == nil {
		return nil
	}
	n := best.turn
	best.turn = n.next
	e := n.head()
	o.removeFrom(n, e)
	return e
}

// isOlder reports whether best, which has a higher priority than e, must not overtake e. That is so if e became ready earlier by more time
// than the difference of the priorities is worth.
func (o *order[K]) isOlder(e, best *entry[K]) bool {
	if o.aging <= 0 {
		return false
	}
	before := best.since - e.since
	// The difference of any two priorities fits in 64 unsigned bits. Its product with aging may not.
	high, low := bits.Mul64(uint64(best.priority)-uint64(e.priority), uint64(o.aging))
	return before > 0 && high == 0 && uint64(before) > low
}

// remove removes e, wherever it is.
func (o *order[K]) remove(e *entry[K]) {
	if !o.graded() {
		o.plain.remove(e)
		o.n--
		return
	}
	o.removeFrom(o.lane(o.level(e.priority), e.group), e)
}

func (o *order[K]) removeFrom(n *lane[K], e *entry[K]) {
	n.remove(e)
	l := n.level
	l.n--
	o.n--
	if n.head() != nil {
		return
	}
	o.close(n)
	n.raised = nil
	if l.n == 0 && len(o.levels) > maxLevels && l.priority != 0 {
		o.levels = slices.DeleteFunc(o.levels, func(other *level[K]) bool { return other == l })
	}
	if g := n.group; g != nil {
		i := slices.Index(g.lanes, n)
		g.lanes = slices.Delete(g.lanes, i, i+1)
		*n = lane[K]{}
		o.spareLanes = spare(o.spareLanes, n)
	}
}

// available reports whether an entry may be dispatched.
func (o *order[K]) available() bool { return o.plain.n > 0 || o.turns > 0 }

// begin records that an entry of g was dispatched.
func (o *order[K]) begin(g *group[K]) {
	if g == nil {
		return
	}
	g.inProcess++
	if !o.mayStart(g) {
		for _, n := range g.lanes {
			o.close(n)
		}
	}
}

// end records that an entry of g is done. It reports whether another entry of g may now be dispatched. It does so on every call, because
// each call lets another worker take one.
func (o *order[K]) end(g *group[K]) bool {
	if g == nil {
		return false
	}
	g.inProcess--
	if o.limit <= 0 || len(g.lanes) == 0 {
		return false
	}
	for _, n := range g.lanes {
		o.open(n)
	}
	return true
}

// mayStart reports whether one more entry of g may be in process.
func (o *order[K]) mayStart(g *group[K]) bool {
	return g == nil || o.limit <= 0 || g.inProcess < o.limit
}

// open puts n at the end of its level's ring.
func (o *order[K]) open(n *lane[K]) {
	if n.next != nil {
		return
	}
	o.turns++
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
func (o *order[K]) close(n *lane[K]) {
	if n.next == nil {
		return
	}
	o.turns--
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

// level returns the level of a priority, a new one if there is none.
func (o *order[K]) level(priority int) *level[K] {
	i, ok := slices.BinarySearchFunc(o.levels, priority, func(l *level[K], p int) int { return cmp.Compare(p, l.priority) })
	if ok {
		return o.levels[i]
	}
	l := &level[K]{priority: priority}
	l.only = &lane[K]{level: l, list: list[K]{pool: o.plain.pool}}
	o.levels = slices.Insert(o.levels, i, l)
	return l
}

// lane returns the lane of a level and a group, a new one if there is none.
func (o *order[K]) lane(l *level[K], g *group[K]) *lane[K] {
	if g == nil {
		return l.only
	}
	for _, n := range g.lanes {
		if n.level == l {
			return n
		}
	}
	n := reuse(&o.spareLanes)
	n.level, n.group, n.list.pool = l, g, o.plain.pool
	g.lanes = append(g.lanes, n)
	return n
}

// push adds e, by its number.
func (n *lane[K]) push(e *entry[K]) {
	if n.list.n == 0 || n.list.pool.at(n.list.last).number < e.number {
		n.list.push(e)
		return
	}
	i, _ := n.search(e)
	n.raised = slices.Insert(n.raised, i, e)
}

// remove removes e.
func (n *lane[K]) remove(e *entry[K]) {
	switch i, ok := n.search(e); {
	case !ok:
		n.list.remove(e)
	case i == 0: // without moving the others
		n.raised[0], n.raised = nil, n.raised[1:]
	default:
		n.raised = slices.Delete(n.raised, i, i+1)
	}
}

// search returns the place of e in raised, and whether it is there.
func (n *lane[K]) search(e *entry[K]) (int, bool) {
	return slices.BinarySearchFunc(n.raised, e.number, func(r *entry[K], number uint64) int { return cmp.Compare(r.number, number) })
}

// head returns the next entry, nil if the lane is empty.
func (n *lane[K]) head() *entry[K] {
	e := n.list.head()
	if len(n.raised) > 0 && (e == nil || n.raised[0].number < e.number) {
		return n.raised[0]
	}
	return e
}

// join returns the group of a name, a new one if there is none, for one more entry.
func (o *order[K]) join(name string) *group[K] {
	g := o.groups[name]
	if g == nil {
		g = reuse(&o.spareGroups)
		g.name = name
		o.groups[name] = g
		o.peak = max(o.peak, len(o.groups))
	}
	g.keys++
	return g
}

// leave removes an entry from g.
func (o *order[K]) leave(g *group[K]) {
	g.keys--
	if g.keys > 0 {
		return
	}
	delete(o.groups, g.name)
	*g = group[K]{lanes: g.lanes[:0]}
	o.spareGroups = spare(o.spareGroups, g)
	if o.peak > keep && len(o.groups) <= o.peak/16 { // a map keeps the memory of its largest size
		o.groups = maps.Collect(maps.All(o.groups))
		o.peak = len(o.groups)
	}
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
