package workqueue_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

// orderModel hands out keys in the order that the documentation promises. It knows no lines: it scans all keys.
type orderModel struct {
	cfg    workqueue.Config[int]
	keys   map[int]*orderKey
	turns  map[int][]string // of each priority: the groups, the one whose turn it is first
	count  int
	graded bool
}

type orderKey struct {
	priority       int
	working, dirty bool
	since          time.Time
	number         int
}

func newOrderModel(cfg workqueue.Config[int]) *orderModel {
	m := &orderModel{cfg: cfg, keys: map[int]*orderKey{}, turns: map[int][]string{}, graded: cfg.Group != nil}
	if cfg.Group == nil {
		m.cfg.Group = func(int) string { return "" }
	}
	return m
}

func (m *orderModel) ready() map[int]*orderKey {
	ready := map[int]*orderKey{}
	for k, key := range m.keys {
		if !key.working {
			ready[k] = key
		}
	}
	return ready
}

func (m *orderModel) lineUp(key *orderKey) {
	m.count++
	key.working, key.dirty, key.since, key.number = false, false, time.Now(), m.count
}

func (m *orderModel) add(k, priority int) {
	key := m.keys[k]
	if priority != 0 && (key == nil || priority > key.priority) {
		m.grade()
	}
	switch {
	case key == nil:
		key = &orderKey{priority: priority}
		m.keys[k] = key
		m.lineUp(key)
	case key.working:
		key.dirty = true
		fallthrough
	default:
		key.priority = max(key.priority, priority)
	}
	m.settle()
}

// grade is called when there is the first priority but 0.
func (m *orderModel) grade() {
	if m.graded {
		return
	}
	m.graded = true
	for _, key := range m.ready() {
		if !m.cfg.Timestamps {
			key.since = time.Now()
		}
	}
}

// next returns the key to hand out, and its priority.
func (m *orderModel) next() (best, priority int, ok bool) {
	for _, p := range slices.Backward(slices.Sorted(maps.Keys(m.turns))) {
		if len(m.turns[p]) == 0 {
			continue
		}
		first, found := 0, false
		for k, key := range m.ready() {
			if key.priority == p && m.cfg.Group(k) == m.turns[p][0] && (!found || key.number < m.keys[first].number) {
				first, found = k, true
			}
		}
		worth := time.Duration(min(int64(priority)-int64(p), 1000)) * m.cfg.Ageing // more than there is time in the test
		if !ok || m.cfg.Ageing > 0 && m.keys[first].since.Add(worth).Before(m.keys[best].since) {
			best, priority, ok = first, p, true
		}
	}
	return best, priority, ok
}

func (m *orderModel) take() (int, bool) {
	k, p, ok := m.next()
	if !ok {
		return 0, false
	}
	m.turns[p] = append(m.turns[p][1:], m.turns[p][0])
	m.keys[k].working = true
	m.settle()
	return k, true
}

// takeKey takes k, out of its turn, if it may be handed out.
func (m *orderModel) takeKey(k int) bool {
	key := m.keys[k]
	if key == nil || key.working || !slices.Contains(m.turns[key.priority], m.cfg.Group(k)) {
		return false
	}
	key.working = true
	m.settle()
	return true
}

func (m *orderModel) done(k int) {
	if key := m.keys[k]; key.dirty {
		m.lineUp(key)
	} else {
		delete(m.keys, k)
	}
	m.settle()
}

func (m *orderModel) cancel(k int) {
	if key := m.keys[k]; key != nil && key.working {
		key.dirty = false
	} else {
		delete(m.keys, k)
	}
	m.settle()
}

// settle takes the groups that have nothing to hand out, of a priority, from its turns, and adds those that do.
func (m *orderModel) settle() {
	working := map[string]int{}
	for k, key := range m.keys {
		if key.working {
			working[m.cfg.Group(k)]++
		}
	}
	may := map[int]map[string]bool{}
	for k, key := range m.ready() {
		if g := m.cfg.Group(k); m.cfg.GroupLimit == 0 || working[g] < m.cfg.GroupLimit {
			if may[key.priority] == nil {
				may[key.priority] = map[string]bool{}
			}
			may[key.priority][g] = true
		}
	}
	for p := range m.turns {
		m.turns[p] = slices.DeleteFunc(m.turns[p], func(g string) bool { return !may[p][g] })
	}
	for p := range may {
		for _, g := range slices.Sorted(maps.Keys(may[p])) { // one at most is new: a call concerns one key
			if !slices.Contains(m.turns[p], g) {
				m.turns[p] = append(m.turns[p], g)
			}
		}
	}
}

