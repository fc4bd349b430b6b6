package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/problems"
	"github.com/setpoint-go/setpoint/wait"
)

// Failure describes the failure of a part of a [Manager].
type Failure struct {
	Kind string // "part", "informer", or "election"
	Name string // the name of the part; for an election, the key of the lease

	// Err is the error that Run of the part returned; a *wait.PanicError; ErrEnded if Run returned nil before it was told to end; or, for an
	// informer, an error that wraps ErrSyncTimeout.
	Err error

	// InARow is the number of failures, including this one, since the part was last healthy: see Config.HealthyAfter.
	InARow int

	// Ran is how long Run ran.
	Ran time.Duration
}

// Backoff returns a [Config].Restart that restarts a part after b.Delay(n-1) when it has failed n times in a row. If b.Steps is set, the
// failure of the last step stops everything. So does an error that wraps informer.ErrEnded: an informer that has ended cannot run again. It
// needs no restart, since it retries by itself when its source fails.
//
// A part of stage Leading that waits for its restart when another term begins starts with that term.
func Backoff(b wait.Backoff) func(Failure) (after time.Duration, again bool) {
	return func(f Failure) (time.Duration, bool) {
		if b.Steps > 0 && f.InARow >= b.Steps || errors.Is(f.Err, informer.ErrEnded) {
			return 0, false
		}
		return b.Delay(f.InARow - 1), true
	}
}

// react handles the failure of p as Restart decides, and reports whether p runs again.
func (m *Manager) react(ctx context.Context, p *part, err error, ran time.Duration) bool {
	failure := m.book(p, err, ran)
	delay, again, err := m.decide(ctx, failure)
	if !again {
		m.fail(partError(p.kind, p.name, err))
		return false
	}
	if told(ctx) { // removed, or everything stops
		m.log(ctx, slog.LevelError, "part failed, will not be restarted", failure)
		return false
	}
	m.log(ctx, slog.LevelWarn, "part failed, will be restarted", failure, slog.Duration("after", delay))
	m.note(p, stateBackingOff)
	if wait.Sleep(ctx, delay) != nil || told(ctx) {
		return false
	}
	m.mu.Lock()
	p.restarts++
	m.mu.Unlock()
	return true
}

// book counts a failure of p.
func (m *Manager) book(p *part, err error, ran time.Duration) Failure {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.state == stateRunning && time.Since(p.since) >= m.cfg.HealthyAfter { // an informer runs once it has synced
		p.failures = 0
	}
	p.failures++
	p.err = err
	return Failure{Kind: p.kind, Name: p.name, Err: err, InARow: p.failures, Ran: ran}
}

// decide calls Restart. It returns the error of the failure, joined with that of Restart itself.
func (m *Manager) decide(ctx context.Context, f Failure) (delay time.Duration, again bool, err error) {
	err = wait.Call(ctx, func(context.Context) error {
		delay, again = m.cfg.Restart(f)
		return nil
	})
	if err != nil {
		return 0, false, problems.Join(f.Err, fmt.Errorf("Config.Restart: %w", err))
	}
	return delay, again, f.Err
}

// log logs a failure that no caller receives as an error.
func (m *Manager) log(ctx context.Context, level slog.Level, message string, f Failure, more ...slog.Attr) {
	attrs := append([]slog.Attr{
		slog.String("kind", f.Kind), slog.String("name", f.Name), slog.Any("error", f.Err),
		slog.Int("inARow", f.InARow), slog.Duration("ran", f.Ran),
	}, more...)
	if p := (*wait.PanicError)(nil); errors.As(f.Err, &p) {
		attrs = append(attrs, slog.String("stack", string(p.Stack)))
	}
	m.logger.LogAttrs(ctx, level, message, attrs...)
}
