package workqueue

import (
	"errors"
	"fmt"
	"math"
)

// CheckInvariants returns what is wrong with the invariants of Queue.mu and of its parts; nil if nothing is.
func (q *Queue[K]) CheckInvariants() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return errors.Join(q.checkEntries(), q.pool.check(), q.entries.check(), q.order.check(), q.schedule.check(), q.checkWaiters())
}

// BeginShutDown is the first step of ShutDown, and EndSome each of the others. EndSome reports whether there are more.
func (q *Queue[K]) BeginShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.beginShutDownLocked()
}

func (q *Queue[K]) EndSome() (more bool) { return q.endSome() }

func (q *Queue[K]) checkEntries() error {
	in := map[state]map[*entry[K]]bool{ready: q.order.all(), parked: q.parked.set(), remembered: q.memory.set(), resting: {}}
	in[processing] = q.busy.set()
	n := map[state]int{}
	dirty, scheduled, quiet := 0, 0, 0
	due := map[*entry[K]]int64{}
	for _, w := range q.schedule.heap {
		if q.schedule.counts(w) {
			due[q.pool.at(w.entry)] = w.due
		}
	}
	groups := map[*group[K]][2]int{}
	for e := range q.entries.all() {
		k := e.key
		n[e.state]++
		switch {
		case e.state == resting && !e.isScheduled():
			return fmt.Errorf("1: the entry of %v has no reason to be", k)
		case e.state == remembered && (e.isScheduled() || e.failures == 0):
			return fmt.Errorf("1: there is nothing to remember of %v", k)
		case !in[e.state][e] && e.state != resting && (e.state != processing || q.cfg.Timestamps):
			return fmt.Errorf("2: %v is not in the list of its state %d", k, e.state)
		case e.number == 0 || e.number > q.changes:
			return fmt.Errorf("1: the number of %v is %d of %d", k, e.number, q.changes)
		case e.state == remembered && e.priority != 0:
			return fmt.Errorf("1: the priority of %v is remembered", k)
		case (e.dirty || e.spent) && e.state != processing, (e.quietAt == 0) != (e.quietBy == 0),
			(e.state == ready || e.dirty) && (e.retryAt != 0 || e.quietAt != 0), e.state == parked && e.retryAt != 0:
			return fmt.Errorf("3: %+v, %+v", *e, *e.details)
		case e.isScheduled() != (e.wakeAt != 0 || e.retryAt != 0 || e.quietAt != 0):
			return fmt.Errorf("5: %+v, %+v", *e, *e.details)
		}
		quiet += count(e.quietAt != 0)
		if e.isScheduled() {
			scheduled++
			if w := due[e]; w != e.due() {
				return fmt.Errorf("5: %v is scheduled for %d, not for %d", k, w, e.due())
			}
		}
		dirty += count(e.dirty)
		if e.group != nil {
			g := groups[e.group]
			groups[e.group] = [2]int{g[0] + 1, g[1] + count(e.state == processing)}
		}
	}
	for s, list := range in {
		if len(list) != n[s] && (s != processing || q.cfg.Timestamps) && s != resting {
			return fmt.Errorf("2: %d in the list of state %d, %d in that state", len(list), s, n[s])
		}
	}
	if n[processing] != q.inProcess || dirty != q.dirty || quiet != q.quiet {
		return fmt.Errorf("4: %d in process, counted %d; %d dirty, counted %d; %d in their quiet time, counted %d",
			n[processing], q.inProcess, dirty, q.dirty, quiet, q.quiet)
	}
	if scheduled != q.schedule.n {
		return fmt.Errorf("5: %d scheduled, counted %d", scheduled, q.schedule.n)
	}
	if q.last != nil && (q.last.state != processing || q.entries.get(q.last.key) != q.last) {
		return fmt.Errorf("9: the last that was handed out is %+v", *q.last)
	}
	for name, g := range q.order.groups {
		if got := [2]int{g.keys, g.inProcess}; g.name != name || got != groups[g] {
			return fmt.Errorf("10: group %q counts %v, there are %v", name, got, groups[g])
		}
	}
	if len(groups) != len(q.order.groups) {
		return fmt.Errorf("10: %d groups, %d in use", len(q.order.groups), len(groups))
	}
	return nil
}

