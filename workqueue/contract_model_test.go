package workqueue_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/setpoint-go/setpoint/workqueue"
)

// contractModel is the contract table of the package documentation as code, with debounce and budgets. Time is a number of
// nanoseconds, of which 0 is never. It knows no schedule and no lists but the order of what is ready: it scans all keys.
type contractModel struct {
	cfg      workqueue.Config[int]
	backoff  time.Duration // of each failure; 0 for that of the queue itself
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
	wake         int64
	isBackoff    bool // wake
	calm, calmBy int64
	set          int // the number of the call that changed wake or calm last: of equal times that of the lower comes first
	failures     int
	failed       int64
	since        int64
	rank         int // of those in its state
}

func newContractModel(cfg workqueue.Config[int], backoff time.Duration) *contractModel {
	return &contractModel{
		cfg: cfg, backoff: backoff, begin: time.Now().Add(-1), keys: map[int]*contractKey{}, order: newOrderModel(cfg),
	}
}

func (m *contractModel) now() int64 { return int64(time.Since(m.begin)) }

// due is the earlier of wake and calm.
func (k *contractKey) due() int64 {
	if k.wake == 0 || k.calm != 0 && k.calm < k.wake {
		return k.calm
	}
	return k.wake
}

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
	if m.cfg.Debounce == 0 || key.state == workqueue.Ready || key.dirty {
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
	case key.state == workqueue.Ready || key.dirty:
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
	if key.calm != 0 {
		m.calls++
		key.calm, key.calmBy, key.set = 0, 0, m.calls
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
		m.add(k, priority)
	default:
		if priority != 0 {
			m.raise(k, priority)
		}
		m.wakeUp(m.key(k), d, false, policy)
	}
}

func (m *contractModel) wakeUp(key *contractKey, d time.Duration, isBackoff bool, policy workqueue.Policy) {
	at := m.now() + int64(d)
	if key.wake != 0 && (policy == workqueue.Earliest && key.wake <= at || policy == workqueue.Latest && key.wake >= at) {
		return
	}
	m.delayed(key)
	key.wake, key.isBackoff = at, isBackoff
}

// fail is a failure with a delay of its own, or one whose delay is asked for if that is nil. It reports whether k comes back.
func (m *contractModel) fail(k int, own *time.Duration, policy workqueue.Policy, priority int) bool {
	if m.shutdown {
		return false
	}
	key := m.key(k)
	if key.state == workqueue.Parked {
		return false
	}
	if priority != 0 {
		m.raise(k, priority)
	}
	if key.failures == 0 {
		key.failed = m.now()
	}
	key.failures++
	d := m.backoff
	switch {
	case own != nil:
		d = *own
	case d == 0:
		d = min(5*time.Millisecond<<(key.failures-1), 1000*time.Second)
	}
	spent := m.cfg.MaxAttempts > 0 && key.failures >= m.cfg.MaxAttempts ||
		m.cfg.MaxElapsed > 0 && m.now()-key.failed >= int64(m.cfg.MaxElapsed)
	if spent && key.isBackoff {
		m.calls++
		key.wake, key.isBackoff, key.set = 0, false, m.calls
	}
	switch {
	case spent && key.state == workqueue.InProcess:
		key.spent = true
	case spent && key.state == workqueue.Ready:
		key.failures, key.failed = 0, 0
	case spent:
		m.park(k)
	case d <= 0:
		m.makeReady(k)
	default:
		m.wakeUp(key, d, true, policy)
	}
	return !spent
}

func (m *contractModel) park(k int) {
	m.keys[k].spent = false
	m.enter(m.keys[k], workqueue.Parked)
	m.told = append(m.told, fmt.Sprint("parked ", k, m.keys[k].failures))
}

func (m *contractModel) take() (int, bool) {
	k, ok := m.order.take()
	if ok {
		m.enter(m.keys[k], workqueue.InProcess)
		if m.keys[k].isBackoff {
			m.keys[k].wake, m.keys[k].isBackoff = 0, false
		}
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
	key.wake, key.isBackoff, key.calm, key.calmBy, key.dirty = 0, false, 0, 0, false
	if key.state == workqueue.Ready {
		m.enter(key, workqueue.Delayed)
		delete(m.order.keys, k)
		m.order.settle()
	}
	m.rest(k)
	return cancelled
}

func (m *contractModel) forget(k int) {
	key := m.keys[k]
	if key == nil || key.state == workqueue.Parked {
		return
	}
	key.failures, key.failed, key.spent = 0, 0, false
	if key.state == workqueue.Remembered {
		delete(m.keys, k)
	}
}

func (m *contractModel) retryParked(k int) bool {
	if key := m.keys[k]; m.shutdown || key == nil || key.state != workqueue.Parked {
		return false
	}
	m.makeReady(k)
	return true
}

func (m *contractModel) dropParked(k int) bool {
	key := m.keys[k]
	if key == nil || key.state != workqueue.Parked {
		return false
	}
	key.failures, key.failed = 0, 0
	m.enter(key, workqueue.Delayed)
	m.rest(k)
	return true
}

func (m *contractModel) shutDown() {
	if m.shutdown {
		return
	}
	m.shutdown = true
	for _, k := range m.scheduled() {
		key := m.keys[k]
		calm := key.calm != 0
		key.wake, key.isBackoff, key.calm, key.calmBy = 0, false, 0, 0
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
			key.wake, key.isBackoff = 0, false
		}
		m.calls++
		key.calm, key.calmBy, key.set = 0, 0, m.calls
		m.makeReady(scheduled[0])
	}
	maps.DeleteFunc(m.keys, func(_ int, key *contractKey) bool {
		return key.state == workqueue.Remembered && now-key.since >= int64(time.Hour)
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
			Key: k, State: key.state, Dirty: key.dirty, Since: at(key.since), Next: at(key.wake), Calm: at(key.calm),
			Priority: key.priority, Group: m.order.cfg.Group(k), Failures: key.failures, FirstFailure: at(key.failed),
		}
		if !m.cfg.Timestamps && key.state != workqueue.Parked && key.state != workqueue.Remembered {
			info.Since = time.Time{}
		}
		infos = append(infos, info)
	}
	return infos
}
