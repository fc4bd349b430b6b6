package cache_test

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

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

// replace takes the keys that the cache may have held at any time during the call, in order, and what says whether the
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
	var missing []string
	for _, it := range m.queue {
		missing = append(missing, it.key)
	}
	missing = append(missing, known...)
	if m.current != nil {
		missing = append(missing, m.current.key)
	}
	missing = append(missing, m.fails...)
	for i, key := range missing {
		if m.truth[key] == nil && !slices.Contains(missing[:i], key) {
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

// meaning returns what a cache that holds known must get after all that was said. What it holds has one life; the first deletion ends
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

// history runs one sequence of actions on a DeltaFIFO and on the model.
type history struct {
	actions []byte
	equal   int  // in so many of 256 calls the version stays the same
	compare bool // the queue compares lists with what is known
	x       *cache.Indexer[string, *pod]
	f       *fifo
	m       fifoModel
	n       int    // the last state
	during  func() // runs while Replace reads what is known
	failure error  // the first difference
}

// racing is the known objects of the queue, with a consumer that moves keys while they are being read.
type racing struct{ h *history }

func (r racing) Get(key string) (*pod, bool) { return r.h.x.Get(key) }

func (r racing) All() iter.Seq2[string, *pod] {
	return func(yield func(string, *pod) bool) {
		for key, p := range r.h.x.All() {
			if !yield(key, p) {
				return
			}
		}
		if during := r.h.during; during != nil {
			r.h.during = nil
			during()
		}
	}
}

// newHistory begins with a cache that is empty, or warm.
func newHistory(actions []byte, equal int, warm, compare bool) *history {
	h := &history{actions: actions, equal: equal, compare: compare, x: newPods()}
	cfg := cache.DeltaFIFOConfig[string, *pod]{KnownObjects: racing{h}}
	if compare {
		cfg.Equal = func(known, listed *pod) bool { return known == listed }
	}
	h.f = must(cache.NewDeltaFIFO(podName, cfg))
	h.m.failed, h.m.truth = make(map[string][]*operation), make(map[string]*pod)
	if warm {
		h.m.truth["b"] = h.pod("b")
		h.x.Upsert(h.m.truth["b"])
	}
	return h
}

func (h *history) pod(name string) *pod {
	h.n++
	return &pod{name: name, n: h.n}
}

func (h *history) version() uint64 {
	if h.n*37%256 >= h.equal || h.m.next == 0 {
		h.m.next += 10
	}
	return h.m.next
}

func (h *history) fail(format string, args ...any) {
	if h.failure == nil {
		h.failure = fmt.Errorf(format, args...)
	}
}

func (h *history) change(t cache.DeltaType, name string) {
	d := cache.Delta[*pod]{Type: t, Object: h.pod(name)}
	v := h.version()
	call := map[cache.DeltaType]func(*pod, uint64) error{cache.Added: h.f.Add, cache.Updated: h.f.Update, cache.Deleted: h.f.Delete}[t]
	if err := call(d.Object, v); err != nil {
		h.fail("%v: %v", t, err)
	}
	h.m.change(d, v)
}

func (h *history) replace(known *[]string, names ...string) {
	var list []*pod
	for _, name := range names {
		list = append(list, h.pod(name))
	}
	h.list(known, list)
}

// list reads known after the call, in which it may have grown.
func (h *history) list(known *[]string, list []*pod) {
	v, taken := h.version(), len(h.m.taken)
	if err := h.f.Replace(list, v); err != nil {
		h.fail("Replace: %v", err)
	}
	h.m.replace(list, v, *known, func(p *pod) bool {
		cached, _ := h.x.Get(p.name)
		return h.compare && cached == p && !slices.Contains(h.m.taken[taken:], p.name)
	})
}

// popDuring lets the consumer take a key out while Replace reads the cache.
func (h *history) popDuring(known *[]string, result error) {
	h.during = func() {
		taken := len(h.m.taken)
		h.pop(false, result)
		*known = append(*known, h.m.taken[taken:]...) // they may be known now, or not: it does no harm
	}
}

func (h *history) cached() (list []*pod) {
	for _, p := range h.x.All() {
		list = append(list, p)
	}
	return list
}

// pop pops one key, with actions in the middle. They are those that follow in h.actions, up to one that ends it.
func (h *history) pop(middle bool, result error) {
	if h.m.current != nil {
		return // one consumer
	}
	want := h.m.pop(h.x)
	reported := false
	popped, err := h.f.TryPop(func(key string, deltas cache.Deltas[*pod], initial bool) error {
		reported = true
		if want == nil || key != h.m.current.key || !slices.Equal(slices.Collect(deltas.All()), want) || initial != h.m.current.initial {
			h.fail("Pop reports %s, want %s", line(key, deltas.All(), initial), line("", slices.Values(want), false))
			return nil
		}
		if middle {
			h.check()
			result = h.run(true)
		}
		if result == nil {
			apply(h.x, key, deltas)
		}
		return result
	})
	if popped != reported || reported != (want != nil) || reported && err != result {
		h.fail("Pop = %v, %v, reported %v, want %v", popped, err, reported, want)
	}
	if h.m.current != nil {
		h.m.finish(result == nil)
	}
}

var errProcess = errors.New("process failed")

// run takes the actions one by one. Inside of a pop it ends with the result of that.
func (h *history) run(inside bool) error {
	for len(h.actions) > 0 && h.failure == nil {
		action := h.actions[0]
		h.actions = h.actions[1:]
		known := names(h.x.All())
		switch action % numActions {
		case 0:
			h.change(cache.Added, "a")
		case 1:
			h.change(cache.Deleted, "a")
		case 2:
			h.replace(&known)
		case 3:
			h.replace(&known, "a")
		case 4:
			h.pop(true, nil)
		case 5:
			if inside {
				return nil
			}
			h.pop(false, nil)
		case 6:
			if inside {
				return errProcess
			}
			h.pop(false, errProcess)
		case 7:
			if !inside {
				h.popDuring(&known, nil)
			}
			h.replace(&known, "b")
		case 8:
			h.change(cache.Added, "b")
		case 9:
			h.f.Resync()
			h.m.resync(known)
		case 10:
			h.change(cache.Updated, "a")
		case 11:
			h.change(cache.Deleted, "b")
		case 12:
			h.replace(&known, "b", "a", "b")
		case 13:
			v := h.version()
			h.f.Bookmark(v)
			h.m.operation(v, true)
		case 14: // the source says that everything is as the cache has it
			h.list(&known, h.cached())
		case 15:
			if !inside {
				h.popDuring(&known, nil)
			}
			h.list(&known, h.cached())
		}
		h.check()
	}
	return nil
}

const numActions = 16

func (h *history) check() {
	if err := h.f.CheckInvariants(); err != nil {
		h.fail("%w", err)
	}
	got, want := h.f.Version(), h.m.version()
	if got > want || got != want && !h.m.resyncs {
		h.fail("Version = %d, want %d", got, want)
	}
	if got, want := h.f.Len(), len(h.m.queue); got != want {
		h.fail("Len = %d, want %d", got, want)
	}
	if got, want := h.f.HasSynced(), h.m.synced; got != want {
		h.fail("HasSynced = %v, want %v", got, want)
	}
}

// finish drains the queue. The cache must end up like the source, and the version at the last one.
func (h *history) finish() error {
	_ = h.run(false)
	if len(h.m.failed) > 0 {
		known := names(h.x.All())
		h.replace(&known, slices.Sorted(maps.Keys(h.m.truth))...)
	}
	for h.f.Len() > 0 && h.failure == nil {
		h.pop(false, nil)
		h.check()
	}
	if got := maps.Collect(h.x.All()); !maps.Equal(got, h.m.truth) {
		h.fail("the cache ends with %v, the source with %v", got, h.m.truth)
	}
	if v := h.f.Version(); v != h.m.next {
		h.fail("Version ends with %d, want %d", v, h.m.next)
	}
	return h.failure
}

func TestEveryShortDeltaFIFOHistoryMatchesModel(t *testing.T) {
	t.Parallel()
	histories := 0
	var extend func(history []byte, actions byte, length int)
	extend = func(history []byte, actions byte, length int) {
		if len(history) == length {
			histories++
			if err := newHistory(history, 0, actions == 8, true).finish(); err != nil {
				t.Fatalf("%v: %v", history, err)
			}
			return
		}
		for a := range actions {
			extend(append(slices.Clip(history), a), actions, length)
		}
	}
	extend(nil, numActions, effort(3, 4))
	if !underRace {
		extend(nil, 8, effort(4, 5))
	}
	t.Logf("%d histories", histories)
}

func TestLongDeltaFIFOHistoriesMatchModel(t *testing.T) {
	seeds := uint64(500)
	if underRace {
		seeds = 50
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 4))
		actions := make([]byte, 60)
		for i := range actions {
			actions[i] = byte(r.IntN(numActions))
			if seed%2 == 0 && actions[i] == 9 {
				actions[i] = 5 // without Sync the version is exact
			}
		}
		if err := newHistory(actions, []int{0, 64}[seed/2%2], seed%3 == 0, seed%5 != 0).finish(); err != nil {
			t.Fatalf("seed %d, %v: %v", seed, actions, err)
		}
	}
}

func FuzzDeltaFIFO(f *testing.F) {
	f.Add(0, false, false, []byte{0, 4, 1, 5, 2})
	f.Add(64, true, true, []byte{12, 5, 9, 2, 7, 6, 3, 13, 5})
	f.Add(210, false, false, []byte{12, 6, 6, 2, 0})      // two failures, in order
	f.Add(0, true, true, []byte{0, 5, 14, 10, 15, 6, 14}) // lists of what is known
	f.Fuzz(func(t *testing.T, equal int, warm, compare bool, actions []byte) {
		if len(actions) > 200 {
			return
		}
		require.NoError(t, newHistory(actions, equal, warm, compare).finish(), "%v", actions)
	})
}
