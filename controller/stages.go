package controller

import (
	"context"
	"errors"
	"sync"
	"time"
)

// stageKind says what runs in a stage.
type stageKind int

const (
	sourceStage   stageKind = iota // sources
	replicaStage                   // controllers of every replica
	electionStage                  // the election, or the slots
	leaderStage                    // controllers of the leader, one stage for each term; those that share their keys
	stageKinds
)

// stage runs parts beside each other, in one context. It takes parts until it is over.
type stage struct {
	m       *Manager
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup // of the goroutines that drive parts
}

type stopHook struct {
	name string
	run  func(context.Context) error
}

// Run starts everything in order and blocks until ctx ends, or a part fails and OnFailure says that everything is to stop.
// Then everything is stopped in order, and Run returns when all parts have ended. A lost leadership is not a failure: the
// controllers of the leader stop, and this process campaigns again.
//
// A part that ignores the end of its context is left behind when the stop has lasted for [ManagerConfig.StopTimeout]. Then
// Run returns an error that wraps [ErrStopTimeout] and names the part. No stop hook is called after a controller that was
// left behind, and the lease is not released: it expires. The program should exit.
//
// Run returns nil, or the errors of the parts with their names, joined in the order in which they occurred. The first is
// the one that made everything stop, unless ctx did. A failure after which a part was started again is logged, not
// returned. Run returns [ErrUsed] if it was called before.
func (m *Manager) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if m.logger == nil {
		panic("controller: Run called on a Manager that NewManager has not made")
	}
	if err := m.use(ctx, stop); err != nil {
		return err
	}
	defer m.limitStop(ctx)()
	if ctx.Err() == nil {
		// The sources have a context of their own: they must outlive the controllers.
		m.open(sourceStage, context.WithoutCancel(ctx))
	}
	if m.awaitFirstSync(ctx) {
		m.enter(StageStandby)
		m.open(replicaStage, ctx)
		if m.elector != nil {
			m.open(electionStage, ctx)
		} else {
			if m.slots != nil { // they are owned until the controllers have drained
				m.open(electionStage, context.WithoutCancel(ctx))
			}
			m.lead(ctx)
		}
		<-ctx.Done()
		m.close(electionStage)
		m.close(replicaStage)
	}
	m.close(sourceStage)
	m.enter(StageEnded)

	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(m.errs...)
}

// use begins the run of m, which ctx and stop belong to, unless there was one, or a part could not be added.
func (m *Manager) use(ctx context.Context, stop context.CancelCauseFunc) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopping != nil {
		return ErrUsed
	}
	m.stopping, m.stop = ctx, stop
	if len(m.addErrors) > 0 {
		stop(ErrStopped)
		m.at = StageEnded
		return errors.Join(m.addErrors...)
	}
	m.first = m.added
	m.at = StageSyncing
	return nil
}

// awaitFirstSync waits until the sources that were there at the beginning have synced. It returns false if the stop begins
// before.
func (m *Manager) awaitFirstSync(ctx context.Context) bool {
	m.mu.Lock()
	next := &part{number: m.first}
	m.mu.Unlock()
	return m.awaitSources(ctx, next)
}

// lead runs the controllers of the leader until ctx ends, and then the stop hooks: one term.
func (m *Manager) lead(ctx context.Context) {
	m.enter(StageLeading)
	m.open(leaderStage, ctx)
	<-ctx.Done()
	m.close(leaderStage)
	if m.isStopping() {
		m.close(replicaStage) // the hooks come after all controllers
	}
	if !lost(ctx) && !m.hasLeft() {
		m.callHooks(ctx)
	}
	if !m.isStopping() {
		m.enter(StageStandby)
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
	// Drives one part. It ends when the stage is told to, the part is removed, or it has failed for good. close waits for
	// it, until the stop has lasted for too long, and so does RemoveSource or RemoveController.
	s.running.Go(func() {
		defer cancel(nil)
		defer s.m.letGo(p)
		s.m.drive(ctx, p)
	})
}

// close ends the stage of the given kind, if there is one. It returns when its parts have ended, or were left over.
func (m *Manager) close(kind stageKind) {
	told := time.Now()
	if kind == replicaStage {
		told = m.stopStart() // by its context
	}
	m.mu.Lock()
	s := m.stages[kind]
	m.stages[kind] = nil // takes no more parts
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

// enter notes the stage that begins.
func (m *Manager) enter(at Stage) {
	m.mu.Lock()
	m.at = at
	ctx := m.stopping
	m.mu.Unlock()
	m.logger.DebugContext(ctx, "manager", "stage", at)
}

// isStopping tells whether the stop has begun.
func (m *Manager) isStopping() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stoppingLocked()
}

// fail notes err and makes everything stop.
func (m *Manager) fail(err error) {
	m.mu.Lock()
	m.errs = append(m.errs, err)
	m.mu.Unlock()
	m.stop(err)
}
