package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/wait"
)

// Run starts everything in order and blocks until ctx ends, or a part fails: it returns an error or panics, or returns
// before it was told to. Then everything is stopped in order, and Run returns when all parts have ended. A lost
// leadership is not a failure: the controllers stop, and this process campaigns again.
//
// Run returns nil, or the errors of the parts with their names, joined in the order in which they occurred. The first is
// the one that made everything stop, unless ctx did. Run returns [ErrUsed] if it was called before.
func (m *Manager) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if !m.use() {
		return ErrUsed
	}
	m.stopping, m.stop = ctx, stop

	// The sources have a context of their own: they must outlive the controllers.
	sourcesCtx, stopSources := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSources()
	var sources sync.WaitGroup
	for _, s := range m.sources {
		// Runs one source. It ends after stopSources, or when the source fails, and is waited for below.
		sources.Go(func() { m.runPart(sourcesCtx, "source", s.Name(), s.Run) })
	}

	if m.waitForSources(ctx) {
		if m.elector != nil {
			m.runPart(ctx, "election", m.cfg.Election.Key, m.elector.Run)
		} else {
			m.lead(ctx)
		}
	}

	stopSources()
	sources.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(m.errs...)
}

// use marks m as used. It returns false if it was.
func (m *Manager) use() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.used
	m.used = true
	return !was
}

// waitForSources tells whether all sources have synced, and nothing else has happened before.
func (m *Manager) waitForSources(ctx context.Context) bool {
	syncers := make([]informer.Syncer, 0, len(m.sources))
	for _, s := range m.sources {
		syncers = append(syncers, s)
	}
	if err := waitForSync(ctx, m.cfg.SyncTimeout, syncers); err != nil {
		m.fail(fmt.Errorf("controller: sync sources: %w", err))
	}
	if ctx.Err() != nil {
		return false
	}
	m.logger.DebugContext(ctx, "sources synced", "sources", len(m.sources))
	return true
}

// lead runs the controllers until ctx ends, and then the stop hooks: one term.
func (m *Manager) lead(ctx context.Context) {
	m.logger.DebugContext(ctx, "controllers start", "controllers", len(m.controllers))
	var controllers sync.WaitGroup
	for _, c := range m.controllers {
		// Runs one controller. It ends after ctx, or when the controller fails, and is waited for below.
		controllers.Go(func() { m.runPart(ctx, "controller", c.Name(), c.Run) })
	}
	<-ctx.Done()
	controllers.Wait()
	m.logger.DebugContext(ctx, "controllers ended", "cause", context.Cause(ctx))

	if lost(ctx) {
		return
	}
	work, stopWork := workContext(ctx)
	defer stopWork(nil)
	limited, cancel := context.WithTimeoutCause(work, m.cfg.StopTimeout, after(ErrStopTimeout, m.cfg.StopTimeout))
	defer cancel()
	for i := len(m.hooks) - 1; i >= 0; i-- {
		if err := wait.Call(limited, m.hooks[i].run); err != nil {
			m.fail(part("stop hook", m.hooks[i].name, err))
		}
	}
}

// runPart runs a part that ends after ctx, and makes everything stop if it ends otherwise.
func (m *Manager) runPart(ctx context.Context, kind, name string, run func(context.Context) error) {
	err := wait.Call(ctx, run)
	told := ctx.Err() != nil || lost(ctx) // the leadership is lost a moment before its context ends
	switch {
	case !told && err == nil:
		m.fail(part(kind, name, ErrEnded))
	case err == nil:
	case told && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))):
		// It says that it was told to stop, which is no news.
	case told && m.stopping.Err() == nil: // the leadership was lost, and this process will campaign again
		m.logger.WarnContext(ctx, "controller ended with an error after the leadership was lost", "controller", name, "error", err)
	default:
		m.fail(part(kind, name, err))
	}
}

// fail notes err and makes everything stop.
func (m *Manager) fail(err error) {
	m.mu.Lock()
	m.errs = append(m.errs, err)
	m.mu.Unlock()
	m.stop(err)
}

// part names the part that an error comes from.
func part(kind, name string, err error) error {
	return fmt.Errorf("controller: manage %s %q: %w", kind, name, err)
}

// lost tells whether ctx belongs to a leadership that was lost.
func lost(ctx context.Context) bool {
	l, ok := leaderelect.FromContext(ctx)
	return ok && l.Err() != nil
}
