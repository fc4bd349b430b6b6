package workqueue

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
)

// line holds the ready entries in the order in which they leave: first in, first out within a priority and a group. Groups take turns within
// a priority, and none has more entries in process than the limit. An entry of higher priority leaves first, unless the other has become ready
// earlier by more than the aging allows.
//
// Without priorities or groups, it is one list. Otherwise there is a level for each priority in use. A level has a lane for each group with
// ready entries in it, or one lane for all. The lanes of a level take turns. Between levels, age decides: see isOlder.
//
// Invariants, which CheckInvariants tests:
//
//  1. Either levels is empty and all entries are in plain, or plain is empty and each entry is in the lane of its priority and
//     its group.
//  2. levels is sorted, the highest priority first.
//  3. A lane takes turns if and only if it is not empty and its group may have one more entry in process.
//  4. n counts the entries, and turns the lanes that take turns.
//  5. A lane is in the order of the entries' numbers, which is the order in which they became ready.
//  6. A group counts its entries, and those of them that are in process.
//  7. A level counts the dirty entries of its priority.
type line[K comparable] struct {
	pool   *pool[K]
	n      int
	plain  list[K]
	levels []*level[K]
	turns  int

	aging  int64                // the waiting time that is worth one priority, in nanoseconds; not positive for none
	limit  int                  // of a group's entries in process; 0 for none
	groups map[string]*group[K] // nil without groups
	all    bool                 // each entry has a group, even if its name is empty
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
	dirty    int // dirty entries of this priority, which are not in line
}

// maxLevels is the number of levels up to which the line keeps empty ones.
const maxLevels = 16

// newLine returns an empty line for entries of t. aging is the waiting time that is worth one priority, in nanoseconds; if it is not positive,
// none is. With grouped, the caller calls join for each entry, of which at most limit entries are in process; 0 is no limit.
func newLine[K comparable](t *table[K], aging int64, grouped bool, limit int) line[K] {
	l := line[K]{pool: t.pool, plain: t.newList(), aging: aging}
	if grouped {
		l.limit, l.all = limit, true
		l.useGroups()
		l.prioritize(0, 0)
	}
	return l
}

// len returns the number of entries.
func (l *line[K]) len() int { return l.n }

// prioritized reports whether the line is sorted by priority. If so, each push needs since.
func (l *line[K]) prioritized() bool { return len(l.levels) > 0 }

// prioritize sorts the line by priority from now on. It is called once. If since is not 0, the entries in line count as ready since then.
// dirty of the others are dirty.
func (l *line[K]) prioritize(since int64, dirty int) {
	if since != 0 {
		for e := range l.plain.all() {
			l.pool.edit(e).since = since
		}
	}
	lv := l.level(0)
	lv.n, lv.dirty = l.plain.n, dirty
	lv.only.list, l.plain = l.plain, list[K]{pool: l.pool}
	if lv.n > 0 {
		l.open(lv.only)
	}
}

// push adds e, which is ready, at the end of its lane, or at the place that its number gives it if it was raised.
func (l *line[K]) push(e *entry[K]) {
	l.n++
	if !l.prioritized() {
		l.plain.push(e)
		return
	}
	lv := l.level(e.priority)
	n := l.lane(lv, e.group)
	n.push(e)
	lv.n++
	if l.mayStart(e.group) {
		l.open(n)
	}
}

