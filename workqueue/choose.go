package workqueue

import (
	"cmp"
	"slices"
)

// Ready returns the keys that [Queue.TryTake] would hand out now, one after the other: those of a group beyond its limit are
// left out. A dispatch limiter is not asked. It holds the lock for a copy of the order.
func (q *Queue[K]) Ready() []K {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.order.keys()
}

// TryTakeKey is [Queue.TryTake] of a key that the caller chooses, out of its turn. It answers false when the key is not ready or
// may not be handed out. It is for tests and simulations that decide what happens when.
func (q *Queue[K]) TryTakeKey(key K) (item Item[K], ok bool) {
	checkKey(key)
	q.mu.Lock()
	e := q.entries.get(key)
	if e == nil || e.state != ready || !q.order.mayStart(e.group) || q.cfg.HandOut != nil && !q.passLocked() {
		q.mu.Unlock()
		return item, false
	}
	q.order.remove(e)
	q.takenLocked(e)
	q.noteLocked(&item, e)
	q.handOut(e)
	return item, true
}

// queued is what is ready of one lane, the next first.
type queued[K comparable] struct {
	entries []*entry[K]
	group   *group[K]
}

// keys returns what pop would return, one after the other, if each were begun and none ended.
func (o *order[K]) keys() []K {
	keys := make([]K, 0, o.n)
	if !o.graded() {
		for e := range o.plain.all() {
			keys = append(keys, e.key)
		}
		return keys
	}
	levels := make([][]queued[K], len(o.levels)) // each with its runs in the order of their turns
	for i, l := range o.levels {
		for n := l.turn; n != nil; {
			levels[i] = append(levels[i], queued[K]{n.inOrder(), n.group})
			if n = n.next; n == l.turn {
				break
			}
		}
	}
	began := make(map[*group[K]]int)
	for {
		best := -1
		for i, runs := range levels {
			if len(runs) > 0 && (best < 0 || o.isOlder(runs[0].entries[0], levels[best][0].entries[0])) {
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
		if began[g]++; g != nil && o.limit > 0 && g.inProcess+began[g] >= o.limit {
			for i := range levels {
				levels[i] = slices.DeleteFunc(levels[i], func(r queued[K]) bool { return r.group == g })
			}
		}
	}
}

// inOrder returns what is in the lane, the next first.
func (n *lane[K]) inOrder() []*entry[K] {
	entries := slices.Collect(n.line.all())
	if len(n.raised) > 0 {
		entries = append(entries, n.raised...)
		slices.SortFunc(entries, func(a, b *entry[K]) int { return cmp.Compare(a.number, b.number) })
	}
	return entries
}
