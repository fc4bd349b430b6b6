package entry

import (
	"errors"
	"fmt"
	"iter"
)

// Check returns an error if an invariant of t or of its storage does not hold.
func (t *Table[K]) Check() error {
	for hash, n := range t.slots.All() {
		if hash != t.pool.at(id(n)).hash {
			return fmt.Errorf("table: the slot of entry %d has the hash of another", n)
		}
	}
	return errors.Join(t.slots.Check(), t.pool.check())
}

// Kept returns the number of entries for which t has memory beyond those in use.
func (t *Table[K]) Kept() int { return max(t.slots.Size()/2, int(t.pool.size-t.pool.n)) }

func (p *pool[K]) check() error {
	open, err := p.list(p.open)
	gone, err2 := p.list(p.gone)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	n, size, unused, own := 0, 0, 0, 0
	for i, c := range p.chunks {
		number := int32(i)
		var free [ChunkSize]bool
		frees := 0
		for i := c.free; i != 0; i = p.at(i).next {
			e := *p.at(i)
			if i/ChunkSize != id(number) || free[i%ChunkSize] || *e.Details != (Details[K]{}) || e != (Entry[K]{id: i, next: e.next, Details: e.Details}) {
				return fmt.Errorf("pool 2, 5: a free entry of chunk %d is %+v", number, e)
			}
			free[i%ChunkSize] = true
			own += count(e.Details != &p.plain)
			frees++
		}
		for j := range c.entries {
			if e := &c.entries[j]; e.id != id(i*ChunkSize+j) || e.id > 0 && !free[j] && e.Number == 0 {
				return fmt.Errorf("pool 1, 2: an entry of chunk %d is %+v", number, *e)
			}
		}
		if int(c.used)+frees != len(c.entries) || open[i] != (frees > 0) || gone[i] != (c.entries == nil) {
			return fmt.Errorf("pool 2, 3: chunk %d counts %d used, %d are free of %d", number, c.used, frees, len(c.entries))
		}
		n, size = n+int(c.used), size+len(c.entries)
		if c.used == 0 {
			unused += len(c.entries)
		}
	}
	if own > keepDetails+1 {
		return fmt.Errorf("pool 6: %d free entries have details", own)
	}
	if unused > keep {
		return fmt.Errorf("pool 4: chunks with %d entries of which none is used", unused)
	}
	if n != int(p.n) || size != int(p.size) || p.plain != (Details[K]{}) {
		return fmt.Errorf("pool 2, 5: %d of %d entries used, counted %d of %d; plain is %+v", n, size, p.n, p.size, p.plain)
	}
	return nil
}

// list returns the chunks in the list that begins with first.
func (p *pool[K]) list(first int32) ([]bool, error) {
	all := make([]bool, len(p.chunks))
	prev := int32(noChunk)
	for i := first; i != noChunk; prev, i = i, p.chunks[i].next {
		if all[i] || p.chunks[i].entries != nil && p.chunks[i].prev != prev {
			return nil, fmt.Errorf("pool 3: the list of chunk %d is broken", i)
		}
		all[i] = true
	}
	return all, nil
}

// Check returns an error if l is not a list, or has an entry that is not in the given state.
func (l *List[K]) Check(state State) error {
	n := 0
	var prev id
	for e := range l.All() {
		n++
		if e.prev != prev || n > l.n || e.State != state {
			return fmt.Errorf("list: entry %d of %d is %+v, after %d, want state %d", n, l.n, *e, prev, state)
		}
		prev = e.id
	}
	if l.last != prev || n != l.n {
		return fmt.Errorf("list: %d entries, counted %d; the last is %d, not %d", n, l.n, prev, l.last)
	}
	return nil
}

// Check returns an error if an invariant of l does not hold. all are the entries of the table.
func (l *Line[K]) Check(all iter.Seq[*Entry[K]]) error {
	if l.Graded() && l.plain.n > 0 {
		return errors.New("line 1: there are levels and a plain list")
	}
	if err := l.plain.Check(Ready); err != nil {
		return err
	}
	n, turns := l.plain.n, 0
	for i, lv := range l.levels {
		if i > 0 && lv.priority >= l.levels[i-1].priority {
			return errors.New("line 2: the levels are not sorted")
		}
		inLevel, inRing, err := l.checkLevel(lv)
		if err != nil {
			return err
		}
		n, turns = n+inLevel, turns+inRing
	}
	if n != l.n || turns != l.turns {
		return fmt.Errorf("line 4: %d ready, counted %d; %d lanes take turns, counted %d", n, l.n, turns, l.turns)
	}
	ready := 0
	for e := range all {
		ready += count(e.State == Ready)
	}
	if ready != n {
		return fmt.Errorf("line 1: %d entries in line, %d are ready", n, ready)
	}
	if l.groups == nil {
		return nil
	}
	return l.checkGroups(all)
}

