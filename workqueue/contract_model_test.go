package workqueue_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/setpoint-go/setpoint/workqueue"
)

// contractModel is the contract of the package documentation as code, with debounce and budgets. Time is a number of
// nanoseconds, of which 0 is never. It knows no schedule and no lists but the order of what is ready: it scans all keys.
type contractModel struct {
	cfg      workqueue.Config[int]
	backoff  time.Duration // of each failure; 0 for that of the queue itself
	foreign  map[int]int   // what a limiter of another package has counted; nil if there is none
	begin    time.Time
	keys     map[int]*contractKey
	order    *orderModel
	calls    int
	shutdown bool
	told     []string // to the hooks
}

type contractKey struct {
	state        workqueue.State // Delayed also if nothing is scheduled, while a call lasts
	dirty, spent bool
	priority     int
	wake, retry  int64
	calm, calmBy int64
	set          int // the number of the call that changed one of these last: of equal times that of the lower comes first
	failures     int
	failed       int64
	since        int64
	rank         int // of those in its state
}

func newContractModel(cfg workqueue.Config[int]) *contractModel {
	return &contractModel{
		cfg: cfg, begin: time.Now().Add(-1), keys: map[int]*contractKey{}, order: newOrderModel(cfg),
	}
}

func (m *contractModel) now() int64 { return int64(time.Since(m.begin)) }

// next is the earlier of wake and retry.
func (k *contractKey) next() int64 { return firstOf(k.wake, k.retry) }

// due is the earliest of all deadlines.
func (k *contractKey) due() int64 { return firstOf(k.wake, k.retry, k.calm) }

func firstOf(times ...int64) (first int64) {
	for _, t := range times {
		if t != 0 && (first == 0 || t < first) {
			first = t
		}
	}
	return first
}

// tried reports whether the next attempt of k is to come: then it needs no backoff and no quiet time.
func (k *contractKey) tried() bool { return k.state == workqueue.Ready || k.dirty }

// key returns what is known of k, to which something is to happen.
func (m *contractModel) key(k int) *contractKey {
	if m.keys[k] == nil {
		m.keys[k] = &contractKey{}
	}
	key := m.keys[k]
	if key.state == 0 || key.state == workqueue.Remembered {
		m.enter(key, workqueue.Delayed)
	}
	return key
}

func (m *contractModel) enter(key *contractKey, s workqueue.State) {
	m.calls++
	key.state, key.rank, key.since = s, m.calls, m.now()
}

func (m *contractModel) add(k, priority int) {
	if m.shutdown {
		return
	}
	m.raise(k, priority)
	key := m.key(k)
	if m.cfg.Debounce == 0 || key.tried() {
		m.makeReady(k)
		return
	}
	if key.calm == 0 {
		key.calmBy = m.now() + int64(m.cfg.DebounceLimit)
	}
	m.delayed(key)
	key.calm = min(m.now()+int64(m.cfg.Debounce), key.calmBy)
}

// delayed is called before something is scheduled.
func (m *contractModel) delayed(key *contractKey) {
	if m.calls++; key.state == workqueue.Delayed && key.due() == 0 {
		key.since = m.now()
	}
	key.set = m.calls
}

func (m *contractModel) raise(k, priority int) {
	key := m.key(k)
	fresh := key.state == workqueue.Delayed && key.due() == 0
	if priority == key.priority || priority < key.priority && !fresh {
		return
	}
	m.order.grade()
	key.priority = priority
	if m.order.keys[k] != nil {
		m.order.keys[k].priority = priority
		m.order.settle()
	}
}

// makeReady adds k without further wait.
func (m *contractModel) makeReady(k int) {
	key := m.key(k)
	switch {
	case key.tried():
		return
	case key.state == workqueue.InProcess:
		key.dirty = true
	default:
		if key.state == workqueue.Parked {
			key.failures, key.failed = 0, 0
		}
		m.lineUp(k)
	}
	m.told = append(m.told, fmt.Sprint("added ", k))
	if key.retry != 0 || key.calm != 0 {
		m.calls++
		key.retry, key.calm, key.calmBy, key.set = 0, 0, 0, m.calls
	}
}

func (m *contractModel) lineUp(k int) {
	key := m.key(k)
	m.enter(key, workqueue.Ready)
	m.order.keys[k] = &orderKey{priority: key.priority}
	m.order.lineUp(m.order.keys[k])
	m.order.settle()
}

func (m *contractModel) addAfter(k int, d time.Duration, policy workqueue.Policy, priority int) {
	switch {
	case m.shutdown:
	case d <= 0:
		m.raise(k, priority)
		m.makeReady(k)
	default:
		if priority != 0 {
			m.raise(k, priority)
		}
		key := m.key(k)
		m.wakeUp(key, &key.wake, d, policy)
	}
}

// wakeUp sets a deadline of key, unless the one that is set counts.
func (m *contractModel) wakeUp(key *contractKey, deadline *int64, d time.Duration, policy workqueue.Policy) {
	at := m.now() + int64(d)
	if *deadline != 0 && (policy == workqueue.Earliest && *deadline <= at || policy == workqueue.Latest && *deadline >= at) {
		return
	}
	m.delayed(key)
	*deadline = at
}

func (m *contractModel) take() (int, bool) {
	k, ok := m.order.take()
	if ok {
		m.enter(m.keys[k], workqueue.InProcess)
	}
	return k, ok
}

