package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/wait"
)

// Check tells whether this process is alive. It asks every part that runs and has a method Check() error, and the election,
// and joins what they return, with their names. It also names each part that was told to end and has not for
// [ManagerConfig.StopTimeout] and 3 s, because it was removed, its term is over, or everything stops. An error means that
// something hangs which only the end of the process can mend, such as work that goes on although the lease is lost.
//
// Check is for a liveness probe. It is nil before Run, and after Run unless a part was left behind. A part that is not
// running has nothing to answer for: one that waits, or that has failed and is to be started again.
func (m *Manager) Check() error {
	type driven struct {
		*part
		asked bool
		told  time.Duration // ago, to end; 0 if it was not
	}
	m.mu.Lock()
	var parts []driven
	for _, p := range m.everythingLocked() {
		if p.done == nil {
			continue
		}
		d := driven{part: p, asked: p.check != nil && p.state != PartWaiting && p.state != PartBackingOff}
		if !p.told.IsZero() {
			d.told = time.Since(p.told)
		}
		parts = append(parts, d)
	}
	m.mu.Unlock()
	var errs []error
	for _, d := range parts {
		var err error
		if d.asked {
			err = wait.Call(context.Background(), func(context.Context) error { return d.check() })
		}
		if m.cfg.StopTimeout >= 0 && d.told > m.cfg.StopTimeout+stopGrace {
			err = errors.Join(err, fmt.Errorf("it was told to end %v ago, and has not returned", d.told.Round(time.Second)))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("controller: check %s %q: %w", d.kind, d.name, err))
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
