package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/broadcast"
	"github.com/setpoint-go/setpoint/internal/problems"
	"github.com/setpoint-go/setpoint/wait"
)

// Check reports whether this process is alive. It calls Check() error of the election and of every running part that has this method, and
// joins the errors with the names. If a part was removed, its term is over, or everything stops, the context of the part ends. Check names
// each part that has not returned within StopTimeout plus 3 s after that, unless StopTimeout is disabled. An error means that something
// hangs, such as work that continues after the lease is lost, and that only a restart of the process helps. Each of the joined errors has a
// method Part() (kind, name string), which names the part as Stats does.
//
// Check is for a liveness probe. It returns nil before Run, and after Run unless a part was left behind. It does not check parts that wait
// for their stage or back off after a failure.
func (m *Manager) Check() error {
	type driven struct {
		*part
		asked bool
		ended time.Duration // how long ago its context ended; 0 if it has not
	}
	m.mu.Lock()
	var parts []driven
	for _, p := range m.everythingLocked() {
		if p.done == nil {
			continue
		}
		d := driven{part: p, asked: p.check != nil && p.state != stateWaiting && p.state != stateBackingOff}
		if !p.ending.IsZero() {
			d.ended = time.Since(p.ending)
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
		if m.cfg.StopTimeout >= 0 && d.ended-stopGrace > m.cfg.StopTimeout {
			err = problems.Join(err, fmt.Errorf("its context ended %v ago, and it has not returned", d.ended.Round(time.Second)))
		}
		if err != nil {
			errs = append(errs, &checkError{d.part, "check", "", err})
		}
	}
	return errors.Join(errs...)
}

// Ready reports whether this process can do its work. The informers that were there when Run began must have synced, and no part may
// be waiting after a failure. The stop must not have begun, and Check must return nil. The error names the missing conditions.
// Ready is for a readiness probe. A standby is ready: [Manager.Stats] distinguishes it from a leader.
func (m *Manager) Ready() error {
	m.mu.Lock()
	state := m.stateLocked()
	var errs []error
	if state != stateStandby && state != stateLeading {
		errs = append(errs, fmt.Errorf("manager: not ready: the manager is %s", state))
	}
	var behind []*part
	for _, p := range m.everythingLocked() {
		switch {
		case p.synced != nil && p.number < m.first && !broadcast.IsClosed(p.gate):
			behind = append(behind, p)
		case p.stateLocked() == stateBackingOff:
			errs = append(errs, &checkError{p, "not ready:", " has failed", p.err})
		}
	}
	m.mu.Unlock()
	for _, p := range behind {
		var cause error
		if s, ok := p.value.(informerStats); ok {
			cause = s.Stats().LastError
		}
		errs = append(errs, &checkError{p, "not ready:", " has not synced", cause})
	}
	return errors.Join(append(errs, m.Check())...)
}

// informerStats is an informer that says why it has not synced.
type informerStats interface {
	Stats() informer.Stats
}

// checkError is what Check and Ready say about one part.
type checkError struct {
	of           *part
	verb, detail string
	err          error // may be nil
}

func (e *checkError) Error() string {
	text := fmt.Sprintf("manager: %s %s %q%s", e.verb, e.of.kind, e.of.name, e.detail)
	if e.err != nil {
		text += ": " + e.err.Error()
	}
	return text
}

func (e *checkError) Unwrap() error { return e.err }

// Part returns the kind and the name of the part, as in PartStats.
func (e *checkError) Part() (kind, name string) { return e.of.kind, e.of.name }

// The states of a manager and of its parts, in Stats. The package documentation and PartStats have diagrams.
const (
	stateNew        = "new"         // a manager whose Run was not called
	stateSyncing    = "syncing"     // a manager whose informers have not synced, or an informer that has not
	stateStandby    = "standby"     // a manager whose parts of stage Always run; another process may lead
	stateLeading    = "leading"     // a manager whose parts all run
	stateWaiting    = "waiting"     // a part that waits for its stage, or for parts of earlier ones; or it has failed, and everything stops
	stateRunning    = "running"     // a part whose Run runs
	stateBackingOff = "backing off" // a part that has failed, and will run again
	stateStopping   = "stopping"    // a manager whose stop has begun, or a part whose context has ended
	stateEnded      = "ended"       // a manager whose Run has returned, or is about to
)

// Stats is a snapshot of a [Manager].
type Stats struct {
	// State is "new", "syncing", "standby", "leading", "stopping", or "ended". A manager that loses its lease goes back to standby.
	State string

	// Parts are the parts and their informers, in the order in which they were added, and the election after them.
	Parts []PartStats
}

// PartStats is a snapshot of one part of a [Manager]. A part that is not an informer skips syncing:
//
//	added
//	  |
//	  v        its stage has begun, and the               has synced
//	waiting -  parts before it have started  --> syncing ------------> running
//	  ^                                            | ^                    |
//	  |                                      fails | | started again      | fails
//	  |                                            v |                    |
//	  |                                         backing off <-------------'
//	  |                                              |
//	  |        its stage is over, or it is removed   |  (also from syncing and running)
//	  |                                              v
//	  '---- until its stage begins again -------- stopping ----> (removed)
type PartStats struct {
	Kind  string // "part", "informer", or "election"
	Name  string
	State string // "waiting", "syncing", "running", "backing off", or "stopping"

	// Since is the time at which State began. It is zero until the stage of the part begins for the first time.
	Since time.Time

	// Restarts is the number of restarts after failures.
	Restarts int

	// Err is the last failure, or nil. It is kept when the part runs again.
	Err error

	// Value is the part itself, such as a *controller.Controller or an *informer.Informer. It was passed to New, Add, or
	// At, or returned by Informers of another part. For the election it is the *leaderelect.Elector or the *shard.Slots.
	Value any
}

// Stats returns a snapshot of m. The caller may keep and change it.
func (m *Manager) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Stats{State: m.stateLocked()}
	for _, p := range m.everythingLocked() {
		s.Parts = append(s.Parts, PartStats{
			Kind: p.kind, Name: p.name, State: p.stateLocked(), Since: p.sinceLocked(), Restarts: p.restarts, Err: p.err, Value: p.value,
		})
	}
	return s
}

// everythingLocked returns all parts, the election last.
func (m *Manager) everythingLocked() []*part {
	if m.election == nil {
		return m.parts
	}
	return append(m.parts[:len(m.parts):len(m.parts)], m.election)
}

// stateLocked returns the state of m.
func (m *Manager) stateLocked() string {
	if m.state != stateEnded && m.stoppingLocked() {
		return stateStopping
	}
	return cmp.Or(m.state, stateNew)
}

// sinceLocked returns when the state of p began.
func (p *part) sinceLocked() time.Time {
	if p.done != nil && !p.ending.IsZero() {
		return p.ending
	}
	return p.since
}

// stateLocked returns the state of p.
func (p *part) stateLocked() string {
	if p.done != nil && p.ctx.Err() != nil {
		return stateStopping
	}
	return p.state
}
