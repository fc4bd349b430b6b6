package controller

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-go/setpoint/wait"
)

// Check tells whether this process is alive. It asks every part that runs and has a method Check() error, and the election,
// and joins what they return, with their names. An error means that something hangs which only the end of the process can
// mend, such as work that goes on although the lease is lost. Check is for a liveness probe. It is nil before Run and after
// it, and a part that is not running, be it that it waits, be it that it has failed and is to be started again, has
// nothing to answer for.
func (m *Manager) Check() error {
	m.mu.Lock()
	var running []*part
	for _, p := range m.everythingLocked() {
		if p.check != nil && p.done != nil && p.state != PartWaiting && p.state != PartBackingOff {
			running = append(running, p)
		}
	}
	m.mu.Unlock()
	var errs []error
	for _, p := range running {
		err := wait.Call(context.Background(), func(context.Context) error { return p.check() })
		if err != nil {
			errs = append(errs, fmt.Errorf("controller: check %s %q: %w", p.kind, p.name, err))
		}
	}
	return errors.Join(errs...)
}

// Ready tells whether this process does what it is there for: whether the sources that were there at the beginning have
// synced, no part has failed and waits to be started again, the stop has not begun, and Check has nothing to say. The
// error names what is missing. Ready is for a readiness probe, and for whoever waits for the beginning. A standby is ready:
// [Manager.Stats] tells it from a leader.
func (m *Manager) Ready() error {
	m.mu.Lock()
	stage := m.stageLocked()
	var errs []error
	if stage != StageStandby && stage != StageLeading {
		errs = append(errs, fmt.Errorf("controller: not ready: the manager is %s", stage))
	}
	var behind []*part
	for _, p := range m.everythingLocked() {
		switch {
		case p.source != nil && p.number < m.first && !isClosed(p.gate):
			behind = append(behind, p)
		case p.stateLocked() == PartBackingOff:
			errs = append(errs, fmt.Errorf("controller: not ready: %s %q has failed: %w", p.kind, p.name, p.err))
		}
	}
	m.mu.Unlock()
	for _, p := range behind {
		errs = append(errs, fmt.Errorf("controller: not ready: source %q has not synced: %s", p.name, notSynced(p.source)))
	}
	return errors.Join(append(errs, m.Check())...)
}
