package entry

import (
	"cmp"
	"math/bits"
	"slices"
)

// Line holds the ready entries in the order in which they leave.
//
// Without priorities or groups, it is one list. Otherwise there is a level for each priority in use. A level has a lane for each group with
// ready entries in it, or one lane for all. The lanes of a level take turns. Between levels, age decides: see isOlder.
//
// Invariants, which Check tests:
//
//  1. Either levels is empty and all entries are in plain, or plain is empty and each entry is in the lane of its priority and
//     its group.
//  2. levels is sorted, the highest priority first.
//  3. A lane takes turns if and only if it is not empty and its group may have one more entry in process.
//  4. n counts the entries, and turns the lanes that take turns.
//  5. A lane is in the order of the entries' numbers, which is the order in which they became ready.
//  6. A group counts its entries, and those of them that are in process.
type Line[K comparable] struct {
	pool   *pool[K]
	n      int
	plain  List[K]
	levels []*level[K]
	turns  int

	aging  int64                // the waiting time that is worth one priority, in nanoseconds; not positive for none
	limit  int                  // of a group's entries in process; 0 for none
	groups map[string]*group[K] // nil without groups
	peak   int                  // the greatest number of groups since the map was made

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

// maxLevels is the number of levels up to which the line keeps empty ones.
const maxLevels = 16

// NewLine returns an empty line for entries of t. aging is the waiting time that is worth one priority, in nanoseconds; if it is not positive,
// none is. With grouped, the caller joins each entry to a group, of which at most limit entries are in process; 0 is no limit.
func NewLine[K comparable](t *Table[K], aging int64, grouped bool, limit int) Line[K] {
	l := Line[K]{pool: t.pool, plain: t.NewList(), aging: aging}
	if grouped {
		l.limit = limit
		l.groups = make(map[string]*group[K])
		l.Grade(0)
	}
	return l
}

// Len returns the number of entries.
func (l *Line[K]) Len() int { return l.n }

// Graded reports whether the line is sorted by priority. If so, each Push needs Since.
func (l *Line[K]) Graded() bool { return len(l.levels) > 0 }

// Grade sorts the line by priority from now on. It is called once. If since is not 0, the entries in line count as ready since then.
func (l *Line[K]) Grade(since int64) {
	if since != 0 {
		for e := range l.plain.All() {
			l.pool.own(e).Since = since
		}
	}
	lv := l.level(0)
	lv.n = l.plain.n
	lv.only.list, l.plain = l.plain, List[K]{pool: l.pool}
	if lv.n > 0 {
		l.open(lv.only)
	}
}

// Push adds e, which is ready, at the end of its lane, or at the place that its Number gives it if it was raised.
func (l *Line[K]) Push(e *Entry[K]) {
	l.n++
	if !l.Graded() {
		l.plain.Push(e)
		return
	}
	lv := l.level(e.Priority)
	n := l.lane(lv, e.group)
	n.push(e)
	lv.n++
	if l.mayStart(e.group) {
		l.open(n)
	}
}

// Pop removes and returns the next entry, or returns nil if none may be dispatched.
func (l *Line[K]) Pop() *Entry[K] {
	if !l.Graded() {
		e := l.plain.Head()
		if e != nil {
			l.plain.Remove(e)
			l.n--
		}
		return e
	}
	var best *level[K]
	for _, lv := range l.levels {
		if lv.turn != nil && (best == nil || l.isOlder(lv.turn.head(), best.turn.head())) {
			best = lv
		}
	}
	if best == nil {
		return nil
	}
	n := best.turn
	best.turn = n.next
	e := n.head()
	l.removeFrom(n, e)
	return e
}

// isOlder reports whether best, which has a higher priority than e, must not overtake e. That is so if e became ready earlier by more time
// than the difference of the priorities is worth.
func (l *Line[K]) isOlder(e, best *Entry[K]) bool {
	if l.aging <= 0 {
		return false
	}
	before := best.Since - e.Since
	// The difference of any two priorities fits in 64 unsigned bits. Its product with aging may not.
	high, low := bits.Mul64(uint64(best.Priority)-uint64(e.Priority), uint64(l.aging))
	return before > 0 && high == 0 && uint64(before) > low
}

// Remove removes e, wherever it is.
func (l *Line[K]) Remove(e *Entry[K]) {
	if !l.Graded() {
		l.plain.Remove(e)
		l.n--
		return
	}
	l.removeFrom(l.lane(l.level(e.Priority), e.group), e)
}

// Raise gives e a higher priority. If e is ready, it moves to its place by age among the entries of that priority. The line must be graded.
func (l *Line[K]) Raise(e *Entry[K], priority int) {
	if e.State != Ready {
		l.pool.own(e).Priority = priority
		return
	}
	l.Remove(e)
	l.pool.own(e).Priority = priority
	l.Push(e)
}

func (l *Line[K]) removeFrom(n *lane[K], e *Entry[K]) {
	n.remove(e)
	lv := n.level
	lv.n--
	l.n--
	if n.head() != nil {
		return
	}
	l.close(n)
	n.raised = nil
	if lv.n == 0 && len(l.levels) > maxLevels && lv.priority != 0 {
		l.levels = slices.DeleteFunc(l.levels, func(other *level[K]) bool { return other == lv })
	}
	if g := n.group; g != nil {
		i := slices.Index(g.lanes, n)
		g.lanes = slices.Delete(g.lanes, i, i+1)
		*n = lane[K]{}
		l.spareLanes = spare(l.spareLanes, n)
	}
}

// Available reports whether an entry may be dispatched.
func (l *Line[K]) Available() bool { return l.plain.n > 0 || l.turns > 0 }

// level returns the level of a priority, a new one if there is none.
func (l *Line[K]) level(priority int) *level[K] {
	i, ok := slices.BinarySearchFunc(l.levels, priority, func(lv *level[K], p int) int { return cmp.Compare(p, lv.priority) })
	if ok {
		return l.levels[i]
	}
	lv := &level[K]{priority: priority}
	lv.only = &lane[K]{level: lv, list: List[K]{pool: l.pool}}
	l.levels = slices.Insert(l.levels, i, lv)
	return lv
}

// lane returns the lane of a level and a group, a new one if there is none.
func (l *Line[K]) lane(lv *level[K], g *group[K]) *lane[K] {
	if g == nil {
		return lv.only
	}
	for _, n := range g.lanes {
		if n.level == lv {
			return n
		}
	}
	n := reuse(&l.spareLanes)
	n.level, n.group, n.list.pool = lv, g, l.pool
	g.lanes = append(g.lanes, n)
	return n
}

// Oldest returns the least Since of the entries, or 0 if there is none. It calls pause after each group. The caller may release the lock in
// pause: then the result may be stale.
func (l *Line[K]) Oldest(pause func()) (oldest int64) {
	note := func(e *Entry[K]) {
		if e != nil && (oldest == 0 || e.Since < oldest) {
			oldest = e.Since
		}
	}
	note(l.plain.Head())
	for _, lv := range l.levels {
		note(lv.only.head())
	}
	for _, g := range l.groups {
		for _, n := range g.lanes {
			note(n.head())
		}
		pause()
	}
	return oldest
}

// queued is what is left of a lane.
type queued[K comparable] struct {
	entries []*Entry[K]
	group   *group[K]
}

// Keys returns the keys that Pop would return, one after the other, if each were begun and none ended.
func (l *Line[K]) Keys() []K {
	keys := make([]K, 0, l.n)
	for e := range l.plain.All() {
		keys = append(keys, e.Key)
	}
	levels := make([][]queued[K], len(l.levels)) // of each, the lanes in the order of their turns
	for i, lv := range l.levels {
		for n := lv.turn; n != nil; {
			levels[i] = append(levels[i], queued[K]{n.entries(), n.group})
			if n = n.next; n == lv.turn {
				break
			}
		}
	}
	began := make(map[*group[K]]int)
	for {
		best := -1
		for i, lanes := range levels {
			if len(lanes) > 0 && (best < 0 || l.isOlder(lanes[0].entries[0], levels[best][0].entries[0])) {
				best = i
			}
		}
		if best < 0 {
			return keys
		}
		first := levels[best][0]
		keys = append(keys, first.entries[0].Key)
		levels[best] = levels[best][1:]
		if first.entries = first.entries[1:]; len(first.entries) > 0 {
			levels[best] = append(levels[best], first)
		}
		g := first.group
		if began[g]++; g != nil && l.limit > 0 && g.inProcess+began[g] >= l.limit {
			for i := range levels {
				levels[i] = slices.DeleteFunc(levels[i], func(left queued[K]) bool { return left.group == g })
			}
		}
	}
}
