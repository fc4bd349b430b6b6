package manager

import (
	"context"
	"errors"
	"sync"
	"time"
)

// stageKind identifies a stage.
type stageKind int

const (
	outerStage    stageKind = iota // Outer: informers, and the parts that start and end with them
	replicaStage                   // Always
	electionStage                  // the election, or the slots
	leaderStage                    // Leading: one stage for each term; with slots, one that lasts
	stageKinds
)

// stage runs parts concurrently, in one context. It accepts parts until it is over.
type stage struct {
	m       *Manager
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup // of the goroutines that drive parts
}

// The stages of a manager, in Stats. A manager that loses its lease goes back to standby.
const (
	stageNew      = "new"      // Run was not called
	stageSyncing  = "syncing"  // the informers run, and have not synced
	stageStandby  = "standby"  // the parts of stage Always run; another process may lead
	stageLeading  = "leading"  // all parts run
	stageStopping = "stopping" // the stop has begun
	stageEnded    = "ended"    // Run has returned, or is about to
)

// Run starts everything in order and blocks until ctx ends, or a part fails and [Config].Restart does not start it again. Then
// Run stops everything in order, and returns when all parts have ended. A lost leadership is not a failure: the parts of stage
// Leading stop, and this process campaigns again.
//
// When the stop has lasted for [Config].StopTimeout, Run leaves behind any part that ignores the end of its context. Then Run returns an
// error that wraps [ErrStopTimeout] and names the part. If the part is of stage Leading or Always, Run neither calls BeforeRelease nor
// releases the lease, which expires. The program should exit.
//
// Run returns nil, or the errors of the parts with their names, joined in the order in which they occurred. The first is the one that
// stopped everything, unless ctx did. Run logs a failure after which a part was started again, and does not return it. It returns an error
// at once if it was called before.
func (m *Manager) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if m.logger == nil {
		panic("manager: Run called on a Manager that New has not made")
	}
	if err := m.use(ctx, stop); err != nil {
		return err
	}
	defer m.limitStop(ctx)()
	if ctx.Err() == nil {
		// This stage has its own context, because it must outlive the others.
		m.open(outerStage, context.WithoutCancel(ctx))
	}
	if m.awaitFirstSync(ctx) {
		m.enter(stageStandby)
		m.open(replicaStage, ctx)
		if m.elector != nil {
			m.open(electionStage, ctx)
		} else {
			if m.slots != nil { // this replica owns them until the controllers have drained
				m.open(electionStage, context.WithoutCancel(ctx))
			}
			m.lead(ctx)
		}
		<-ctx.Done()
		m.close(electionStage)
		m.close(replicaStage)
	}
	m.close(outerStage)
	m.enter(stageEnded)

	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(m.errs...)
}

// use begins the only run of m, with ctx and stop.
func (m *Manager) use(ctx context.Context, stop context.CancelCauseFunc) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopping != nil {
		return errUsed
	}
	m.stopping, m.stop = ctx, stop
	m.first = m.added
	m.at = stageSyncing
	return nil
}

// awaitFirstSync waits until the informers that were there at the beginning have synced. It returns false if the stop begins first.
func (m *Manager) awaitFirstSync(ctx context.Context) bool {
	m.mu.Lock()
	next := &part{stage: leaderStage, number: m.first}
	m.mu.Unlock()
	return m.awaitInformers(ctx, next)
}

// lead runs the parts of stage Leading until ctx ends, and then BeforeRelease: one term.
func (m *Manager) lead(ctx context.Context) {
	m.enter(stageLeading)
	m.open(leaderStage, ctx)
	<-ctx.Done()
	m.close(leaderStage)
	if m.isStopping() {
		m.close(replicaStage) // BeforeRelease comes after all parts
	}
	if !lost(ctx) && !m.hasLeft() {
		m.beforeRelease(ctx)
	}
	if !m.isStopping() {
		m.enter(stageStandby)
	}
}

// open begins a stage: the parts that run in it start.
func (m *Manager) open(kind stageKind, ctx context.Context) {
	s := &stage{m: m}
	s.ctx, s.cancel = context.WithCancel(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stages[kind] = s
	for _, p := range m.parts {
		if p.stage == kind {
			s.startLocked(p)
		}
	}
	if kind == electionStage {
		s.startLocked(m.election)
	}
}

// startLocked starts p, which is not driven.
func (s *stage) startLocked(p *part) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	p.ctx, p.cancel, p.done, p.told = ctx, cancel, make(chan struct{}), time.Time{}
	// Drives one part. It ends when the stage is told to end, the part is removed, or it has failed for good. close waits for it, until the
	// stop has taken too long, and so does Remove.
	s.running.Go(func() {
		defer cancel(nil)
		defer s.m.letGo(p)
		s.m.drive(ctx, p)
	})
}

// close ends the stage of the given kind, if there is one. It returns when its parts have ended or were left behind.
func (m *Manager) close(kind stageKind) {
	told := time.Now()
	if kind == replicaStage {
		told = m.stopStart() // by its context
	}
	m.mu.Lock()
	s := m.stages[kind]
	m.stages[kind] = nil // accepts no more parts
	var driven []leftover
	if s != nil {
		for _, p := range m.everythingLocked() {
			if p.stage == kind && p.done != nil {
				p.tellLocked(told)
				driven = append(driven, leftover{p.kind, p.name, p.done})
			}
		}
	}
	m.mu.Unlock()
	if s == nil {
		return
	}
	s.cancel()
	grace := stopGrace
	if kind == electionStage {
		grace = 2 * stopGrace
	}
	all := true
	for _, p := range driven {
		if m.outlasts(p.done, told, grace) {
			m.leave(p)
			all = false
		}
	}
	if all {
		s.running.Wait()
	}
}

// enter records the stage that begins.
func (m *Manager) enter(at string) {
	m.mu.Lock()
	m.at = at
	ctx := m.stopping
	m.mu.Unlock()
	m.logger.DebugContext(ctx, "manager", "stage", at)
}

// isStopping reports whether the stop has begun.
func (m *Manager) isStopping() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stoppingLocked()
}

// fail records err and stops everything.
func (m *Manager) fail(err error) {
	m.mu.Lock()
	m.errs = append(m.errs, err)
	m.mu.Unlock()
	m.stop(err)
}

// stoppingLocked reports whether the stop has begun.
func (m *Manager) stoppingLocked() bool { return m.stopping != nil && m.stopping.Err() != nil }
