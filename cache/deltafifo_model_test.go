package cache_test

import (
	"math"
	"slices"

	"github.com/setpoint-go/setpoint/cache"
)

// fifoModel is a DeltaFIFO that merges nothing: for each key that waits it keeps all that was said of it, and when the
// key's turn comes it works out what that means for a cache. Beside it runs the truth, which is the source.
type fifoModel struct {
	queue   []*modelItem
	current *modelItem
	taken   []string                // the keys that were current, one after the other
	failed  map[string][]*operation // what process has failed on
	fails   []string                // the keys of failed, in order
	ops     []*operation
	started bool
	synced  bool
	resyncs bool   // the version need not be exact any more: a Sync is allowed to hold it down
	next    uint64 // the version of the next call
	truth   map[string]*pod
}

type modelItem struct {
	key     string
	said    []cache.Delta[*pod]
	ops     []*operation
	initial bool
}

// operation is a change of one key, or a bookmark.
type operation struct {
	version uint64
	applied bool
}

func (m *fifoModel) operation(v uint64, applied bool) *operation {
	op := &operation{v, applied}
	m.ops = append(m.ops, op)
	return op
}

// version returns the highest version that was announced and of which, and of all before, everything is applied.
func (m *fifoModel) version() (v uint64) {
	missing := uint64(math.MaxUint64) // the lowest version that is not applied
	for _, op := range m.ops {
		if !op.applied {
			missing = min(missing, op.version)
		}
	}
	for _, op := range m.ops {
		if op.version < missing {
			v = max(v, op.version)
		}
	}
	return v
}

func (m *fifoModel) waiting(key string) *modelItem {
	i := slices.IndexFunc(m.queue, func(it *modelItem) bool { return it.key == key })
	if i < 0 {
		return nil
	}
	return m.queue[i]
}

func (m *fifoModel) say(key string, d cache.Delta[*pod], v uint64, initial bool) {
	it := m.waiting(key)
	if it == nil {
		it = &modelItem{key: key}
		m.queue = append(m.queue, it)
	}
	it.said = append(it.said, d)
	it.initial = it.initial || initial
	if d.Type != cache.Sync {
		it.ops = append(it.ops, m.operation(v, false))
	}
}

func (m *fifoModel) change(d cache.Delta[*pod], v uint64) {
	m.say(d.Object.name, d, v, false)
	if d.Type == cache.Deleted {
		delete(m.truth, d.Object.name)
	} else {
		m.truth[d.Object.name] = d.Object
	}
	m.start()
}

func (m *fifoModel) start() {
	m.started = true
	left := slices.ContainsFunc(m.queue, func(it *modelItem) bool { return it.initial })
	m.synced = m.synced || !left && (m.current == nil || !m.current.initial)
}

// replace takes the keys that the cache may have held at any time during the call, in order, and what tells whether the
// cache has held an object all the time.
func (m *fifoModel) replace(list []*pod, v uint64, known []string, held func(*pod) bool) {
	m.operation(v, true)
	first := !m.started
	clear(m.truth)
	for _, p := range list {
		m.truth[p.name] = p
		current := m.current != nil && m.current.key == p.name
		if m.waiting(p.name) == nil && !current && m.failed[p.name] == nil && held(p) {
			continue
		}
		m.say(p.name, cache.Delta[*pod]{Type: cache.Replaced, Object: p}, v, first)
	}
	var gone []string
	for _, it := range m.queue {
		gone = append(gone, it.key)
	}
	gone = append(gone, known...)
	if m.current != nil {
		gone = append(gone, m.current.key)
	}
	gone = append(gone, m.fails...)
	for i, key := range gone {
		if m.truth[key] == nil && !slices.Contains(gone[:i], key) {
			m.say(key, cache.Delta[*pod]{Type: cache.Deleted, FinalStateUnknown: true}, v, first)
		}
	}
	m.start()
}

func (m *fifoModel) resync(known []string) {
	m.resyncs = m.resyncs || len(known) > 0
	for _, key := range known {
		if m.waiting(key) == nil {
			m.say(key, cache.Delta[*pod]{Type: cache.Sync}, 0, false)
		}
	}
}

// pop makes the first item that means something the current one, and returns what it means. Those before are done.
func (m *fifoModel) pop(x *cache.Indexer[string, *pod]) []cache.Delta[*pod] {
	for len(m.queue) > 0 {
		m.current, m.queue = m.queue[0], m.queue[1:]
		m.taken = append(m.taken, m.current.key)
		known, _ := x.Get(m.current.key)
		if deltas := meaning(m.current.said, known); len(deltas) > 0 {
			return deltas
		}
		m.finish(true)
	}
	return nil
}

func (m *fifoModel) finish(ok bool) {
	it := m.current
	m.current = nil
	switch {
	case len(it.ops) == 0 && it.said[0].Type == cache.Sync:
	case ok:
		for _, op := range slices.Concat(it.ops, m.failed[it.key]) {
			op.applied = true
		}
		delete(m.failed, it.key)
		m.fails = slices.DeleteFunc(m.fails, func(key string) bool { return key == it.key })
	default:
		if m.failed[it.key] == nil {
			m.fails = append(m.fails, it.key)
		}
		m.failed[it.key] = append(m.failed[it.key], it.ops...)
	}
	if it.initial {
		m.start()
	}
}

// meaning returns what a cache that holds known must be told after all that was said. What it holds has one life; the first deletion ends
// it. The consumer has not seen the lives that began and ended since then.
func meaning(said []cache.Delta[*pod], known *pod) []cache.Delta[*pod] {
	var life, end *cache.Delta[*pod]
	for _, d := range said {
		switch {
		case d.Type == cache.Sync && known == nil:
		case d.Type == cache.Sync:
			life = &cache.Delta[*pod]{Type: cache.Sync, Object: known}
		case d.Type != cache.Deleted && life == nil:
			life = &d
		case d.Type != cache.Deleted:
			types := []cache.DeltaType{cache.Sync, cache.Updated, cache.Added, cache.Replaced}
			i := max(slices.Index(types, life.Type), slices.Index(types, d.Type))
			life = &cache.Delta[*pod]{Type: types[i], Object: d.Object}
		case end != nil && life != nil:
			life = nil
		case end != nil && d.FinalStateUnknown:
		case end == nil && d.FinalStateUnknown && life != nil:
			d.Object = life.Object
			end, life = &d, nil
		case end == nil && d.FinalStateUnknown:
			d.Object = known
			end = &d
		default:
			end, life = &d, nil
		}
	}
	var deltas []cache.Delta[*pod]
	if end != nil && known != nil {
		deltas = append(deltas, *end)
	}
	if life != nil {
		deltas = append(deltas, *life)
	}
	return deltas
}