func (m *contractModel) done(k int) {
	key := m.keys[k]
	if key == nil || key.state != workqueue.InProcess {
		m.told = append(m.told, fmt.Sprint("stray ", k))
		return
	}
	delete(m.order.keys, k)
	m.enter(key, workqueue.Delayed)
	switch {
	case key.dirty:
		if key.spent {
			key.failures, key.failed = 0, 0
		}
		key.dirty, key.spent = false, false
		m.lineUp(k)
	case key.spent:
		m.park(k)
	default:
		m.rest(k)
	}
	m.order.settle()
}

// rest drops k, or remembers its failures, if there is nothing to do with it.
func (m *contractModel) rest(k int) {
	key := m.keys[k]
	switch {
	case key.state != workqueue.Delayed || key.due() != 0:
	case key.failures > 0:
		m.enter(key, workqueue.Remembered)
		key.priority = 0
	default:
		delete(m.keys, k)
	}
}

func (m *contractModel) cancel(k int) bool {
	key := m.keys[k]
	if key == nil {
		return false
	}
	cancelled := key.due() != 0 || key.dirty || key.state == workqueue.Ready
	key.wake, key.retry, key.calm, key.calmBy, key.dirty = 0, 0, 0, 0, false
	if key.state == workqueue.Ready {
		m.enter(key, workqueue.Delayed)
		delete(m.order.keys, k)
		m.order.settle()
	}
	m.rest(k)
	return cancelled
}

// run is a Run whose context ends while it works on a key. It reports what it did.
func (m *contractModel) run(outcome string) (int, bool) {
	k, ok := m.take()
	if !ok {
		return 0, false
	}
	switch outcome {
	case "nil":
		m.forget(k)
	case "stop":
		if !m.shutdown {
			m.makeReady(k)
		}
	default:
		m.fail(k, nil, workqueue.Earliest, 0)
	}
	m.done(k)
	return k, true
}

// idle reports whether the queue is idle.
func (m *contractModel) idle() bool {
	for _, key := range m.keys {
		if key.state == workqueue.Ready || key.state == workqueue.InProcess || key.calm != 0 {
			return false
		}
	}
	return true
}

// over reports whether no key can become ready any more.
func (m *contractModel) over() bool {
	for _, key := range m.keys {
		if key.tried() {
			return false
		}
	}
	return m.shutdown
}

func (m *contractModel) shutDown() {
	if m.shutdown {
		return
	}
	m.shutdown = true
	for _, k := range m.scheduled() {
		key := m.keys[k]
		calm := key.calm != 0
		key.wake, key.retry, key.calm, key.calmBy = 0, 0, 0, 0
		if calm {
			m.makeReady(k)
		} else {
			m.rest(k)
		}
	}
}

// scheduled returns the keys that are, in the order of their times.
func (m *contractModel) scheduled() []int {
	keys := slices.DeleteFunc(slices.Collect(maps.Keys(m.keys)), func(k int) bool { return m.keys[k].due() == 0 })
	slices.SortFunc(keys, func(a, b int) int {
		return cmp.Or(cmp.Compare(m.keys[a].due(), m.keys[b].due()), cmp.Compare(m.keys[a].set, m.keys[b].set))
	})
	return keys
}

// next returns when something happens by itself next, 0 for never.
func (m *contractModel) next() (at int64) {
	if scheduled := m.scheduled(); len(scheduled) > 0 {
		at = m.keys[scheduled[0]].due()
	}
	for _, key := range m.keys {
		over := key.since + int64(time.Hour)
		if key.state == workqueue.Remembered && !m.shutdown && (at == 0 || over < at) {
			at = over
		}
	}
	return at
}

// tick does what is due now.
func (m *contractModel) tick() {
	now := m.now()
	for scheduled := m.scheduled(); len(scheduled) > 0 && m.keys[scheduled[0]].due() <= now; scheduled = m.scheduled() {
		key := m.keys[scheduled[0]]
		if key.wake <= now {
			key.wake = 0
		}
		m.calls++
		key.set = m.calls
		m.makeReady(scheduled[0])
	}
	maps.DeleteFunc(m.keys, func(k int, key *contractKey) bool {
		over := key.state == workqueue.Remembered && now-key.since >= int64(time.Hour)
		if over {
			delete(m.foreign, k)
		}
		return over
	})
}

// snapshot is what Snapshot should return.
func (m *contractModel) snapshot() []workqueue.KeyInfo[int] {
	at := func(t int64) time.Time {
		if t == 0 {
			return time.Time{}
		}
		return m.begin.Add(time.Duration(t))
	}
	keys := slices.SortedFunc(maps.Keys(m.keys), func(a, b int) int {
		x, y := m.keys[a], m.keys[b]
		if x.state == workqueue.Delayed && y.state == workqueue.Delayed {
			return cmp.Or(cmp.Compare(x.due(), y.due()), cmp.Compare(x.set, y.set))
		}
		return cmp.Or(cmp.Compare(x.state, y.state), cmp.Compare(x.rank, y.rank))
	})
	infos := []workqueue.KeyInfo[int]{}
	for _, k := range keys {
		key := m.keys[k]
		info := workqueue.KeyInfo[int]{
			Key: k, State: key.state, Dirty: key.dirty, Since: at(key.since), Next: at(key.next()), Calm: at(key.calm),
			Priority: key.priority, Group: m.order.cfg.Group(k), Failures: key.failures, FirstFailure: at(key.failed),
		}
		if !m.cfg.Timestamps && key.state != workqueue.Parked && key.state != workqueue.Remembered {
			info.Since = time.Time{}
		}
		infos = append(infos, info)
	}
	return infos
}
