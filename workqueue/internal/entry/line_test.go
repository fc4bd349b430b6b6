package entry_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue/internal/entry"
)

// place is an entry of the model of a line.
type place struct {
	number, since   int64
	priority, group int
	began           bool
}

// lineModel is a line as a map. It searches for everything.
type lineModel struct {
	aging  int64
	limit  int // 0 for none
	places map[int]place
	turns  map[int][]int // the groups of each priority that take turns
}

func (m *lineModel) clone() *lineModel {
	c := &lineModel{aging: m.aging, limit: m.limit, places: maps.Clone(m.places), turns: map[int][]int{}}
	for p, turns := range m.turns {
		c.turns[p] = slices.Clone(turns)
	}
	return c
}

func (m *lineModel) mayStart(group int) bool {
	if m.limit == 0 {
		return true
	}
	n := 0
	for _, p := range m.places {
		if p.began && p.group == group {
			n++
		}
	}
	return n < m.limit
}

// settle removes the groups that have nothing to dispatch from the turns of each priority, and adds those that do.
func (m *lineModel) settle() {
	may := map[int][]int{}
	for _, p := range m.places {
		if !p.began && !slices.Contains(may[p.priority], p.group) && m.mayStart(p.group) {
			may[p.priority] = append(may[p.priority], p.group)
		}
	}
	for p := range m.turns {
		m.turns[p] = slices.DeleteFunc(m.turns[p], func(g int) bool { return !slices.Contains(may[p], g) })
	}
	for p, groups := range may {
		for _, g := range groups { // one at most is new, because each step concerns one key
			if !slices.Contains(m.turns[p], g) {
				m.turns[p] = append(m.turns[p], g)
			}
		}
	}
}

// pop begins the next key and returns it, or returns -1.
func (m *lineModel) pop() int {
	best := -1
	for _, priority := range slices.Backward(slices.Sorted(maps.Keys(m.turns))) {
		turns := m.turns[priority]
		if len(turns) == 0 {
			continue
		}
		first := -1
		for key, p := range m.places {
			if !p.began && p.priority == priority && p.group == turns[0] && (first < 0 || p.number < m.places[first].number) {
				first = key
			}
		}
		b, f := m.places[best], m.places[first]
		if best < 0 || m.aging > 0 && f.since+int64(b.priority-priority)*m.aging < b.since {
			best = first
		}
	}
	if best >= 0 {
		p := m.places[best]
		m.turns[p.priority] = append(m.turns[p.priority][1:], p.group)
		p.began = true
		m.places[best] = p
		m.settle()
	}
	return best
}

// keys returns what pop returns, one after the other.
func (m *lineModel) keys() []int {
	keys := []int{}
	for c := m.clone(); ; {
		key := c.pop()
		if key < 0 {
			return keys
		}
		keys = append(keys, key)
	}
}