// pop removes and returns the next entry, or returns nil if none may be dispatched.
func (l *line[K]) pop() *entry[K] {
	if !l.prioritized() {
		e := l.plain.head()
		if e != nil {
			l.plain.remove(e)
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
func (l *line[K]) isOlder(e, best *entry[K]) bool {
	if l.aging <= 0 {
		return false
	}
	before := best.since - e.since
	// The difference of any two priorities fits in 64 unsigned bits. Its product with aging may not.
	high, low := bits.Mul64(uint64(best.priority)-uint64(e.priority), uint64(l.aging))
	return before > 0 && high == 0 && uint64(before) > low
}

// remove removes e, wherever it is.
func (l *line[K]) remove(e *entry[K]) {
	if !l.prioritized() {
		l.plain.remove(e)
		l.n--
		return
	}
	l.removeFrom(l.lane(l.level(e.priority), e.group), e)
}

// raise gives e a priority. If e is ready, it moves to its place by age among the entries of that priority. The line must be prioritized.
func (l *line[K]) raise(e *entry[K], priority int) {
	if e.state != Ready {
		if e.dirty {
			l.countDirty(e, -1)
		}
		l.pool.edit(e).priority = priority
		if e.dirty {
			l.countDirty(e, 1)
		}
		return
	}
	l.remove(e)
	l.pool.edit(e).priority = priority
	l.push(e)
}

func (l *line[K]) removeFrom(n *lane[K], e *entry[K]) {
	n.remove(e)
	lv := n.level
	lv.n--
	l.n--
	if n.head() != nil {
		return
	}
	l.close(n)
	n.raised = nil
	l.tidy(lv)
	if g := n.group; g != nil {
		i := slices.Index(g.lanes, n)
		g.lanes = slices.Delete(g.lanes, i, i+1)
		*n = lane[K]{}
		l.spareLanes = spare(l.spareLanes, n)
	}
}

// countDirty records that e, which is in process, has become dirty, or with -1 is no longer so.
func (l *line[K]) countDirty(e *entry[K], by int) {
	if l.prioritized() {
		lv := l.level(e.priority)
		lv.dirty += by
		l.tidy(lv)
	}
}

// tidy removes lv if it is not needed and there are many.
func (l *line[K]) tidy(lv *level[K]) {
	if lv.n == 0 && lv.dirty == 0 && len(l.levels) > maxLevels && lv.priority != 0 {
		l.levels = slices.DeleteFunc(l.levels, func(other *level[K]) bool { return other == lv })
	}
}

// available reports whether an entry may be dispatched.
func (l *line[K]) available() bool { return l.plain.n > 0 || l.turns > 0 }

// level returns the level of a priority, a new one if there is none.
func (l *line[K]) level(priority int) *level[K] {
	i, ok := slices.BinarySearchFunc(l.levels, priority, func(lv *level[K], p int) int { return cmp.Compare(p, lv.priority) })
	if ok {
		return l.levels[i]
	}
	lv := &level[K]{priority: priority}
	lv.only = &lane[K]{level: lv, list: list[K]{pool: l.pool}}
	l.levels = slices.Insert(l.levels, i, lv)
	return lv
}

// lane returns the lane of a level and a group, a new one if there is none.
func (l *line[K]) lane(lv *level[K], g *group[K]) *lane[K] {
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

// oldest returns the least since of the entries, or 0 if there is none. It calls pause after each group. The caller may release the lock in
// pause: then the result may be stale.
func (l *line[K]) oldest(pause func()) (oldest int64) {
	note := func(e *entry[K]) {
		if e != nil && (oldest == 0 || e.since < oldest) {
			oldest = e.since
		}
	}
	note(l.plain.head())
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
	entries []*entry[K]
	group   *group[K]
}

// keys returns the keys that pop would return, one after the other, if each were begun and none ended.
func (l *line[K]) keys() []K {
	keys := make([]K, 0, l.n)
	for e := range l.plain.all() {
		keys = append(keys, e.key)
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
		keys = append(keys, first.entries[0].key)
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

// lane holds the entries of one priority and one group. Entries that were raised to the priority while they were ready may be older than
// some in the list. They are in raised, sorted by number. Of the heads of raised and the list, the older comes first.
type lane[K comparable] struct {
	list       list[K]
	raised     []*entry[K]
	level      *level[K]
	group      *group[K]
	prev, next *lane[K] // the ring of lanes that take turns; nil outside of it
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

// len returns the number of entries.
func (n *lane[K]) len() int { return n.list.n + len(n.raised) }

// head returns the next entry, nil if the lane is empty.
func (n *lane[K]) head() *entry[K] {
	e := n.list.head()
	if len(n.raised) > 0 && (e == nil || n.raised[0].number < e.number) {
		return n.raised[0]
	}
	return e
}

// entries returns the entries of the lane, in order.
func (n *lane[K]) entries() []*entry[K] {
	entries := append(slices.Collect(n.list.all()), n.raised...)
	slices.SortFunc(entries, func(a, b *entry[K]) int { return cmp.Compare(a.number, b.number) })
	return entries
}

// open puts n at the end of its level's ring.
func (l *line[K]) open(n *lane[K]) {
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
func (l *line[K]) close(n *lane[K]) {
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

// The methods join, leave, begin, and end are called for each key, with or without groups. They are short so that they are inlined.

// join puts e, which has no group, in the group of that name. Without groups, or without a name unless each entry has a group, it does nothing.
func (l *line[K]) join(e *entry[K], name string) {
	if l.groups != nil {
		l.joinGroup(e, name)
	}
}

func (l *line[K]) joinGroup(e *entry[K], name string) {
	if name == "" && !l.all {
		return
	}
	g := l.groups[name]
	if g == nil {
		g = reuse(&l.spareGroups)
		g.name = name
		l.groups[name] = g
		l.peak = max(l.peak, len(l.groups))
	}
	g.keys++
	l.pool.edit(e).group = g
}

// leave removes e from its group, if it has one. The caller removes e from the table next.
func (l *line[K]) leave(e *entry[K]) {
	if e.group != nil {
		l.leaveGroup(e.group)
	}
}

func (l *line[K]) leaveGroup(g *group[K]) {
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

// useGroups makes groups possible. The line must be prioritized, or is so before its first entry. Entries that are there have no group.
func (l *line[K]) useGroups() {
	if l.groups == nil {
		l.groups = make(map[string]*group[K])
	}
}

// ready returns the number of ready entries of a group, or of those without one if g is nil.
func (l *line[K]) ready(g *group[K]) (n int) {
	if g == nil {
		for _, lv := range l.levels {
			n += lv.only.len()
		}
		return n
	}
	for _, lane := range g.lanes {
		n += lane.len()
	}
	return n
}

// regroup moves e to the group of that name. If e is ready, it moves to its place by age. There must be no limit for groups.
func (l *line[K]) regroup(e *entry[K], name string) {
	switch e.state {
	case Ready:
		l.remove(e)
		defer l.push(e)
	case InProcess:
		l.end(e)
		defer l.begin(e)
	}
	l.leave(e)
	l.pool.edit(e).group = nil
	l.joinGroup(e, name)
}

// begin records that e, which was removed from the line, is in process.
func (l *line[K]) begin(e *entry[K]) {
	if e.group != nil {
		l.beginInGroup(e.group)
	}
}

func (l *line[K]) beginInGroup(g *group[K]) {
	g.inProcess++
	if !l.mayStart(g) {
		for _, n := range g.lanes {
			l.close(n)
		}
	}
}

// end records that e is no longer in process. It reports whether another entry of its group may now be dispatched. It does so on every call,
// because each call lets another worker take one.
func (l *line[K]) end(e *entry[K]) bool { return e.group != nil && l.endInGroup(e.group) }

func (l *line[K]) endInGroup(g *group[K]) bool {
	g.inProcess--
	if l.limit <= 0 || len(g.lanes) == 0 {
		return false
	}
	for _, n := range g.lanes {
		l.open(n)
	}
	return true
}

// mayStart reports whether one more entry of g may be in process.
func (l *line[K]) mayStart(g *group[K]) bool {
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
