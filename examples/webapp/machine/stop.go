package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

const (
	stopPoll = 10 * time.Millisecond // how often StopAll checks whether all are gone
	killWait = 2 * time.Second       // how long StopAll waits for replicas that it has killed without grace
)

// Stop asks a replica to end. The first call sends SIGTERM, a call after Config.Grace sends SIGKILL, and calls in between do
// nothing. So call Stop each time the replica is still there. Stop does not wait, and returns nil if the replica is gone.
// ctx is for Config.Permit.
func (m *Machine) Stop(ctx context.Context, id string) error {
	if err := m.end(ctx, id, false); err != nil {
		return fmt.Errorf("machine: stop %q: %w", id, err)
	}
	return nil
}

// Kill ends a replica at once, with SIGKILL, even if it is suspended. Kill does not wait, and returns nil if the replica is
// gone. ctx is for Config.Permit.
func (m *Machine) Kill(ctx context.Context, id string) error {
	if err := m.end(ctx, id, true); err != nil {
		return fmt.Errorf("machine: kill %q: %w", id, err)
	}
	return nil
}

func (m *Machine) end(ctx context.Context, id string, now bool) error {
	if !validID(id) {
		return nil // there is none
	}
	rec, err := openRecord(m.dir, id)
	if err != nil || rec == nil {
		return err
	}
	defer rec.Close()
	r, err := rec.read()
	if err != nil {
		return err
	}

	signal, first := m.nextSignal(r, now)
	if signal == nil {
		return nil
	}
	sent, err := rec.signal(r.PID, signal, func() error { return m.cfg.Permit(ctx) })
	if err != nil || !sent {
		return err
	}
	if first {
		m.mu.Lock()
		if mk := m.markLocked(id, r.Created); mk.stopping.IsZero() {
			mk.stopping = time.Now()
		}
		m.mu.Unlock()
		m.cfg.Changed()
	}
	return nil
}

// nextSignal returns the signal to send to r, nil for none, and whether it is the first one for r.
func (m *Machine) nextSignal(r Replica, kill bool) (signal os.Signal, first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	stopping := m.markLocked(r.ID, r.Created).stopping
	switch {
	case kill || !stopping.IsZero() && time.Since(stopping) >= m.cfg.Grace:
		return os.Kill, stopping.IsZero()
	case stopping.IsZero():
		return syscall.SIGTERM, true
	default:
		return nil, false
	}
}

// signal sends a signal to the process of the record, whose pid is given, if permit allows it. It returns false if the
// process is gone.
func (r *record) signal(pid int, s os.Signal, permit func() error) (bool, error) {
	// The handle first, the lock second: if a process is alive when the lock is checked, it had this pid the whole time
	// before. So the handle belongs to it, even if the pid is reused later.
	var process *os.Process
	if pid != 0 {
		var err error
		if process, err = os.FindProcess(pid); err != nil {
			return false, err
		}
		defer process.Release()
	}
	held, err := r.held()
	if err != nil || !held {
		return false, err
	}
	if process == nil {
		return false, ErrNoPID
	}
	if err := checkHolder(pid, r); err != nil { // the record may say anything
		if held, _ := r.held(); !held {
			return false, nil // it has ended in the meantime
		}
		return false, fmt.Errorf("process %d does not hold %s: %w", pid, r.path(), err)
	}
	if err := permit(); err != nil {
		return false, err
	}
	err = process.Signal(s)
	if errors.Is(err, os.ErrProcessDone) {
		return false, nil
	}
	return err == nil, err
}

// StopAll ends every replica on the machine, whatever process started it, and returns when all are gone. It stops them as
// Stop does. When ctx ends, it kills the rest, and waits at most two seconds for them. An error names the replicas that are
// still there. A replica that is started in the meantime is stopped too. StopAll gives up if Config.Permit returns an error.
func (m *Machine) StopAll(ctx context.Context) error {
	tick := time.NewTicker(stopPoll)
	defer tick.Stop()
	grace := ctx.Done()
	var late <-chan time.Time // set when ctx has ended
	var gaveUp bool
	for {
		m.look()
		left, err := m.list(context.WithoutCancel(ctx))
		if err != nil {
			return fmt.Errorf("machine: stop all: %w", err)
		}
		if len(left) == 0 && m.childless() {
			return nil
		}
		var errs []error
		for _, r := range left {
			if late != nil {
				errs = append(errs, m.Kill(ctx, r.ID))
			} else {
				errs = append(errs, m.Stop(ctx, r.ID))
			}
		}
		if err := m.cfg.Permit(ctx); err != nil {
			return fmt.Errorf("machine: stop all: %w", err)
		}
		if gaveUp {
			return fmt.Errorf("machine: stop all: still there: %s: %w", idsOf(left), errors.Join(append(errs, context.Cause(ctx))...))
		}
		select {
		case <-tick.C:
		case <-grace:
			grace = nil
			timer := time.NewTimer(killWait)
			defer timer.Stop()
			late = timer.C
		case <-late:
			gaveUp = true
		}
	}
}

// childless reports whether this Machine has reaped all its children: a process releases its lock a moment before it can be
// waited for.
func (m *Machine) childless() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.children) == 0
}

func idsOf(rs []Replica) string {
	ids := make([]string, len(rs))
	for i, r := range rs {
		ids[i] = r.ID
	}
	return strings.Join(ids, ", ")
}
