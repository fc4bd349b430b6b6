package workqueue

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
)

// order is the keys that are ready, in the order in which they are to be handed out. It knows nothing of what else the
// queue does with a key.
//
// While nobody uses priorities or groups there is one line and nothing else. Otherwise there is a level for each priority
// in use, and in each level a lane for each group that has something ready there, or one lane for all. The lanes of a level take
// turns. Between levels age decides: see isOlder.
//
// Invariants, which check tests:
//
//  1. Either levels is empty, and what is ready is in plain; or plain is empty, and what is ready is in the lane of its
//     priority and its group.
//  2. levels is sorted, the highest priority first.
//  3. A lane takes turns if and only if it is not empty and its group may have one more key in process.
//  4. n counts what is ready, turns the lanes that take turns.
//  5. A lane hands out in the order of the numbers, which is that in which its keys became ready.
type order[K comparable] struct {
	n      int
	plain  line[K]
	levels []*level[K]
	turns  int

	ageing int64 // the wait that is worth a priority, in nanoseconds; not positive for none
	limit  int   // of keys in process of a group; 0 for none
	groups map[string]*group[K]
	peak   int // the most groups since the map was made

	spareLanes  []*lane[K] // to use again, keep of them at most
	spareGroups []*group[K]
}

// level is what is ready of one priority.
type level[K comparable] struct {
	priority int
	turn     *lane[K] // a ring: the lane whose turn it is; nil when none takes turns
	only     *lane[K] // the lane of what has no group
	n        int
}

// lane is what is ready of one priority and one group. What was raised to the priority while it was ready became so before
// some of the line did, so it stands apart: the next is the first of either.
type lane[K comparable] struct {
	line       line[K]
	raised     raised[K]
	level      *level[K]
	group      *group[K]
	prev, next *lane[K] // the ring of those that take turns; nil outside of it
}

// group is the keys that share a name: they take turns with the other groups, and there may be a limit to how many of them
// are in process.
type group[K comparable] struct {
	name      string
	keys      int // entries that belong to it
	inProcess int
	lanes     []*lane[K] // those that are not empty
}

// maxLevels is the number of levels up to which a queue keeps those that are empty.
const maxLevels = 16

// graded reports whether there are levels: then each push needs the time.
func (o *order[K]) graded() bool { return len(o.levels) > 0 }

// grade makes the levels.
func (o *order[K]) grade() {
	l := o.level(0)
	l.n = o.plain.n
	l.only.line, o.plain = o.plain, line[K]{pool: o.plain.pool}
	if l.n > 0 {
		o.open(l.only)
	}
}

// push puts e in its line, by its number: at the end, unless it was raised.
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

// pop takes what is next, or returns nil when nothing may be handed out.
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
		if l.turn != nil && (best == nil || o.isOlder(l.turn.first(), best.turn.first())) {
			best = l
		}
	}
	if best == nil {
		return nil
	}
	n := best.turn
	best.turn = n.next
	e := n.first()
	o.removeFrom(n, e)
	return e
}

// isOlder reports whether e became ready so long before best, which has a higher priority, that it is not overtaken: longer before than the difference of the priorities is worth. It is the exact comparison of
// the times at which they became ready, each moved back by what the priority is worth.
func (o *order[K]) isOlder(e, best *entry[K]) bool {
	if o.ageing <= 0 {
		return false
	}
	before := best.since - e.since
	// The difference of any two priorities fits in 64 bits without a sign, their product with Ageing perhaps not.
	high, low := bits.Mul64(uint64(best.priority)-uint64(e.priority), uint64(o.ageing))
	return before > 0 && high == 0 && uint64(before) > low
}

// remove takes e, which is ready, out of its line.
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
	if n.len() > 0 {
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

// available reports whether something may be handed out.
func (o *order[K]) available() bool { return o.plain.n > 0 || o.turns > 0 }

// begin notes that a key of g is handed out.
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

// end notes that a key of g is done. It reports whether one more of the group may be handed out for that: each time, since
// each time it is another worker who can take it.
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

// mayStart reports whether one more key of g may be in process.
func (o *order[K]) mayStart(g *group[K]) bool {
	return g == nil || o.limit <= 0 || g.inProcess < o.limit
}

// open lets a lane take turns, as the last in the ring.
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

// close takes a lane out of the ring.
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
	l.only = &lane[K]{level: l, line: line[K]{pool: o.plain.pool}}
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
	n.level, n.group, n.line.pool = l, g, o.plain.pool
	g.lanes = append(g.lanes, n)
	return n
}

// join returns the group of a name, a new one if there is none, for one more key.
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

// leave takes a key out of its group.
func (o *order[K]) leave(g *group[K]) {
	g.keys--
	if g.keys > 0 {
		return
	}
	delete(o.groups, g.name)
	*g = group[K]{lanes: g.lanes[:0]}
	o.spareGroups = spare(o.spareGroups, g)
	o.groups, o.peak = shrunk(o.groups, o.peak)
}

// spare keeps a value to use again, unless there are enough of them.
func spare[T any](stock []*T, value *T) []*T {
	if len(stock) < keep {
		stock = append(stock, value)
	}
	return stock
}

// reuse takes a spare value, or makes a new one.
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

// shrunk returns m, or a copy of it in a map of its own size when m was much larger once: a map keeps the memory of its
// largest size. It also returns the size to remember.
func shrunk[K comparable, V any](m map[K]V, peak int) (map[K]V, int) {
	if peak <= keep || len(m) > peak/16 {
		return m, peak
	}
	small := make(map[K]V, len(m))
	maps.Copy(small, m)
	return small, len(small)
}
