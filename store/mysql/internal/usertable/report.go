package usertable

import (
	"sync"

	"github.com/setpoint-go/setpoint/informer"
)

// Hashes has a hash of each row, under a hash of its key.
type Hashes map[uint64]uint64

// Report is what a list or a watch has reported up to a version.
type Report struct {
	At      informer.Version
	Columns []Column         // as they were then
	Rows    Hashes           // nil if nobody knows
	Marks   map[int64]bool   // entries of a log without a key, after the version, that the list has taken into account
	Shown   informer.Version // the list shows all changes up to this version, which may be later

	comparison *Comparison // that is in progress
}

// note notes what is reported of a key.
func (r *Report) note(key uint64, exists bool, values *values) {
	if r.comparison != nil {
		r.comparison.touched[key] = true
	}
	switch {
	case r.Rows == nil:
	case exists:
		r.Rows[key] = values.hash()
	default:
		delete(r.Rows, key)
	}
}

// Memory has what the last lists and watches have reported, so that watches that begin there know what consumers have. It is safe for
// concurrent use.
type Memory struct {
	mu sync.Mutex
	// mu guards the following.
	last []Report
}

// mostRemembered is how many lists and watches are remembered.
const mostRemembered = 4

// Put remembers a report.
func (m *Memory) Put(r Report) {
	r.comparison = nil
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.last {
		if m.last[i].At == r.At { // a watch may take the report of another list
			r.Shown = min(r.Shown, m.last[i].Shown)
			m.last[i].Shown = r.Shown
		}
	}
	m.last = append(m.last, r)
	m.last = m.last[max(0, len(m.last)-mostRemembered):]
}

// Take returns what was reported up to a version, and forgets it. Its rows are nil if nobody knows.
func (m *Memory) Take(at informer.Version) Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := len(m.last) - 1; i >= 0; i-- {
		if r := m.last[i]; r.At == at {
			m.last = append(m.last[:i:i], m.last[i+1:]...)
			return r
		}
	}
	return Report{}
}
