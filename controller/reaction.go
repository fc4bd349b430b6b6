package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/wait"
)

// PartFailure says which part of a [Manager] has failed, and how.
type PartFailure struct {
	Kind PartKind
	Name string // as the part says; of an election the key of the lease

	// Err is what Run of the part has returned; a *wait.PanicError; ErrEnded if it returned nil before it was told to
	// end; or an error that wraps ErrSyncTimeout, of a source.
	Err error

	// InARow is the number of failures, this one included, since the part has last been healthy: see
	// ManagerConfig.HealthyAfter.
	InARow int

	// Ran is for how long Run has run.
	Ran time.Duration
}

// Reaction is what a [Manager] does about the failure of a part. The zero value is that of StopAll.
type Reaction struct {
	kind  reactionKind
	after time.Duration
}

type reactionKind int

const (
	stopAll reactionKind = iota
	restart
	goOnWithout
)

// StopAll stops everything in order; Run of the manager returns the failure.
func StopAll() Reaction { return Reaction{} }

// RestartAfter calls Run of the part again after d, and logs the failure. If the part is a controller of the leader, and
// another term begins before, it starts with that.
//
// An *informer.Informer and an *informer.Group run once: a second Run fails with an error that wraps informer.ErrEnded.
// They need no restart, since they try again by themselves when their source fails.
func RestartAfter(d time.Duration) Reaction { return Reaction{kind: restart, after: d} }

// GoOnWithout takes the part out of the manager, as if it had been removed, and logs the failure. A process that goes on
// without its election does not lead any more.
func GoOnWithout() Reaction { return Reaction{kind: goOnWithout} }

// RestartWithBackoff returns a ManagerConfig.OnFailure that starts a part that has failed n times in a row again after
// b.Delay(n-1). If b.Steps is set, everything is stopped by the failure of the last of so many tries. So it is by an error
// that wraps informer.ErrEnded: an informer that has ended cannot be run, nor watched, again.
func RestartWithBackoff(b wait.Backoff) func(PartFailure) Reaction {
	return func(f PartFailure) Reaction {
		if b.Steps > 0 && f.InARow >= b.Steps || errors.Is(f.Err, informer.ErrEnded) {
			return StopAll()
		}
		return RestartAfter(b.Delay(f.InARow - 1))
	}
}

// String names the reaction.
func (r Reaction) String() string {
	switch r.kind {
	case restart:
		return fmt.Sprintf("restart after %v", r.after)
	case goOnWithout:
		return "go on without it"
	default:
		return "stop all"
	}
}

// react does about the failure of p what OnFailure says, and tells whether p is to run again.
func (m *Manager) react(ctx context.Context, p *part, err error, ran time.Duration) bool {
	failure := m.book(p, err, ran)
	reaction, err := m.decide(ctx, failure)
	switch reaction.kind {
	case restart:
		m.log(ctx, slog.LevelWarn, "part failed, and is started again", failure, slog.Duration("after", reaction.after))
		m.note(p, PartBackingOff)
		if wait.Sleep(ctx, reaction.after) != nil || told(ctx) {
			return false
		}
		m.mu.Lock()
		p.restarts++
		m.mu.Unlock()
		return true
	case goOnWithout:
		m.log(ctx, slog.LevelError, "part failed, and the manager goes on without it", failure)
		m.mu.Lock()
		p.gone = true
		m.mu.Unlock()
		return false
	default:
		m.fail(partError(p.kind, p.name, err))
		return false
	}
}

// book counts a failure of p.
func (m *Manager) book(p *part, err error, ran time.Duration) PartFailure {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ran >= m.cfg.HealthyAfter && p.state != PartSyncing {
		p.failures = 0
	}
	p.failures++
	p.err = err
	return PartFailure{Kind: p.kind, Name: p.name, Err: err, InARow: p.failures, Ran: ran}
}

// decide asks OnFailure. It returns the error of the failure, and that of OnFailure itself.
func (m *Manager) decide(ctx context.Context, f PartFailure) (reaction Reaction, err error) {
	err = wait.Call(ctx, func(context.Context) error {
		reaction = m.cfg.OnFailure(f)
		return nil
	})
	if err != nil {
		return StopAll(), errors.Join(f.Err, fmt.Errorf("OnFailure: %w", err))
	}
	return reaction, f.Err
}

// log reports a failure that nobody receives as an error.
func (m *Manager) log(ctx context.Context, level slog.Level, message string, f PartFailure, more ...slog.Attr) {
	attrs := append([]slog.Attr{
		slog.String("kind", string(f.Kind)), slog.String("name", f.Name), slog.Any("error", f.Err),
		slog.Int("inARow", f.InARow), slog.Duration("ran", f.Ran),
	}, more...)
	if p := (*wait.PanicError)(nil); errors.As(f.Err, &p) {
		attrs = append(attrs, slog.String("stack", string(p.Stack)))
	}
	m.logger.LogAttrs(ctx, level, message, attrs...)
}