// orderConfig makes a configuration of a byte.
func orderConfig(b byte) workqueue.Config[int] {
	cfg := workqueue.Config[int]{
		Ageing:     []time.Duration{-1, 10, time.Second}[b%3],
		Timestamps: b/9%2 == 0,
		Logger:     discard,
	}
	if b/18%4 > 0 {
		cfg.Group = func(k int) string { return fmt.Sprint(k % 3) }
		cfg.GroupLimit = int(b / 3 % 3)
	}
	return cfg
}

// runOrder plays bytes on a queue and on the model.
func runOrder(config byte, ops []byte) (err error) {
	cfg := orderConfig(config)
	q := must(workqueue.New(cfg))
	m := newOrderModel(cfg)
	var working []workqueue.Item[int]
	for i, op := range ops {
		k := int(op >> 3 % 12)
		switch op & 7 {
		case 0, 1, 2:
			p := []int{0, 0, 1, 2, -1, 30, math.MaxInt32, math.MinInt32}[(i+int(op>>3))%8]
			q.AddWith(k, workqueue.AddOptions{Priority: p})
			m.add(k, p)
		case 4:
			if item, ok := q.TryTakeKey(k); ok != m.takeKey(k) {
				return fmt.Errorf("step %d: TryTakeKey of %d returns %v", i, k, ok)
			} else if ok {
				working = append(working, item)
				err = errors.Join(err, samePriority(i, item, m.keys[k].priority))
			}
		case 3:
			item, ok := q.TryTake()
			want, wantOK := m.take()
			if item.Key != want || ok != wantOK {
				return fmt.Errorf("step %d: took %d %v, want %d %v", i, item.Key, ok, want, wantOK)
			}
			if ok {
				working = append(working, item)
				err = errors.Join(err, samePriority(i, item, m.keys[want].priority))
			}
		case 5:
			if len(working) > 0 {
				j := k % len(working)
				working[j].Done()
				m.done(working[j].Key)
				working = slices.Delete(working, j, j+1)
			}
		case 6:
			q.Cancel(k)
			m.cancel(k)
		case 7:
			time.Sleep(time.Duration(op >> 3))
		}
		if err = cmp.Or(err, q.CheckInvariants()); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		if s := q.Stats(); s.Ready != len(m.ready()) || s.InProcess != len(working) {
			return fmt.Errorf("step %d: %+v, want %d and %d", i, s, len(m.ready()), len(working))
		}
	}
	// What is ready is handed out in the order in which Ready lists it.
	for i, key := range append(q.Ready(), -1) {
		want, ok := m.take()
		if _, taken := q.TryTake(); taken != ok || ok != (key >= 0) || ok && key != want {
			return fmt.Errorf("Ready has %d in place %d, handed out is %d", key, i, want)
		}
	}
	return nil
}

func samePriority(step int, item workqueue.Item[int], want int) error {
	if item.Priority != want {
		return fmt.Errorf("step %d: %d has priority %d, want %d", step, item.Key, item.Priority, want)
	}
	return nil
}

func TestRandomPrioritiesGroupsAndLimitsAgreeWithTheModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(72 * 12) {
			r := rand.New(rand.NewPCG(seed, 2))
			ops := make([]byte, 80)
			for i := range ops {
				ops[i] = byte(r.Uint32())
			}
			require.NoError(t, runOrder(byte(seed%72), ops), "seed %d, configuration %d", seed, seed%72)
		}
	})
}

func FuzzOrderAgreesWithTheModel(f *testing.F) {
	f.Add(byte(0), []byte{0, 8, 16, 3, 1, 3, 5, 5})
	f.Add(byte(22), []byte{0, 24, 48, 3, 3, 7, 3, 5, 3, 13, 6})
	f.Fuzz(func(t *testing.T, config byte, ops []byte) {
		synctest.Test(t, func(t *testing.T) { require.NoError(t, runOrder(config, ops[:min(len(ops), 200)])) })
	})
}
