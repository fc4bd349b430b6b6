package workqueue

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"unsafe"
)

// CheckInvariants returns what is wrong with the invariants of Queue.mu and of its parts; nil if nothing is.
func (q *Queue[K]) CheckInvariants() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.entries.all()
	return errors.Join(q.checkEntries(), q.entries.check(), q.line.check(all), q.schedule.check(all), q.checkWaiters(),
		q.parked.check(Parked), q.remembered.check(Remembered), q.busy.check(InProcess))
}

// BeginShutDown is the first step of ShutDown, and EndSome each of the others. EndSome reports whether there are more.
func (q *Queue[K]) BeginShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.beginShutDownLocked()
}

func (q *Queue[K]) EndSome() (more bool) { return q.endSome() }

func (q *Queue[K]) checkEntries() error {
	var n [Remembered + 1]int
	dirty, quiet := 0, 0
	for e := range q.entries.all() {
		k := e.key
		n[e.state]++
		switch {
		case e.state == Delayed && !e.isScheduled():
			return fmt.Errorf("1: the entry of %v has no reason to be", k)
		case e.state == Remembered && (e.isScheduled() || !e.mustRemember()):
			return fmt.Errorf("1: there is nothing to remember of %v", k)
		case e.number == 0 || e.number > q.changes:
			return fmt.Errorf("1: the number of %v is %d of %d", k, e.number, q.changes)
		case e.state == Remembered && e.priority != 0:
			return fmt.Errorf("1: the priority of %v is remembered", k)
		case (e.dirty || e.spent) && e.state != InProcess, (e.quietUntil == 0) != (e.quietLimit == 0),
			(e.state == Ready || e.dirty) && (e.retryAt != 0 || e.quietUntil != 0), e.state == Parked && e.retryAt != 0,
			(e.addedAt != 0) != (q.cfg.Timestamps && (e.state == Ready || e.dirty)):
			return fmt.Errorf("3: %+v, %+v", *e, *e.details)
		}
		quiet += count(e.quietUntil != 0)
		dirty += count(e.dirty)
	}
	// Each list has only entries of its state, so the numbers show whether all of them are in it.
	for state, listed := range [...]int{
		Ready: q.line.len(), Parked: q.parked.len(), Remembered: q.remembered.len(), InProcess: q.busy.len(),
	} {
		if s := State(state); listed != n[s] && s != Delayed && (s != InProcess || q.cfg.Timestamps) {
			return fmt.Errorf("2: %d in the list of state %d, %d in that state", listed, state, n[state])
		}
	}
	if n[InProcess] != q.inProcess || dirty != q.dirty || quiet != q.quiet {
		return fmt.Errorf("4: %d in process, counted %d; %d dirty, counted %d; %d in their quiet time, counted %d",
			n[InProcess], q.inProcess, dirty, q.dirty, quiet, q.quiet)
	}
	if q.last != nil && (q.last.state != InProcess || q.entries.get(q.last.key) != q.last) {
		return fmt.Errorf("9: the last that was dispatched is %+v", *q.last)
	}
	return nil
}

func (q *Queue[K]) checkWaiters() error {
	if q.shutdown && (!q.waiters.empty() && (q.line.len()+q.dirty == 0 || q.paused) || q.schedule.len() > 0 || q.timer != nil && q.timer.Stop()) {
		return fmt.Errorf("6, 7: something waits after the shutdown")
	}
	if q.shutdown && q.armedFor != 0 {
		return fmt.Errorf("7: the timer is armed after the shutdown")
	}
	if due := q.firstDue(); due != 0 && !q.shutdown && (q.armedFor == 0 || q.armedFor > due) {
		return fmt.Errorf("7: the timer comes at %d, something is due at %d", q.armedFor, due)
	}
	if q.idle != nil && q.isIdleLocked() {
		return fmt.Errorf("8: somebody waits for an idle queue to be idle")
	}
	return nil
}