func (m *lineModel) keysThat(began bool) (keys []int) {
	for key, p := range m.places {
		if p.began == began {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func TestLineMatchesModel(t *testing.T) {
	for seed := range uint64(36) {
		grouped, aging, limit := seed%2 == 0, int64(seed/2%3)*4-1, int(seed/6%3)
		if !grouped {
			limit = 0
		}
		t.Run(fmt.Sprintf("grouped=%v, aging=%d, limit=%d, seed=%d", grouped, aging, limit, seed), func(t *testing.T) {
			runLine(t, rand.New(rand.NewPCG(seed, 6)), grouped, aging, limit)
		})
	}
}

func runLine(t *testing.T, r *rand.Rand, grouped bool, aging int64, limit int) {
	table := newTable()
	line := entry.NewLine(&table.Table, aging, grouped, limit)
	m := &lineModel{aging: aging, limit: limit, places: map[int]place{}, turns: map[int][]int{}}
	number := int64(0)
	remove := func(key int) {
		line.Leave(table.entries[key])
		table.remove(key)
		delete(m.places, key)
	}
	pick := func(keys []int) (int, bool) {
		if len(keys) == 0 {
			return 0, false
		}
		return keys[r.IntN(len(keys))], true
	}
	for step := range 250 {
		now := int64(step/3) + 1
		number++
		switch op := r.IntN(10); {
		case op < 4:
			p := place{number: number, since: now}
			if grouped {
				p.group = r.IntN(3)
			}
			if line.Graded() {
				p.priority = r.IntN(4) - 1
			}
			e := table.add(step, table.Hash(step))
			*table.Own(e) = entry.Details[int]{Priority: p.priority, Since: now}
			e.State, e.Number = entry.Ready, uint64(number)
			line.Join(e, fmt.Sprint(p.group))
			line.Push(e)
			m.places[step] = p
		case op < 7:
			want := m.pop()
			e := line.Pop()
			if want < 0 {
				require.Nil(t, e, "step %d", step)
				break
			}
			require.NotNil(t, e, "step %d", step)
			require.Equal(t, want, e.Key, "step %d", step)
			e.State, e.Number = entry.Processing, uint64(number)
			line.Begin(e)
		case op == 7:
			if key, ok := pick(m.keysThat(true)); ok {
				e := table.entries[key]
				e.State = entry.Resting
				waits := slices.ContainsFunc(m.keysThat(false), func(k int) bool { return m.places[k].group == m.places[key].group })
				require.Equal(t, limit > 0 && waits, line.End(e), "step %d", step)
				remove(key)
			}
		case op == 8:
			if key, ok := pick(m.keysThat(false)); ok {
				e := table.entries[key]
				require.Equal(t, m.mayStart(m.places[key].group), line.MayStart(e))
				line.Remove(e)
				e.State = entry.Resting
				remove(key)
			}
		case !line.Graded() && step > 60:
			line.Grade(now)
			for key, p := range m.places {
				if p.since = now; !p.began {
					m.places[key] = p
				}
			}
		case line.Graded():
			if key, ok := pick(slices.Concat(m.keysThat(true), m.keysThat(false))); ok {
				p := m.places[key]
				p.priority += 1 + r.IntN(2)
				line.Raise(table.entries[key], p.priority)
				m.places[key] = p
			}
		}
		m.settle()
		require.NoError(t, line.Check(table.All()), "step %d", step)
		require.Equal(t, len(m.keysThat(false)), line.Len(), "step %d", step)
		keys := m.keys()
		require.Equal(t, keys, line.Keys(), "step %d", step)
		require.Equal(t, len(keys) > 0, line.Available(), "step %d", step)
		oldest := int64(0)
		for key, p := range m.places {
			if !p.began && line.Graded() && (oldest == 0 || p.since < oldest) {
				oldest = p.since
			}
			if grouped {
				if got, want := table.entries[key].GroupName(), strconv.Itoa(p.group); got != want {
					t.Fatalf("step %d: the group of key %d is %q, want %q", step, key, got, want)
				}
			}
		}
		if line.Graded() {
			require.Equal(t, oldest, line.Oldest(func() {}), "step %d", step)
		}
	}
}

func TestOldestPausesAfterEachGroup(t *testing.T) {
	table := newTable()
	line := entry.NewLine(&table.Table, 0, true, 0)
	for key := range 7 {
		line.Join(table.add(key, table.Hash(key)), fmt.Sprint(key%4))
	}
	pauses := 0
	require.Zero(t, line.Oldest(func() { pauses++ }))
	require.Equal(t, 4, pauses)
}

func TestLineReleasesMemoryAfterBurst(t *testing.T) {
	const n = 20_000
	table := newTable()
	line := entry.NewLine(&table.Table, 0, true, 0)
	for key := range n {
		e := table.add(key, table.Hash(key))
		*table.Own(e) = entry.Details[int]{Priority: key % 50}
		e.State, e.Number = entry.Ready, uint64(key)
		line.Join(e, fmt.Sprint(key))
		line.Push(e)
	}
	require.GreaterOrEqual(t, line.Kept(), n)
	require.Equal(t, 50, line.Levels())
	for e := line.Pop(); e != nil; e = line.Pop() {
		e.State = entry.Resting
		line.Leave(e)
		table.remove(e.Key)
	}
	require.NoError(t, line.Check(table.All()))
	require.LessOrEqual(t, line.Kept(), 4096)
	require.LessOrEqual(t, line.Levels(), 16)
}
