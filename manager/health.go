package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/informer"
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
		told  time.Duration // how long ago it was told to end; 0 if it was not
	}
	m.mu.Lock()
	var parts []driven
	for _, p := range m.everythingLocked() {
		if p.done == nil {
			continue
		}
		d := driven{part: p, asked: p.check != nil && p.state != stateWaiting && p.state != stateBackingOff}
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
		if m.cfg.StopTimeout >= 0 && d.told-stopGrace > m.cfg.StopTimeout {
			err = problems.Join(err, fmt.Errorf("it was told to end %v ago, and has not returned", d.told.Round(time.Second)))
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
	stage := m.stageLocked()
	var errs []error
	if stage != stageStandby && stage != stageLeading {
		errs = append(errs, fmt.Errorf("manager: not ready: the manager is %s", stage))
	}
	var behind []*part
	for _, p := range m.everythingLocked() {
		switch {
		case p.gate != nil && p.number < m.first && !isClosed(p.gate):
			behind = append(behind, p)
		case p.stateLocked() == stateBackingOff:
			errs = append(errs, &checkError{p, "not ready:", " has failed", p.err})
		}
	}
	m.mu.Unlock()
	for _, p := range behind {
		var cause error
		if s, ok := p.value.(interface{ Stats() informer.Stats }); ok {
			cause = s.Stats().LastError
		}
		errs = append(errs, &checkError{p, "not ready:", " has not synced", cause})
	}
	return errors.Join(append(errs, m.Check())...)
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

// The states of a part, in Stats. The package documentation has a diagram.
const (
	stateWaiting    = "waiting"     // for its stage, or for the informers; or it has failed, and everything stops
	stateSyncing    = "syncing"     // an informer that runs, and has not synced yet
	stateRunning    = "running"     // its Run runs
	stateBackingOff = "backing off" // it has failed, and will be started again
	stateStopping   = "stopping"    // it was told to end, and has not yet
)

// Stats is a snapshot of a [Manager].
type Stats struct {
	// Stage is the progress of the manager: "new", "syncing", "standby", "leading", "stopping", or "ended".
	Stage string

	// Parts are the parts and their informers, in the order in which they were added, and the election after them.
	Parts []PartStats
}

// PartStats is a snapshot of one part of a [Manager]. A part that is not an informer skips syncing:
//
//	added
//	  |
//	  v        its stage has begun, and the               has synced
//	waiting - informers before it have synced -> syncing ------------> running
//	  ^                                            | ^                    |
//	  |                                      fails | | started again      | fails
//	  |                                            v |                    |
//	  |                                         backing off <-------------'
//	  |                                              |
//	  |        its stage is over, or it is removed   |  (also from syncing and running)
//	  |                                              v
//	  '---- until its stage begins again -------- stopping ----> gone, if it was removed
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
	s := Stats{Stage: m.stageLocked()}
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

// stageLocked returns the stage of m.
func (m *Manager) stageLocked() string {
	switch {
	case m.stopping == nil:
		return stageNew
	case m.at != stageEnded && m.stoppingLocked():
		return stageStopping
	default:
		return m.at
	}
}

// sinceLocked returns when the state of p began.
func (p *part) sinceLocked() time.Time {
	if p.done != nil && !p.told.IsZero() {
		return p.told
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
