package controller

import "time"

// Stage says how far a [Manager] has come.
type Stage string

// The stages of a manager, in their order. A manager that loses its lease goes back to standby.
const (
	StageNew      Stage = "new"      // Run was not called
	StageSyncing  Stage = "syncing"  // the sources run, and have not synced
	StageStandby  Stage = "standby"  // the controllers of every replica run; another process may lead
	StageLeading  Stage = "leading"  // all controllers run
	StageStopping Stage = "stopping" // the stop has begun
	StageEnded    Stage = "ended"    // Run has returned, or is about to
)

// PartState says what a part of a [Manager] does.
type PartState string

// The states of a part. The package documentation has a diagram.
const (
	PartWaiting    PartState = "waiting"     // for its stage, or for the sources; or it has failed, and everything stops
	PartSyncing    PartState = "syncing"     // a source that runs, and has not synced yet
	PartRunning    PartState = "running"     // its Run runs
	PartBackingOff PartState = "backing off" // it has failed, and is to be started again
	PartStopping   PartState = "stopping"    // it was told to end, and has not yet
)

// ManagerStats is what a [Manager] does at one moment.
type ManagerStats struct {
	Stage Stage

	// Parts are the sources and the controllers, in the order in which they were added, and the election after them.
	Parts []PartStats
}

// PartStats is what one part of a [Manager] does at one moment.
type PartStats struct {
	Kind  PartKind
	Name  string
	State PartState

	// Since is when State began. It is zero before Run.
	Since time.Time

	// Restarts is how often the part was started again after a failure.
	Restarts int

	// Err is the last failure, or nil. It stays when the part runs again.
	Err error
}

// Stats returns what m does. The caller may keep and change what it gets.
func (m *Manager) Stats() ManagerStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := ManagerStats{Stage: m.stageLocked()}
	for _, p := range m.everythingLocked() {
		s.Parts = append(s.Parts, PartStats{
			Kind: p.kind, Name: p.name, State: p.stateLocked(), Since: p.sinceLocked(), Restarts: p.restarts, Err: p.err,
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
func (m *Manager) stageLocked() Stage {
	switch {
	case m.stopping == nil:
		return StageNew
	case m.at != StageEnded && m.stoppingLocked():
		return StageStopping
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
func (p *part) stateLocked() PartState {
	if p.done != nil && p.ctx.Err() != nil {
		return PartStopping
	}
	return p.state
}