func (q *Queue[K]) firstDue() (due int64) {
	if q.remembered.len() > 0 && q.cfg.RememberFailures > 0 {
		due = q.remembered.head().since + int64(q.cfg.RememberFailures)
	}
	if q.schedule.len() > 0 && (due == 0 || q.schedule.firstDue() < due) {
		due = q.schedule.firstDue()
	}
	if due == math.MaxInt64 {
		return 0
	}
	return due
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// check returns an error if an invariant of t or of its storage does not hold.
func (t *table[K]) check() error {
	for hash, n := range t.slots.All() {
		if hash != t.pool.at(id(n)).hash {
			return fmt.Errorf("table: the slot of entry %d has the hash of another", n)
		}
	}
	return errors.Join(t.slots.Check(), t.pool.check())
}

// kept returns the number of entries for which t has memory beyond those in use.
func (t *table[K]) kept() int { return max(t.slots.Size()/2, int(t.pool.size-t.pool.n)) }

func (p *pool[K]) check() error {
	open, err := p.chunksIn(p.open)
	freed, err2 := p.chunksIn(p.freed)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	n, size, unused, own := 0, 0, 0, 0
	for i, c := range p.chunks {
		number := int32(i)
		var free [chunkSize]bool
		frees := 0
		for i := c.free; i != 0; i = p.at(i).next {
			e := *p.at(i)
			if i/chunkSize != id(number) || free[i%chunkSize] || *e.details != (details[K]{}) || e != (entry[K]{id: i, next: e.next, details: e.details}) {
				return fmt.Errorf("pool 2, 5: a free entry of chunk %d is %+v", number, e)
			}
			free[i%chunkSize] = true
			own += count(e.details != &p.noDetails)
			frees++
		}
		for j := range c.entries {
			if e := &c.entries[j]; e.id != id(i*chunkSize+j) || e.id > 0 && !free[j] && e.number == 0 {
				return fmt.Errorf("pool 1, 2: an entry of chunk %d is %+v", number, *e)
			}
		}
		if int(c.used)+frees != len(c.entries) || open[i] != (frees > 0) || freed[i] != (c.entries == nil) {
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
	if n != int(p.n) || size != int(p.size) || p.noDetails != (details[K]{}) {
		return fmt.Errorf("pool 2, 5: %d of %d entries used, counted %d of %d; noDetails is %+v", n, size, p.n, p.size, p.noDetails)
	}
	return nil
}

// chunksIn returns the chunks in the list that begins with first.
func (p *pool[K]) chunksIn(first int32) ([]bool, error) {
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

// check returns an error if l is not a list, or has an entry that is not in the given state.
func (l *list[K]) check(state State) error {
	n := 0
	var prev id
	for e := range l.all() {
		n++
		if e.prev != prev || n > l.n || e.state != state {
			return fmt.Errorf("list: entry %d of %d is %+v, after %d, want state %d", n, l.n, *e, prev, state)
		}
		prev = e.id
	}
	if l.last != prev || n != l.n {
		return fmt.Errorf("list: %d entries, counted %d; the last is %d, not %d", n, l.n, prev, l.last)
	}
	return nil
}

// check returns an error if an invariant of l does not hold. all are the entries of the table.
func (l *line[K]) check(all iter.Seq[*entry[K]]) error {
	if l.prioritized() && l.plain.n > 0 {
		return errors.New("line 1: there are levels and a plain list")
	}
	if err := l.plain.check(Ready); err != nil {
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
	dirty := map[int]int{}
	for e := range all {
		dirty[e.priority] += count(e.dirty)
	}
	for _, lv := range l.levels {
		if lv.dirty != dirty[lv.priority] {
			return fmt.Errorf("line 7: %d dirty of priority %d, counted %d", dirty[lv.priority], lv.priority, lv.dirty)
		}
		delete(dirty, lv.priority)
	}
	for priority, n := range dirty {
		if n > 0 && l.prioritized() {
			return fmt.Errorf("line 7: %d dirty of priority %d, which has no level", n, priority)
		}
	}
	if n != l.n || turns != l.turns {
		return fmt.Errorf("line 4: %d ready, counted %d; %d lanes take turns, counted %d", n, l.n, turns, l.turns)
	}
	ready := 0
	for e := range all {
		ready += count(e.state == Ready)
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
func (l *line[K]) checkLevel(lv *level[K]) (n, turns int, err error) {
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
			if e.priority != lv.priority || e.group != lane.group {
				return 0, 0, fmt.Errorf("line 1: %v is in the wrong lane", e.key)
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
	if err := n.list.check(Ready); err != nil {
		return err
	}
	var prev *entry[K]
	for e := range n.list.all() {
		if prev != nil && (prev.number >= e.number || prev.since > e.since) {
			return errors.New("line 5: a list is not in the order of its numbers")
		}
		prev = e
	}
	for i, e := range n.raised {
		if e.state != Ready || i > 0 && n.raised[i-1].number >= e.number {
			return errors.New("line 5: the raised entries are not sorted")
		}
	}
	return nil
}

func (l *line[K]) checkGroups(all iter.Seq[*entry[K]]) error {
	groups := map[*group[K]][2]int{}
	for e := range all {
		if e.group != nil {
			g := groups[e.group]
			groups[e.group] = [2]int{g[0] + 1, g[1] + count(e.state == InProcess)}
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

// kept returns the number of entries, groups, and lanes for which l has memory although it does not need it.
func (l *line[K]) kept() int {
	raised := 0
	for _, lv := range l.levels {
		raised += cap(lv.only.raised)
	}
	return max(raised, l.peak, len(l.spareGroups), len(l.spareLanes), len(l.levels))
}

// check returns an error if an invariant of s does not hold. all are the entries of the table.
func (s *schedule[K]) check(all iter.Seq[*entry[K]]) error {
	counted := 0
	for i, w := range s.heap {
		if i > 0 && w.before(s.heap[(i-1)/4]) {
			return fmt.Errorf("schedule 3: %d is before its parent", i)
		}
		if !s.counts(w) {
			continue
		}
		counted++
		if e := s.pool.at(w.entry); w.due != e.due() {
			return fmt.Errorf("schedule 4: %v is scheduled for %d, not for %d", e.key, w.due, e.due())
		}
	}
	if counted != s.n || len(s.heap) > 2*s.n+slack {
		return fmt.Errorf("schedule 1, 2: of %d in the heap %d count, counted %d", len(s.heap), counted, s.n)
	}
	scheduled := 0
	for e := range all {
		scheduled += count(e.isScheduled())
		if e.isScheduled() != (e.due() != 0) {
			return fmt.Errorf("schedule 4: %v is due at %d, and scheduled: %v", e.key, e.due(), e.isScheduled())
		}
	}
	if scheduled != s.n {
		return fmt.Errorf("schedule 1: %d scheduled, counted %d", scheduled, s.n)
	}
	return nil
}

// kept returns the number of deadlines for which s has memory.
func (s *schedule[K]) kept() int { return cap(s.heap) }

// Kept returns the number of entries, groups, slots and map cells that the queue holds memory for.
func (q *Queue[K]) Kept() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return max(q.entries.kept(), q.line.kept(), q.schedule.kept())
}

// Keys returns the number of keys whose failures the limiter counts.
func (r *ItemExponentialFailureRateLimiter[K]) Keys() int { return r.failures.len() }

// Keys returns the number of keys whose failures the limiter counts.
func (r *ItemJitteredRateLimiter[K]) Keys() int { return r.failures.len() }

// Keys returns the number of keys whose failures the limiter counts.
func (r *ItemFastSlowRateLimiter[K]) Keys() int { return r.failures.len() }

func (c *counter[K]) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.counts) + len(c.older)
}

// Levels returns the number of levels, with those that are empty.
func (q *Queue[K]) Levels() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.line.levels)
}

// The sizes of an entry, and of its details.
const (
	EntrySize   = unsafe.Sizeof(entry[string]{})
	DetailsSize = unsafe.Sizeof(details[string]{})
)

// Hash returns the hash of key in the table.
func (q *Queue[K]) Hash(key K) uint32 { return q.entries.hash(key) }

// Room returns for how many entries, and slots of the table, there is memory, in use or free.
func (q *Queue[K]) Room() (entries, slots int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return int(q.entries.pool.size), q.entries.slots.Size()
}

// UseUpDeadlines makes the numbers of deadlines run out after n more.
func (q *Queue[K]) UseUpDeadlines(n uint32) { q.schedule.number = math.MaxUint32 - n }
