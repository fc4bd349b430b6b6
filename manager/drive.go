package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/internal/broadcast"
	"github.com/setpoint-go/setpoint/internal/problems"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/wait"
)

// drive runs p until ctx ends. After a failure it runs p again as Restart says.
func (m *Manager) drive(ctx context.Context, p *part) {
	if p.shared != nil {
		select {
		case <-p.shared:
		case <-ctx.Done(): // Share may have panicked
		}
	}
	for m.awaitEarlier(ctx, p) {
		if p.shared != nil {
			m.prepareLate(ctx, p)
		}
		began := time.Now()
		err := m.runOnce(ctx, p)
		if mustEnd(ctx) {
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

// awaitEarlier waits until the parts of earlier stages that were added before or with p, or before Run, have started, and the informers among
// them have synced. It returns false if p must end first.
func (m *Manager) awaitEarlier(ctx context.Context, p *part) bool {
	m.note(p, stateWaiting)
	for _, earlier := range m.earlierThan(p) {
		select {
		case <-earlier.gate:
		case <-ctx.Done():
		}
	}
	return !mustEnd(ctx)
}

// earlierThan returns the parts that p waits for.
func (m *Manager) earlierThan(p *part) (parts []*part) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, other := range m.parts {
		if other.stage < p.stage && other.number < p.after {
			parts = append(parts, other)
		}
	}
	return parts
}

// runOnce calls Run of p and returns its error. An informer that does not sync in time is ended.
func (m *Manager) runOnce(ctx context.Context, p *part) error {
	if p.synced != nil {
		m.note(p, stateSyncing)
	} else {
		m.note(p, stateRunning)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan struct{})
	var running wait.Group
	// The part blocks, and may panic or end its goroutine. It ends with ctx, and is waited for below.
	running.Start(ctx, func(ctx context.Context) error {
		defer close(ended)
		if p.synced == nil {
			m.openGate(p)
		}
		return p.run(ctx)
	})
	if p.synced == nil {
		return running.Wait()
	}

	late := awaitSync(ctx, ended, m.cfg.SyncTimeout, p.synced)
	switch {
	case late != nil:
		cancel(late)
	case broadcast.IsClosed(p.synced):
		m.noteSynced(p)
	}
	err := running.Wait()
	switch {
	case late == nil:
		return err
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, late): // it only says that its context has ended
		return late
	default:
		return problems.Join(late, err)
	}
}

// settle decides where to report err, the error of a part whose context has ended.
func (m *Manager) settle(ctx context.Context, p *part, err error) {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx)) {
		return // the part only reports that its context has ended
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
		m.logger.WarnContext(ctx, "a part ended with an error after its term", "name", p.name, "error", err)
	}
}

// letGo ends the driving of p by a stage.
func (m *Manager) letGo(p *part) {
	m.mu.Lock()
	close(p.done)
	p.ctx, p.cancel, p.done, p.ending = nil, nil, nil, time.Time{}
	p.state, p.since = stateWaiting, time.Now()
	if p.removed {
		m.dropLocked(p)
	}
	unreported := p.result
	if p.removers > 0 {
		unreported = nil
	}
	m.mu.Unlock()
	if unreported != nil {
		m.logger.Warn("a removed part ended with an error", "kind", p.kind, "name", p.name, "error", unreported)
	}
}

// note records the state of p.
func (m *Manager) note(p *part, state string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p.state, p.since = state, time.Now()
}

// noteSynced unblocks the parts that wait for the informer p.
func (m *Manager) noteSynced(p *part) {
	m.note(p, stateRunning)
	m.openGate(p)
}

// openGate unblocks the parts that wait for p.
func (m *Manager) openGate(p *part) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p.openGateLocked()
}

// openGateLocked unblocks the parts that wait for p.
func (p *part) openGateLocked() {
	if p.gate != nil && !broadcast.IsClosed(p.gate) {
		close(p.gate)
	}
}

// mustEnd reports whether a part that runs with ctx must end. A leadership is lost a moment before its context ends.
func mustEnd(ctx context.Context) bool { return ctx.Err() != nil || lost(ctx) }

// lost reports whether ctx belongs to a leadership that was lost.
func lost(ctx context.Context) bool {
	l, ok := leaderelect.FromContext(ctx)
	return ok && l.Err() != nil
}

// partError adds the name of the part to its error.
func partError(kind, name string, err error) error {
	return fmt.Errorf("manager: run %s %q: %w", kind, name, err)
}

// awaitSync waits until synced or ended is closed, or ctx ends. It returns an error only if limit has passed. A negative limit means none.
func awaitSync(ctx context.Context, ended <-chan struct{}, limit time.Duration, synced <-chan struct{}) error {
	var late <-chan time.Time
	began := time.Now()
	if limit >= 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-synced:
		return nil
	case <-ended:
		return nil
	case <-ctx.Done():
		if limit < 0 || time.Since(began) < limit || broadcast.IsClosed(synced) {
			return nil
		}
		// Also names an informer that is late at the same moment as another.
	case <-late:
	}
	return fmt.Errorf("%w: %v have passed, the SyncTimeout of the manager", ErrSyncTimeout, limit)
}

// after returns a unique error that says which limit was exceeded.
func after(sentinel error, limit time.Duration) error {
	return fmt.Errorf("%w: %v have passed", sentinel, limit)
}
