package workqueue_test

import (
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/workqueue"
)

// What the contract says of failures, backoffs and budgets.

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
	case m.foreign != nil:
		m.foreign[k]++
		d = min(5*time.Millisecond<<(m.foreign[k]-1), 1000*time.Second)
	case d == 0:
		d = min(5*time.Millisecond<<(key.failures-1), 1000*time.Second)
	}
	spent := m.cfg.MaxAttempts > 0 && key.failures >= m.cfg.MaxAttempts ||
		m.cfg.MaxElapsed > 0 && m.now()-key.failed >= int64(m.cfg.MaxElapsed)
	if spent {
		delete(m.foreign, k)
		if key.retry != 0 {
			m.calls++
			key.retry, key.set = 0, m.calls
		}
	}
	switch {
	case spent && key.state == workqueue.InProcess:
		key.spent = true
	case spent && key.state == workqueue.Ready:
		key.failures, key.failed = 0, 0
	case spent:
		m.park(k)
	case key.tried():
	case d <= 0:
		m.makeReady(k)
	default:
		m.wakeUp(key, &key.retry, d, policy)
	}
	return !spent
}

func (m *contractModel) park(k int) {
	m.keys[k].spent = false
	m.enter(m.keys[k], workqueue.Parked)
	m.told = append(m.told, fmt.Sprint("parked ", k, m.keys[k].failures))
}

func (m *contractModel) forget(k int) {
	delete(m.foreign, k)
	key := m.keys[k]
	if key == nil || key.state == workqueue.Parked {
		return
	}
	key.failures, key.failed, key.spent = 0, 0, false
	if key.retry != 0 {
		m.calls++
		key.retry, key.set = 0, m.calls
	}
	if key.state == workqueue.Remembered {
		delete(m.keys, k)
		return
	}
	m.rest(k)
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
