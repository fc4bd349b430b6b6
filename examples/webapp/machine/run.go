package machine

import (
	"context"
	"os"
	"os/signal"
	"time"
)

const (
	firstLook = 5 * time.Millisecond   // after a Start: has the replica written its port
	lastLook  = 200 * time.Millisecond // the longest time between two such looks
)

// child is a process that this Machine has started and not yet waited for.
type child struct {
	id      string
	listens bool // its port was seen on record
	exited  bool // its exit status was taken; its lock is not free yet
}

// Run calls Config.Changed soon after a replica that was started here begins to listen or exits, until ctx ends; then
// it returns nil. It also takes the exit status of these replicas from the kernel. Without Run the Machine works, but
// a poller has to find all of this by itself; of replicas that another process has started it always has to. Run
// starts no goroutine. It fails with ErrRunning while it runs.
func (m *Machine) Run(ctx context.Context) error {
	if !m.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer m.running.Store(false)

	exits := make(chan os.Signal, 1) // one slot: a look finds every exit there was
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

// look takes the exit status of every child that has exited, sees which have begun to listen, and calls Config.Changed
// when there was any of either. It reports whether to look again soon: there are children that do not listen yet, or whose
// lock is not free yet.
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
		// Under the lock, which is short because it does not wait: once the status is taken the pid can be that of
		// the next child.
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
		// A process that was forked here in the meantime has a copy of the lock until its exec: then whoever lists now
		// finds the dead one alive, and has to be told again.
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

// holds reports whether the record of the replica is locked. One that cannot be read is not.
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
		return false // it has exited, or the next look can tell
	}
	defer rec.Close()
	r, err := rec.read()
	return err == nil && r.Port != 0
}
