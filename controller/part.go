package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/wait"
)

// PartKind says what a part of a [Manager] is.
type PartKind string

// The kinds of parts.
const (
	PartSource     PartKind = "source"
	PartController PartKind = "controller"
	PartElection   PartKind = "election" // its name is the key of the lease

	partStopHook PartKind = "stop hook" // in errors
)

// part is a source, a controller, or the election: what a manager runs, and what may fail.
type part struct {
	kind   PartKind
	name   string
	stage  stageKind // in which it runs
	run    func(ctx context.Context) error
	check  func() error    // nil if it has none
	source informer.Syncer // nil unless it is a source

	// acquired is the method of a controller that shares its keys; else nil.
	acquired func(slot int)

	gate chan struct{} // of a source: closed when it has synced once or is gone, with Manager.mu held

	// Manager.mu guards the following.

	number   int // in the order in which parts were added; a controller waits for the sources with smaller ones
	state    PartState
	since    time.Time // of state
	failures int       // in a row
	restarts int
	err      error // of the last failure
	gone     bool  // has failed, and the manager goes on without it
	removed  bool
	removers int   // calls that wait for its end
	result   error // of a part that was removed: what Run returned, if that is news

	// While a stage drives it; else nil.
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the stage lets go of it
	told   time.Time     // when it was told to end; zero before
}

// tellLocked notes that p is told to end, unless it was before.
func (p *part) tellLocked(now time.Time) {
	if p.told.IsZero() {
		p.told = now
	}
}

func newSourcePart(s Source) *part {
	if s == nil {
		panic("controller: AddSource called with nil")
	}
	return &part{
		kind: PartSource, name: s.Name(), stage: sourceStage, run: s.Run, check: checkOf(s), state: PartWaiting,
		source: s, gate: make(chan struct{}),
	}
}

func newRunnerPart(r Runner, everyReplica bool) *part {
	if r == nil {
		panic("controller: a nil controller was added")
	}
	p := &part{
		kind: PartController, name: r.Name(), stage: leaderStage, run: r.Run, check: checkOf(r), state: PartWaiting,
	}
	if everyReplica {
		p.stage = replicaStage
	}
	if s, ok := r.(interface{ Acquired(slot int) }); ok {
		p.acquired = s.Acquired
	}
	return p
}

// newElectionPart returns the part of an *leaderelect.Elector or *leaderelect.Slots.
func newElectionPart(key string, e interface {
	Run(ctx context.Context) error
	Check(tolerance time.Duration) error
}) *part {
	check := func() error { return e.Check(0) }
	return &part{kind: PartElection, name: key, stage: electionStage, run: e.Run, check: check, state: PartWaiting}
}

// checkOf returns the method Check of a part, or nil if it has none.
func checkOf(part any) func() error {
	if c, ok := part.(interface{ Check() error }); ok {
		return c.Check
	}
	return nil
}

// drive runs p until ctx ends: again after a failure, if that is what OnFailure says.
func (m *Manager) drive(ctx context.Context, p *part) {
	for m.awaitSources(ctx, p) {
		began := time.Now()
		err := m.runOnce(ctx, p)
		if told(ctx) {
			m.settle(ctx, p, err)
			return
		}
		if err == nil {
			err = ErrEnded
		}
		if !m.react(ctx, p, err, time.Since(began)) {
			return
		}
	}
}

// awaitSources waits until the sources that were added before p have synced, if p is none itself. It returns false if p is told to end before.
func (m *Manager) awaitSources(ctx context.Context, p *part) bool {
	m.note(p, PartWaiting)
	for _, source := range m.sourcesBefore(p) {
		select {
		case <-source.gate:
		case <-ctx.Done():
		}
	}
	return !told(ctx)
}

// sourcesBefore returns the sources that p waits for.
func (m *Manager) sourcesBefore(p *part) (sources []*part) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, other := range m.parts {
		if other.source != nil && p.source == nil && other.number < p.number {
			sources = append(sources, other)
		}
	}
	return sources
}

// runOnce calls Run of p and returns its error. A source that does not sync in time is ended.
func (m *Manager) runOnce(ctx context.Context, p *part) error {
	if p.source != nil {
		m.note(p, PartSyncing)
	} else {
		m.note(p, PartRunning)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan struct{})
	var running wait.Group
	// The part blocks, and may panic or end its goroutine. It ends with ctx, and is waited for below.
	running.Start(ctx, func(ctx context.Context) error {
		defer close(ended)
		return p.run(ctx)
	})
	if p.source == nil {
		return running.Wait()
	}

	late := awaitSync(ctx, ended, m.cfg.SyncTimeout, p.source)
	switch {
	case late != nil:
		cancel(late)
	case isClosed(p.source.Synced()):
		m.noteSynced(p)
	}
	err := running.Wait()
	switch {
	case late == nil:
		return err
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, late): // it says that it was told to end
		return late
	default:
		return errors.Join(late, err)
	}
}

// settle decides who hears of err, with which a part has ended that was told to.
func (m *Manager) settle(ctx context.Context, p *part, err error) {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx)) {
		return // it says that it was told to end, which is no news
	}
	m.mu.Lock()
	removed, stopping := p.removed, m.stoppingLocked()
	if removed {
		p.result = err
	}
	m.mu.Unlock()
	switch {
	case removed: // see letGo
	case stopping:
		m.fail(partError(p.kind, p.name, err))
	default: // the term is over, and this process will campaign again
		m.logger.WarnContext(ctx, "controller ended with an error after its term", "controller", p.name, "error", err)
	}
}

// letGo ends the drive of p by a stage.
func (m *Manager) letGo(p *part) {
	m.mu.Lock()
	close(p.done)
	p.ctx, p.cancel, p.done, p.told = nil, nil, nil, time.Time{}
	p.state, p.since = PartWaiting, time.Now()
	if p.removed || p.gone {
		m.dropLocked(p)
	}
	unheard := p.result
	if p.removers > 0 {
		unheard = nil
	}
	m.mu.Unlock()
	if unheard != nil {
		m.logger.Warn("a removed part ended with an error", "kind", p.kind, "name", p.name, "error", unheard)
	}
}

// dropLocked takes p, which is not driven, out of the manager.
func (m *Manager) dropLocked(p *part) {
	for i, other := range m.parts {
		if other == p {
			m.parts = append(m.parts[:i:i], m.parts[i+1:]...)
			break
		}
	}
	if p.gate != nil && !isClosed(p.gate) {
		close(p.gate) // nobody waits for what will not come
	}
}

// note says what p does now.
func (m *Manager) note(p *part, state PartState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p.state, p.since = state, time.Now()
}

// noteSynced lets those go on that wait for the source p.
func (m *Manager) noteSynced(p *part) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p.state, p.since = PartRunning, time.Now()
	if !isClosed(p.gate) {
		close(p.gate)
	}
}

// told tells whether a part that runs with ctx was told to end. A leadership is lost a moment before its context ends.
func told(ctx context.Context) bool { return ctx.Err() != nil || lost(ctx) }

// lost tells whether ctx belongs to a leadership that was lost.
func lost(ctx context.Context) bool {
	l, ok := leaderelect.FromContext(ctx)
	return ok && l.Err() != nil
}

// partError names the part that an error comes from.
func partError(kind PartKind, name string, err error) error {
	return fmt.Errorf("controller: manage %s %q: %w", kind, name, err)
}

// isClosed tells whether c, on which nothing is sent, is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
