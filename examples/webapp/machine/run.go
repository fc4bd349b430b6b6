package machine

import (
	"context"
	"os"
	"os/signal"
	"time"
)

const (
	firstLook = 5 * time.Millisecond   // after a Start: has the replica written its port?
	lastLook  = 200 * time.Millisecond // the longest time between two such checks
)

// child is a process that this Machine has started and not yet waited for.
type child struct {
	id      string
	listens bool // its port is on record
	exited  bool // its exit status was taken; its lock is not free yet
}

// Run calls Config.Changed soon after a replica that was started here begins to listen or exits, until ctx ends. Then it
// returns nil. It also reaps these replicas. Without Run, the Machine works, but a poller has to find these changes by
// itself. It always has to for replicas that another process has started. Run starts no goroutine. If Run is already
// running, it fails with ErrRunning.
func (m *Machine) Run(ctx context.Context) error {
	if !m.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer m.running.Store(false)

	exits := make(chan os.Signal, 1) // one slot: one check finds every exit
	notifyExits(exits)
	defer signal.Stop(exits)

	wait := firstLook
	for {
		var again <-chan time.Time
		if m.look() {
			again = time.After(wait)
			wait = min(2*wait, lastLook)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-exits:
		case <-m.started:
			wait = firstLook
		case <-again:
		}
	}
}

// look reaps every child that has exited, finds those that have begun to listen, and calls Config.Changed if there were
// any. It reports whether to look again soon: some children do not listen yet, or their lock is not free yet.
func (m *Machine) look() (again bool) {
	type exit struct {
		pid    int
		id     string
		status string
	}
	var exits []exit
	waiting := make(map[int]string)
	ended := make(map[int]*child)
	m.mu.Lock()
	for pid, c := range m.children {
		// Under the lock, which is held briefly because this does not wait: after a child is reaped, the next child can
		// have its pid.
		if !c.exited {
			if status, exited := exitStatus(pid); exited {
				exits = append(exits, exit{pid, c.id, status})
				c.exited = true
			} else if !c.listens {
				waiting[pid] = c.id
			}
		}
		if c.exited {
			ended[pid] = c
		}
	}
	m.mu.Unlock()

	for _, e := range exits {
		m.cfg.Logger.Info("machine: replica exited", "id", e.id, "pid", e.pid, "status", e.status)
	}
	changed := len(exits) > 0
	for pid, c := range ended {
		// A process that was forked here in the meantime has a copy of the lock until its exec. Until then, List shows the
		// dead replica as alive, so Changed has to be called again.
		if m.holds(c.id) {
			again = true
			continue
		}
		changed = true
		m.mu.Lock()
		if m.children[pid] == c {
			delete(m.children, pid)
		}
		m.mu.Unlock()
	}
	for pid, id := range waiting {
		if !m.listens(id) {
			again = true
			continue
		}
		changed = true
		m.mu.Lock()
		if c := m.children[pid]; c != nil {
			c.listens = true
		}
		m.mu.Unlock()
	}
	if changed {
		m.cfg.Changed()
	}
	return again
}

// holds reports whether the record of the replica is locked. One that cannot be read counts as not locked.
func (m *Machine) holds(id string) bool {
	rec, err := openRecord(m.dir, id)
	if err != nil || rec == nil {
		return false
	}
	defer rec.Close()
	held, err := rec.held()
	return err == nil && held
}

// listens reports whether the record of the replica says that its process listens.
func (m *Machine) listens(id string) bool {
	rec, err := openRecord(m.dir, id)
	if err != nil || rec == nil {
		return false // it has exited, or the next check can tell
	}
	defer rec.Close()
	r, err := rec.read()
	return err == nil && r.Port != 0
}
