package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/setpoint-go/setpoint/internal/reconcile"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/wait"
)

// catcher is an informer that can catch up, as *informer.Informer does.
type catcher interface {
	CatchUp(ctx context.Context) error
}

// fenced is a store among the sources of the informers.
type fenced interface {
	RaiseFence(ctx context.Context) error
}

// raiseLimit limits one attempt to raise a fence.
const raiseLimit = 10 * time.Second

// errNoAnswer is the cause with which the context of such an attempt ends.
var errNoAnswer = errors.New("the store has not answered in time")

// patience is the time after which a slow takeover is logged.
const patience = 10 * time.Second

// CatchUp prepares c for work under the leadership of ctx. It returns nil when the cache of each informer of c ([Controller.Informers]) has
// all that was written under earlier terms of the lease, and nothing more can be written under them:
//
//  1. It raises the fence of ctx in each store among the sources of the informers, so that no write of an earlier term is accepted anymore:
//     see store.Store.RaiseFence.
//  2. It waits until each cache has every change that was committed before: see [informer.Informer.CatchUp].
//
// Run does this by itself if its context has a leadership, and [Controller.Prepare] does it for a slot. Errors of the sources are logged, and CatchUp tries again until ctx ends. If ctx ends first, the error names the
// caches and wraps the cause of ctx. An informer of another type, without a method CatchUp(ctx) error, is left out.
func (c *Controller[K]) CatchUp(ctx context.Context) error {
	if err := c.takeover(ctx, nil); err != nil {
		return fmt.Errorf("controller: catch up %q: %w", c.name, err)
	}
	return nil
}

// takeover raises the fences, and waits until each cache has caught up. In between, it calls hold for each informer, if hold is not nil: what
// such a list has cannot change under an earlier term.
func (c *Controller[K]) takeover(ctx context.Context, hold func(ctx context.Context, in Informer) error) error {
	slow := time.AfterFunc(patience, func() {
		c.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "waiting for the caches to catch up with the former leader",
			slog.String("controller", c.name), slog.Duration("for", patience))
	})
	defer slow.Stop()
	for _, in := range c.inputs.informers {
		if err := c.raiseFence(ctx, in); err != nil {
			return err
		}
	}
	var caches wait.Group // of goroutines that end with ctx, or when the cache has caught up; Wait waits for them
	for _, in := range c.inputs.informers {
		caches.Start(ctx, func(ctx context.Context) error {
			if hold != nil {
				if err := hold(ctx, in); err != nil {
					return err
				}
			}
			if in, ok := in.(catcher); ok {
				return in.CatchUp(ctx)
			}
			return nil
		})
	}
	return caches.Wait()
}

// raiseFence raises the fence of ctx in the source of an informer, if that is a store. It tries until it succeeds.
func (c *Controller[K]) raiseFence(ctx context.Context, in Informer) error {
	made, ok := in.(interface{ Source() any })
	if !ok {
		return nil
	}
	source, ok := reconcile.SourceAs[fenced](made.Source())
	if !ok {
		return nil
	}
	backoff := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 1, Cap: 10 * time.Second}
	for failures := 0; ; failures++ {
		limited, cancel := context.WithTimeoutCause(ctx, raiseLimit, after(errNoAnswer, raiseLimit))
		err := wait.Call(limited, source.RaiseFence)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			c.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "raising the fence failed", slog.String("controller", c.name),
				slog.String("informer", in.Name()), slog.Any("error", err))
			_ = wait.Sleep(ctx, backoff.Delay(failures)) // the end of ctx is noticed below
		}
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), fmt.Errorf("raise the fence of %s: %w", in.Name(), err))
		}
	}
}

// takeOver is takeover for a Run with ctx, within Config.SyncTimeout. It returns nil if ctx or its leadership has ended.
func (c *Controller[K]) takeOver(ctx context.Context) error {
	l, ok := leaderelect.FromContext(ctx)
	if !ok {
		return nil
	}
	limit := after(errSyncTimeout, c.cfg.SyncTimeout)
	limited, cancel := context.WithTimeoutCause(ctx, c.cfg.SyncTimeout, limit)
	defer cancel()
	limited, stop := context.WithCancelCause(limited)
	defer stop(nil)
	defer stopWith(l.Context(), stop)() // a leadership that ctx does not end with
	c.setTakingOver(time.Now())
	defer c.setTakingOver(time.Time{})
	err := c.takeover(limited, nil)
	if ctx.Err() != nil || l.Err() != nil {
		return nil
	}
	return err
}

// setTakingOver records when the takeover began that is in progress; zero if there is none.
func (c *Controller[K]) setTakingOver(since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.takingOver = since
}

// checkTakeover returns an error if the takeover that has begun at the given time takes too long.
func (c *Controller[K]) checkTakeover(since time.Time) error {
	took := time.Since(since)
	if since.IsZero() || took <= c.cfg.SyncTimeout/2 {
		return nil
	}
	return fmt.Errorf("controller: check %q: it leads, and its caches have not caught up with the former leader for %v", c.name, took.Round(time.Second))
}
