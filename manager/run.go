package manager

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// stage runs parts concurrently, in one context. It accepts parts until it is over.
type stage struct {
	m       *Manager
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup // of the goroutines that drive parts
}

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
	m.logStart(ctx)
	if ctx.Err() == nil {
		// This stage has its own context, because it must outlive the others.
		m.open(Outer, context.WithoutCancel(ctx))
	}
	if m.awaitFirstSync(ctx) {
		m.enter(stateStandby)
		m.open(Always, ctx)
		if m.elector != nil {
			m.open(electing, ctx)
		} else {
			if m.slots != nil { // this replica owns them until the controllers have drained
				m.open(electing, context.WithoutCancel(ctx))
			}
			m.lead(ctx)
		}
		<-ctx.Done()
		m.close(electing)
		m.close(Always)
	}
	m.close(Outer)
	m.enter(stateEnded)
	m.logEnd(ctx)

	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(m.errs...)
}

// logStart logs what runs.
func (m *Manager) logStart(ctx context.Context) {
	attrs := []slog.Attr{slog.String("version", version())}
	var informers, parts []string
	m.mu.Lock()
	for _, p := range m.parts {
		if p.kind == kindInformer {
			informers = append(informers, p.name)
		} else {
			parts = append(parts, p.name)
		}
	}
	m.mu.Unlock()
	attrs = append(attrs, slog.Any("parts", parts), slog.Any("informers", informers))
	if m.election != nil {
		attrs = append(attrs, slog.String("lease", m.election.name))
	}
	if m.slots != nil {
		attrs = append(attrs, slog.Int("slots", m.cfg.Shards.Slots))
	}
	m.logger.LogAttrs(ctx, slog.LevelInfo, "starting", attrs...)
}

// version returns the version of the program, which has its commit if it has no tag.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "unknown"
}

// logEnd logs why m has stopped, and what was left behind.
func (m *Manager) logEnd(ctx context.Context) {
	attrs := []slog.Attr{slog.Any("cause", context.Cause(ctx)), slog.Duration("duration", time.Since(m.stopStart()))}
	level := slog.LevelInfo
	m.mu.Lock()
	if len(m.left) > 0 {
		var left []string
		for _, l := range m.left {
			left = append(left, cmp.Or(strings.TrimSpace(l.kind+" "+l.name), "BeforeRelease"))
		}
		level, attrs = slog.LevelWarn, append(attrs, slog.Any("left", left))
	}
	m.mu.Unlock()
	m.logger.LogAttrs(ctx, level, "stopped", attrs...)
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
	for _, p := range m.everythingLocked() {
		p.after = m.first
	}
	m.state = stateSyncing
	return nil
}

// awaitFirstSync waits until the parts of stage Outer that were there at the beginning have started, and the informers among them have synced.
// It returns false if the stop begins first.
func (m *Manager) awaitFirstSync(ctx context.Context) bool {
	m.mu.Lock()
	next := &part{stage: Always, after: m.first}
	m.mu.Unlock()
	return m.awaitEarlier(ctx, next)
}

// lead runs the parts of stage Leading until ctx ends, and then BeforeRelease: one term.
func (m *Manager) lead(ctx context.Context) {
	m.enter(stateLeading)
	m.open(Leading, ctx)
	<-ctx.Done()
	m.close(Leading)
	if m.isStopping() {
		m.close(Always) // BeforeRelease comes after all parts
	}
	if !lost(ctx) && !m.hasLeft() {
		m.beforeRelease(ctx)
	}
	if !m.isStopping() {
		m.enter(stateStandby)
	}
}

// open begins a stage: the parts that run in it start.
func (m *Manager) open(kind Stage, ctx context.Context) {
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
	if kind == electing {
		s.startLocked(m.election)
	}
}

// startLocked starts p, which is not driven.
func (s *stage) startLocked(p *part) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	p.ctx, p.cancel, p.done, p.ending = ctx, cancel, make(chan struct{}), time.Time{}
	// Drives one part. It ends when the stage ends, the part is removed, or it has failed for good. close waits for it, until the
	// stop has taken too long, and so does Remove.
	s.running.Go(func() {
		defer cancel(nil)
		defer s.m.letGo(p)
		s.m.drive(ctx, p)
	})
}

// close ends the stage of the given kind, if there is one. It returns when its parts have ended or were left behind.
func (m *Manager) close(kind Stage) {
	ended := time.Now()
	if kind == Always {
		ended = m.stopStart() // with its context
	}
	m.mu.Lock()
	s := m.stages[kind]
	m.stages[kind] = nil // accepts no more parts
	var driven []leftover
	if s != nil {
		for _, p := range m.everythingLocked() {
			if p.stage == kind && p.done != nil {
				p.endLocked(ended)
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
	if kind == electing {
		grace = 2 * stopGrace
	}
	all := true
	for _, p := range driven {
		if m.outlasts(p.done, ended, grace) {
			m.leave(p)
			all = false
		}
	}
	if all {
		s.running.Wait()
	}
}

// enter records the state that begins.
func (m *Manager) enter(state string) {
	m.mu.Lock()
	m.state = state
	ctx := m.stopping
	m.mu.Unlock()
	m.logger.DebugContext(ctx, "entering a state", "state", state)
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
