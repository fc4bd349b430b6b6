package manager

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/setpoint-go/setpoint/internal/broadcast"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/wait"
)

// stopGrace is the time that a part gets to return after the limit of the stop, or after its context has ended if that
// is later. The election gets it twice: it waits for the controllers of the leader, and then releases the lease.
const stopGrace = 3 * time.Second

// overrunGrace is the time that controllers, or work in a slot, get to return after their context has ended, although another
// may lead already. It is longer than StepDownTimeout only if the process was suspended, or that is very short.
const overrunGrace = time.Second

// leftover is a part, or BeforeRelease, that had not returned at the limit of the stop.
type leftover struct {
	kind string // of a part; empty is BeforeRelease
	name string
	done <-chan struct{} // closed when it has returned after all
}

// limitStop closes late when the stop, which begins with the end of ctx, has lasted for StopTimeout. Calling end cancels that.
func (m *Manager) limitStop(ctx context.Context) (end func()) {
	if m.cfg.StopTimeout < 0 {
		return func() {}
	}
	var watch wait.Group
	ended := make(chan struct{})
	// Waits for the beginning of the stop and for its limit. It ends when Run no longer waits for any part.
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
		_ = watch.Wait() // it returns no error
	}
}

// stopStart returns when the stop began. It must have begun. The result is the same each time.
func (m *Manager) stopStart() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopBegan.IsZero() {
		m.stopBegan = time.Now()
	}
	return m.stopBegan
}

// limit returns the time limit of the stop, which must have begun.
func (m *Manager) limit() time.Time { return m.stopStart().Add(m.cfg.StopTimeout) }

// outlasts waits until done is closed. It returns true if the stop takes too long first: grace has passed since the limit, and since ended.
func (m *Manager) outlasts(done <-chan struct{}, ended time.Time, grace time.Duration) bool {
	select {
	case <-done:
		return false
	case <-m.late:
	}
	if limit := m.limit(); limit.After(ended) {
		ended = limit
	}
	timer := time.NewTimer(time.Until(ended.Add(grace)))
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	return !broadcast.IsClosed(done)
}

// leave records that l is left behind and still running.
func (m *Manager) leave(l leftover) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left = append(m.left, l)
	if l.kind == kindElection && len(m.left) > 1 {
		return // it waits for the others
	}
	err := fmt.Errorf("it has not returned: %w", after(ErrStopTimeout, time.Since(m.stopBegan)))
	if l.kind == "" {
		m.errs = append(m.errs, lastWord(err))
	} else {
		m.errs = append(m.errs, partError(l.kind, l.name, err))
	}
}

// hasLeft reports whether anything in the term was left behind.
func (m *Manager) hasLeft() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.left) > 0
}

// awaitLeft waits for everything that was left behind. The lease is not released before that, and the process ends if it is lost.
func (m *Manager) awaitLeft() {
	m.mu.Lock()
	left := m.left
	m.mu.Unlock()
	for _, l := range left {
		if l.kind != kindElection {
			<-l.done
		}
	}
}

// beforeRelease calls BeforeRelease, and records it as left behind if it has not returned in time.
func (m *Manager) beforeRelease(ctx context.Context) {
	if m.cfg.BeforeRelease == nil {
		return
	}
	work, stopWork := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stopWork(nil)
	if l, ok := leaderelect.FromContext(ctx); ok {
		// The goroutine of AfterFunc makes one call after the lease is lost.
		defer context.AfterFunc(l.Context(), func() { stopWork(context.Cause(l.Context())) })()
	}
	ends := time.Now().Add(m.cfg.StopTimeout)
	if m.isStopping() {
		ends = m.limit()
	}
	if soonest := time.Now().Add(stopGrace); ends.Before(soonest) {
		ends = soonest
	}
	if m.cfg.StopTimeout >= 0 {
		limited, cancel := context.WithDeadlineCause(work, ends, fmt.Errorf("manager: %w", after(ErrStopTimeout, m.cfg.StopTimeout)))
		defer cancel()
		work = limited
	}
	done := make(chan struct{})
	var running wait.Group
	// BeforeRelease blocks, and may not return. It ends with its context, and is waited for below, unless it is left behind.
	running.Start(work, func(ctx context.Context) error {
		defer close(done)
		return m.cfg.BeforeRelease(ctx)
	})
	if m.outlasts(done, ends, stopGrace) {
		m.leave(leftover{done: done})
		return
	}
	if err := running.Wait(); err != nil {
		m.fail(lastWord(err))
	}
}

// lastWord marks an error as one of BeforeRelease.
func lastWord(err error) error { return fmt.Errorf("manager: call BeforeRelease: %w", err) }

// overrun ends the process when the work of a leader continues although another may lead: that work may do harm, and nothing else can stop
// it. After a suspend, the elector calls overrun late. Then the contexts of the parts have just ended, and the parts have a moment to return.
func (m *Manager) overrun(l *leaderelect.Leadership) {
	if m.slots != nil {
		m.overrunSlot(l)
		return
	}
	var parts []*part
	var dones []<-chan struct{}
	now, last := time.Now(), time.Time{} // when the last context of a part ended
	m.mu.Lock()
	leading := m.leading
	for _, p := range m.parts {
		if p.stage == Leading && p.stateLocked() == stateStopping {
			parts, dones = append(parts, p), append(dones, p.done)
			ended := p.ending
			if ended.IsZero() {
				ended = now
			}
			if ended.After(last) {
				last = ended
			}
		}
	}
	m.mu.Unlock()
	if leading == nil {
		return // the term was lost before its work began, and so the work does not begin
	}
	if last.IsZero() {
		last = now
	}
	timer := time.NewTimer(time.Until(last.Add(overrunGrace)))
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
	for i, p := range parts {
		if !broadcast.IsClosed(dones[i]) {
			names = append(names, p.name)
		}
	}
	if len(parts) > 0 && len(names) == 0 {
		return // they have ended
	}
	if len(parts) == 0 { // they have ended, but BeforeRelease or a part that was left behind has not
		select {
		case <-leading:
			return
		case <-timer.C:
		}
	}
	m.logger.LogAttrs(l.Context(), slog.LevelError, "parts continue although another may lead, and the process ends",
		slog.Any("parts", names), slog.String("lease", l.Key()), slog.Uint64("term", l.Term()), slog.Any("error", l.Err()))
	m.exit(l)
}