// checkLevel returns the number of entries in a level, and of the lanes that take turns.
func (l *Line[K]) checkLevel(lv *level[K]) (n, turns int, err error) {
	lanes := []*lane[K]{lv.only}
	for _, g := range l.groups {
		for _, n := range g.lanes {
			if n.head() == nil {
				return 0, 0, errors.New("line: a lane of a group is empty")
			}
			if n.level == lv {
				lanes = append(lanes, n)
			}
		}
	}
	ring := map[*lane[K]]bool{}
	for n := lv.turn; n != nil && !ring[n]; n = n.next {
		if n.next.prev != n {
			return 0, 0, errors.New("line: a ring is broken")
		}
		ring[n] = true
	}
	for _, lane := range lanes {
		all := lane.entries()
		if ring[lane] != (len(all) > 0 && l.mayStart(lane.group)) {
			return 0, 0, fmt.Errorf("line 3: a lane with %d keys takes turns: %v", len(all), ring[lane])
		}
		if err := lane.check(); err != nil {
			return 0, 0, err
		}
		for _, e := range all {
			if e.Priority != lv.priority || e.group != lane.group {
				return 0, 0, fmt.Errorf("line 1: %v is in the wrong lane", e.Key)
			}
		}
		n += len(all)
	}
	if n != lv.n {
		return 0, 0, fmt.Errorf("line 4: %d keys in a level, counted %d", n, lv.n)
	}
	return n, len(ring), nil
}

func (n *lane[K]) check() error {
	if err := n.list.Check(Ready); err != nil {
		return err
	}
	var prev *Entry[K]
	for e := range n.list.All() {
		if prev != nil && (prev.Number >= e.Number || prev.Since > e.Since) {
			return errors.New("line 5: a list is not in the order of its numbers")
		}
		prev = e
	}
	for i, e := range n.raised {
		if e.State != Ready || i > 0 && n.raised[i-1].Number >= e.Number {
			return errors.New("line 5: the raised entries are not sorted")
		}
	}
	return nil
}

func (l *Line[K]) checkGroups(all iter.Seq[*Entry[K]]) error {
	groups := map[*group[K]][2]int{}
	for e := range all {
		if e.group != nil {
			g := groups[e.group]
			groups[e.group] = [2]int{g[0] + 1, g[1] + count(e.State == Processing)}
		}
	}
	for name, g := range l.groups {
		if got := [2]int{g.keys, g.inProcess}; g.name != name || got != groups[g] {
			return fmt.Errorf("line 6: group %q counts %v, there are %v", name, got, groups[g])
		}
	}
	if len(groups) != len(l.groups) {
		return fmt.Errorf("line 6: %d groups, %d in use", len(l.groups), len(groups))
	}
	return nil
}

// Kept returns the number of entries, groups, and lanes for which l has memory although it does not need it.
func (l *Line[K]) Kept() int {
	raised := 0
	for _, lv := range l.levels {
		raised += cap(lv.only.raised)
	}
	return max(raised, l.peak, len(l.spareGroups), len(l.spareLanes), len(l.levels))
}

// Levels returns the number of priorities for which l has memory.
func (l *Line[K]) Levels() int { return len(l.levels) }

// Check returns an error if an invariant of s does not hold. all are the entries of the table.
func (s *Schedule[K]) Check(all iter.Seq[*Entry[K]]) error {
	counted := 0
	for i, w := range s.heap {
		if i > 0 && s.before(w, s.heap[(i-1)/4]) {
			return fmt.Errorf("schedule 3: %d is before its parent", i)
		}
		if !s.counts(w) {
			continue
		}
		counted++
		if e := s.pool.at(w.entry); w.due != e.Due() {
			return fmt.Errorf("schedule 4: %v is scheduled for %d, not for %d", e.Key, w.due, e.Due())
		}
	}
	if counted != s.n || len(s.heap) > 2*s.n+slack {
		return fmt.Errorf("schedule 1, 2: of %d in the heap %d count, counted %d", len(s.heap), counted, s.n)
	}
	scheduled := 0
	for e := range all {
		scheduled += count(e.IsScheduled())
		if e.IsScheduled() != (e.Due() != 0) {
			return fmt.Errorf("schedule 4: %v is due at %d, and scheduled: %v", e.Key, e.Due(), e.IsScheduled())
		}
	}
	if scheduled != s.n {
		return fmt.Errorf("schedule 1: %d scheduled, counted %d", scheduled, s.n)
	}
	return nil
}

// Kept returns the number of wakeups for which s has memory.
func (s *Schedule[K]) Kept() int { return cap(s.heap) }

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