func (q *Queue[K]) checkWaiters() error {
	if q.shutdown && (q.waiters.first != nil && q.order.n+q.dirty == 0 || q.schedule.n > 0 || q.timer != nil && q.timer.Stop()) {
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
	if q.memory.n > 0 {
		due = q.memory.head().since + int64(remember)
	}
	if q.schedule.n > 0 && (due == 0 || q.schedule.first().due < due) {
		due = q.schedule.first().due
	}
	if due == math.MaxInt64 {
		return 0
	}
	return due
}

func (s *schedule[K]) check() error {
	counted := 0
	for i, w := range s.heap {
		counted += count(s.counts(w))
		if i > 0 && w.before(s.heap[(i-1)/4]) {
			return fmt.Errorf("schedule 3: %d is before its parent", i)
		}
	}
	if counted != s.n || len(s.heap) > 2*s.n+slack {
		return fmt.Errorf("schedule 1, 2: of %d in the heap %d count, counted %d", len(s.heap), counted, s.n)
	}
	return nil
}

func (p *pool[K]) check() error {
	open, err := p.list(p.open)
	gone, err2 := p.list(p.gone)
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
			own += count(e.details != &p.plain)
			frees++
		}
		for j := range c.entries {
			if e := &c.entries[j]; e.id != id(i*chunkSize+j) || e.id > 0 && !free[j] && e.number == 0 {
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
	if n != int(p.n) || size != int(p.size) || p.plain != (details[K]{}) {
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

func (t *table[K]) check() error {
	for hash, n := range t.slots.All() {
		if hash != t.pool.at(id(n)).hash {
			return fmt.Errorf("table: the slot of entry %d has the hash of another", n)
		}
	}
	return t.slots.Check()
}

func (o *order[K]) check() error {
	if o.graded() && o.plain.n > 0 {
		return errors.New("order 1: there are levels and a plain list")
	}
	n, turns := o.plain.n, 0
	for i, l := range o.levels {
		if i > 0 && l.priority >= o.levels[i-1].priority {
			return errors.New("order 2: the levels are not sorted")
		}
		lanes := []*lane[K]{l.only}
		for _, g := range o.groups {
			for _, n := range g.lanes {
				if n.head() == nil {
					return errors.New("order: a lane of a group is empty")
				}
				if n.level == l {
					lanes = append(lanes, n)
				}
			}
		}
		ring := map[*lane[K]]bool{}
		for n := l.turn; n != nil && !ring[n]; n = n.next {
			if n.next.prev != n {
				return errors.New("order: a ring is broken")
			}
			ring[n] = true
		}
		inLevel := 0
		for _, n := range lanes {
			if ring[n] != (n.head() != nil && o.mayStart(n.group)) {
				return fmt.Errorf("order 3: a lane with %d keys takes turns: %v", len(n.all()), ring[n])
			}
			if err := n.check(); err != nil {
				return err
			}
			for e := range n.all() {
				if e.priority != l.priority || e.group != n.group {
					return fmt.Errorf("order 1: %v is in the wrong lane", e.key)
				}
			}
			inLevel += len(n.all())
		}
		if inLevel != l.n {
			return fmt.Errorf("order 4: %d keys in a level, counted %d", inLevel, l.n)
		}
		n, turns = n+l.n, turns+len(ring)
	}
	if n != o.n || turns != o.turns {
		return fmt.Errorf("order 4: %d ready, counted %d; %d lanes take turns, counted %d", n, o.n, turns, o.turns)
	}
	return nil
}

func (n *lane[K]) check() error {
	var prev *entry[K]
	for e := range n.list.all() {
		if prev != nil && (prev.number >= e.number || prev.since > e.since) {
			return errors.New("order 5: a list is not in the order of its numbers")
		}
		prev = e
	}
	for i, e := range n.raised {
		if e.state != ready || i > 0 && n.raised[i-1].number >= e.number {
			return errors.New("order 5: the raised entries are not sorted")
		}
	}
	return nil
}

func (n *lane[K]) all() map[*entry[K]]bool {
	all := n.list.set()
	for _, e := range n.raised {
		all[e] = true
	}
	return all
}

// all returns what is ready.
func (o *order[K]) all() map[*entry[K]]bool {
	all := o.plain.set()
	for _, l := range o.levels {
		for e := range l.only.all() {
			all[e] = true
		}
	}
	for _, g := range o.groups {
		for _, n := range g.lanes {
			for e := range n.all() {
				all[e] = true
			}
		}
	}
	return all
}

// set returns the entries of the list.
func (l *list[K]) set() map[*entry[K]]bool {
	all := map[*entry[K]]bool{}
	var prev id
	for e := range l.all() {
		if e.prev != prev || all[e] {
			panic("a list is broken")
		}
		all[e] = true
		prev = e.id
	}
	if l.last != prev || len(all) != l.n {
		panic("a list is broken")
	}
	return all
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Kept returns the number of entries, groups, slots and map cells that the queue holds memory for.
func (q *Queue[K]) Kept() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	raised := 0
	for _, l := range q.order.levels {
		raised += cap(l.only.raised)
	}
	return max(q.entries.slots.Size()/2, raised, int(q.pool.size-q.pool.n), cap(q.schedule.heap), q.order.peak, len(q.order.spareGroups), len(q.order.spareLanes),
		len(q.order.levels))
}

// Known returns the number of keys that the limiter remembers.
func (r *ItemExponentialFailureRateLimiter[K]) Known() int { return r.failures.known() }

// Known returns the number of keys that the limiter remembers.
func (r *ItemJitteredRateLimiter[K]) Known() int { return r.failures.known() }

// Known returns the number of keys that the limiter remembers.
func (r *ItemFastSlowRateLimiter[K]) Known() int { return r.failures.known() }

func (c *counter[K]) known() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.counts) + len(c.older)
}

// Levels returns the number of levels, with those that are empty.
func (q *Queue[K]) Levels() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.order.levels)
}

