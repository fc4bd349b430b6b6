package entry_test

import (
	"fmt"

	"github.com/setpoint-go/setpoint/workqueue/internal/entry"
)

// table is a Table that is compared with a map of its entries.
type table struct {
	entry.Table[int]
	entries map[int]*entry.Entry[int]
}

func newTable() *table { return &table{entry.NewTable[int](), map[int]*entry.Entry[int]{}} }

// add adds an entry of key, which is not in the table. Every second entry has details.
func (t *table) add(key int, hash uint32) *entry.Entry[int] {
	e := t.Add(key, hash)
	e.Number = 1
	if key%2 == 0 {
		t.Own(e).Priority = key
	}
	t.entries[key] = e
	return e
}

// remove removes the entry of key, which is in the table.
func (t *table) remove(key int) {
	t.Remove(t.entries[key])
	delete(t.entries, key)
}

// has reports whether the table finds the entry of key. It panics if the table finds another.
func (t *table) has(key int) bool {
	e := t.Get(key)
	if e != nil && e != t.entries[key] {
		panic("the table found the entry of another key")
	}
	return e != nil
}

// keys returns the keys in the table.
func (t *table) keys() (keys []int) {
	for e := range t.All() {
		keys = append(keys, e.Key)
	}
	return keys
}

// check returns what is wrong with the invariants, or with an entry that is in use.
func (t *table) check() error {
	for key, e := range t.entries {
		if e.Key != key || key%2 == 0 && e.Priority != key || key%2 != 0 && e.Priority != 0 {
			return fmt.Errorf("the entry of %d is %+v", key, *e)
		}
	}
	return t.Check()
}

// schedule is a Schedule of entries that are known by an index.
type schedule struct {
	entry.Schedule[int]
	table   *table
	entries []*entry.Entry[int]
}

// newSchedule returns an empty schedule for n entries.
func newSchedule(n int) *schedule {
	t := newTable()
	s := &schedule{Schedule: entry.NewSchedule(&t.Table), table: t}
	for i := range n {
		s.entries = append(s.entries, t.add(i, t.Hash(i)))
	}
	return s
}

// set schedules an entry, or moves it. It reports whether that is now the first.
func (s *schedule) set(i int, due int64) bool {
	s.entries[i].WakeAt = due
	return s.Update(s.entries[i])
}

// remove removes an entry, which is scheduled, from the schedule.
func (s *schedule) remove(i int) { s.set(i, 0) }

// renew replaces the entry, which is not scheduled, with a new one, which may be in the same place.
func (s *schedule) renew(i int) {
	s.table.remove(i)
	s.entries[i] = s.table.add(i, s.table.Hash(i))
}

// drop removes the entry, which is not scheduled, from the table.
func (s *schedule) drop(i int) { s.table.remove(i) }

// first returns what is due first. There must be one.
func (s *schedule) first() (i int, due int64) {
	e, due := s.First()
	return e.Key, due
}

// clear removes everything, in the cheap order of a shutdown, and returns what was scheduled.
func (s *schedule) clear() (due map[int]int64) {
	due = map[int]int64{}
	for s.Len() > 0 {
		e := s.Last()
		due[e.Key] = e.WakeAt
		s.remove(e.Key)
	}
	s.Release()
	return due
}

// check returns what is wrong with the invariants.
func (s *schedule) check() error { return s.Check(s.table.All()) }
