package manager

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/wait"
)

// react handles the failure of p, which ran for the given time, as Restart says. It reports whether p runs again. err is the error that Run
// of p returned; a *wait.PanicError; ErrEnded if Run returned nil before its context ended; or, for an informer, an error that wraps
// ErrSyncTimeout.
func (m *Manager) react(ctx context.Context, p *part, err error, ran time.Duration) bool {
	restart, failures := m.cfg.Restart, m.countFailure(p, err)
	if restart.IsZero() || restart.Steps > 0 && failures >= restart.Steps || errors.Is(err, informer.ErrEnded) {
		m.fail(partError(p.kind, p.name, err))
		return false
	}
	delay := restart.Delay(failures - 1)
	attrs := []slog.Attr{
		slog.String("kind", p.kind), slog.String("name", p.name), slog.Any("error", err),
		slog.Int("failures", failures), slog.Duration("ran", ran), slog.Duration("after", delay),
	}
	if panicked := (*wait.PanicError)(nil); errors.As(err, &panicked) {
		attrs = append(attrs, slog.String("stack", string(panicked.Stack)))
	}
	m.logger.LogAttrs(ctx, slog.LevelWarn, "part failed, and will run again", attrs...)

	m.note(p, stateBackingOff)
	if wait.Sleep(ctx, delay) != nil || mustEnd(ctx) {
		return false
	}
	m.mu.Lock()
	p.restarts++
	m.mu.Unlock()
	return true
}

// countFailure counts a failure of p. It returns the number of failures in a row, since p was last healthy.
func (m *Manager) countFailure(p *part, err error) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.state == stateRunning && time.Since(p.since) >= m.cfg.HealthyAfter { // an informer runs once it has synced
		p.failures = 0
	}
	p.failures++
	p.err = err
	return p.failures
}