// Table is a table whose entries have hashes of choice.
type Table struct {
	table   table[int]
	entries map[int]*entry[int]
}

// NewTable returns an empty table.
func NewTable() *Table { return &Table{newTable(newPool[int]()), map[int]*entry[int]{}} }

// Hash returns the hash by which Has looks for key.
func (t *Table) Hash(key int) uint32 { return t.table.hash(key) }

// Add adds an entry of key, which is not in the table.
func (t *Table) Add(key int, hash uint32) {
	e := t.table.pool.take()
	e.key, e.hash = key, hash
	t.entries[key] = e
	t.table.add(e)
}

// Has reports whether the table finds the entry of key; it panics if it finds another.
func (t *Table) Has(key int) bool {
	e := t.table.get(key)
	if e != nil && e != t.entries[key] {
		panic("the table found the entry of another key")
	}
	return e != nil
}

// Remove removes the entry of key, which is in the table.
func (t *Table) Remove(key int) {
	e := t.entries[key]
	delete(t.entries, key)
	t.table.remove(e)
	t.table.pool.give(e)
}

// Keys returns the keys of what is in the table, and the number that the table counts.
func (t *Table) Keys() (keys []int, n int) {
	for e := range t.table.all() {
		keys = append(keys, e.key)
	}
	return keys, t.table.len()
}

// Slots returns the number of slots.
func (t *Table) Slots() int { return t.table.slots.Size() }

// Check returns what is wrong with the invariants.
func (t *Table) Check() error { return t.table.check() }

// Pool is a pool whose entries are told apart by their keys.
type Pool struct {
	pool    *pool[int]
	entries map[int]*entry[int]
}

// NewPool returns an empty pool.
func NewPool() *Pool { return &Pool{newPool[int](), map[int]*entry[int]{}} }

// Take takes an entry for key, which has none.
func (p *Pool) Take(key int) {
	e := p.pool.take()
	e.key, e.number = key, 1
	if key%2 == 0 {
		p.pool.own(e).priority = key
	}
	p.entries[key] = e
}

// Give gives back the entry of key.
func (p *Pool) Give(key int) { p.pool.give(p.entries[key]); delete(p.entries, key) }

// Size returns the number of entries, used or free.
func (p *Pool) Size() int { return int(p.pool.size) }

// Check returns what is wrong with the invariants, or with an entry that is used.
func (p *Pool) Check() error {
	for key, e := range p.entries {
		if e.key != key || p.pool.at(e.id) != e || key%2 == 0 && e.priority != key || key%2 != 0 && e.priority != 0 {
			return fmt.Errorf("the entry of %d is %+v", key, *e)
		}
	}
	return p.pool.check()
}

// Schedule is a schedule of entries that are known by an index.
type Schedule struct {
	schedule schedule[int]
	entries  []*entry[int]
}

// NewSchedule returns an empty schedule for n entries.
func NewSchedule(n int) *Schedule {
	p := newPool[int]()
	s := &Schedule{schedule: schedule[int]{pool: p}}
	for i := range n {
		e := p.take()
		e.key = i
		s.entries = append(s.entries, e)
	}
	return s
}

// Set schedules an entry, or moves it. It reports whether that is now the first.
func (s *Schedule) Set(i int, due int64) bool { return s.schedule.set(s.entries[i], due) }

// Remove takes an entry, which is scheduled, off the schedule.
func (s *Schedule) Remove(i int) { s.schedule.remove(s.entries[i]) }

// Renew makes the entry, which is not scheduled, one that was dropped and taken out of stock again.
func (s *Schedule) Renew(i int) {
	p := s.schedule.pool
	p.give(s.entries[i])
	s.entries[i] = p.take()
	s.entries[i].key = i
}

// Drop gives back the entry, which is not scheduled.
func (s *Schedule) Drop(i int) { s.schedule.pool.give(s.entries[i]) }

// RunOut makes the numbers of wake-ups run out after n more.
func (s *Schedule) RunOut(n uint32) { s.schedule.number = math.MaxUint32 - n }

// First returns what is due first. There must be one.
func (s *Schedule) First() (i int, due int64) {
	w := s.schedule.first()
	return s.schedule.pool.at(w.entry).key, w.due
}

// Clear removes everything, in the cheap order of a shutdown, and returns what was scheduled.
func (s *Schedule) Clear() (due map[int]int64) {
	due = map[int]int64{}
	for s.schedule.n > 0 {
		w := s.schedule.last()
		e := s.schedule.pool.at(w.entry)
		due[e.key] = w.due
		s.schedule.remove(e)
	}
	s.schedule.heap = nil
	return due
}

// Len returns the number of what is scheduled.
func (s *Schedule) Len() int { return s.schedule.n }

// Cap returns the number of wake-ups for which there is memory.
func (s *Schedule) Cap() int { return cap(s.schedule.heap) }

// Check returns what is wrong with the invariants.
func (s *Schedule) Check() error { return s.schedule.check() }
