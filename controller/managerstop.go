package controller

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/wait"
)

// stopGrace is the time that a part gets to return after the limit of the stop, or after it was told to end if that is
// later. The election gets it twice: it waits for the controllers of the leader, and then releases the lease.
const stopGrace = 3 * time.Second

// overrunGrace is the time that controllers, or work in a slot, get to return, from the time when they were told to end,
// although another may lead already. It is longer than StepDownTimeout only if the process was suspended, or that is very short.
const overrunGrace = time.Second

// leftover is what had not returned at the limit of the stop.
type leftover struct {
	kind PartKind
	name string
	done <-chan struct{} // closed when it has returned after all
}

// limitStop lets late be closed when the stop, which begins with the end of ctx, has lasted for StopTimeout. The function
// that it returns ends that.
func (m *Manager) limitStop(ctx context.Context) (end func()) {
	if m.cfg.StopTimeout < 0 {
		return func() {}
	}
	var watch wait.Group
	ended := make(chan struct{})
	// Waits for the beginning of the stop and for its limit. It ends when Run has done all that it waits for.
	watch.Start(ctx, func(ctx context.Context) error {
		select {
		case <-ctx.Done():
		case <-ended:
			return nil
		}
		timer := time.NewTimer(time.Until(m.limit()))
		defer timer.Stop()
		select {
		case <-timer.C:
			close(m.late)
		case <-ended:
		}
		return nil
	})
	return func() {
		close(ended)
		_ = watch.Wait() // it has no error
	}
}

// stopStart returns when the stop began, which it has. It is the same each time.
func (m *Manager) stopStart() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopBegan.IsZero() {
		m.stopBegan = time.Now()
	}
	return m.stopBegan
}

// limit returns when the stop, which has begun, has lasted for too long.
func (m *Manager) limit() time.Time { return m.stopStart().Add(m.cfg.StopTimeout) }

// outlasts waits until done is closed. It returns true if the stop has lasted for too long before: grace has passed since
// then, and since told.
func (m *Manager) outlasts(done <-chan struct{}, told time.Time, grace time.Duration) bool {
	select {
	case <-done:
		return false
	case <-m.late:
	}
	if limit := m.limit(); limit.After(told) {
		told = limit
	}
	timer := time.NewTimer(time.Until(told.Add(grace)))
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	return !isClosed(done)
}

// leave notes that what is left over goes on without the manager.
func (m *Manager) leave(l leftover) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left = append(m.left, l)
	if l.kind == PartElection && len(m.left) > 1 {
		return // it waits for the others
	}
	err := fmt.Errorf("it has not returned: %w", after(ErrStopTimeout, time.Since(m.stopBegan)))
	m.errs = append(m.errs, partError(l.kind, l.name, err))
}

// hasLeft tells whether anything of the term was left over.
func (m *Manager) hasLeft() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.left) > 0
}

// awaitLeft waits for what was left over. The lease is not released before, and the process ends when it is lost.
func (m *Manager) awaitLeft() {
	m.mu.Lock()
	left := m.left
	m.mu.Unlock()
	for _, l := range left {
		if l.kind != PartElection {
			<-l.done
		}
	}
}

// callHooks calls the stop hooks, the last added first.
func (m *Manager) callHooks(ctx context.Context) {
	work, stopWork := workContext(ctx)
	defer stopWork(nil)
	m.mu.Lock()
	hooks := m.hooks
	m.mu.Unlock()
	ends := time.Now().Add(m.cfg.StopTimeout)
	if m.isStopping() {
		ends = m.limit()
	}
	if soonest := time.Now().Add(stopGrace); ends.Before(soonest) {
		ends = soonest
	}
	if m.cfg.StopTimeout >= 0 {
		limited, cancel := context.WithDeadlineCause(work, ends, after(ErrStopTimeout, m.cfg.StopTimeout))
		defer cancel()
		work = limited
	}
	for i := len(hooks) - 1; i >= 0; i-- {
		if !m.callHook(work, hooks[i], ends) {
			return
		}
	}
}

// callHook calls a stop hook, and tells whether it has returned. It is told to end at the given time.
func (m *Manager) callHook(ctx context.Context, hook stopHook, told time.Time) bool {
	done := make(chan struct{})
	var running wait.Group
	// The hook blocks, and may not return. It ends with ctx, and is waited for below, unless it is left over.
	running.Start(ctx, func(ctx context.Context) error {
		defer close(done)
		return hook.run(ctx)
	})
	if m.outlasts(done, told, stopGrace) {
		m.leave(leftover{kind: partStopHook, name: hook.name, done: done})
		return false
	}
	if err := running.Wait(); err != nil {
		m.fail(partError(partStopHook, hook.name, err))
	}
	return true
}

// overrun is what happens when the work of a leader goes on although another may lead: the process ends. What it does to
// the world is wrong, and nothing else can stop it. It gets there late after the process was suspended. Then the controllers
// have just been told to end, and have a moment for it.
func (m *Manager) overrun(l *leaderelect.Leadership) {
	if m.slots != nil {
		m.overrunSlot(l)
		return
	}
	var told []*part
	var dones []<-chan struct{}
	latest := time.Now()
	m.mu.Lock()
	leading := m.leading
	for _, p := range m.parts {
		if p.stage == leaderStage && p.stateLocked() == PartStopping {
			told, dones = append(told, p), append(dones, p.done)
			if !p.told.IsZero() && p.told.Before(latest) {
				latest = p.told
			}
		}
	}
	m.mu.Unlock()
	timer := time.NewTimer(time.Until(latest.Add(overrunGrace)))
	defer timer.Stop()
	for _, done := range dones {
		select {
		case <-done:
			continue
		case <-timer.C:
		}
		break
	}
	var names []string
	for i, p := range told {
		if !isClosed(dones[i]) {
			names = append(names, p.name)
		}
	}
	if len(told) > 0 && len(names) == 0 {
		return // they have ended
	}
	if len(told) == 0 && leading != nil { // they had ended before, or what goes on is a stop hook, or was left behind
		select {
		case <-leading:
			return
		case <-timer.C:
		}
	}
	m.logger.LogAttrs(l.Context(), slog.LevelError, "controllers go on although another may lead, and the process ends",
		slog.Any("controllers", names), slog.String("lease", l.Key()), slog.Uint64("term", l.Term()), slog.Any("cause", l.Err()))
	m.exit(l)
}
