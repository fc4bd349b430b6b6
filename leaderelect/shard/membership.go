package shard

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
	"github.com/setpoint-go/setpoint/retry"
)

// membership is the lease that shows other replicas that this one takes part. Members are numbered, and numbers are
// reused. So records of former replicas do not accumulate.
type membership struct {
	slots *Slots
	lease leaderelect.Config // that all electors share

	// The following belong to the goroutine of run.
	left   []func(timeout time.Duration) error // wait for calls of earlier electors that have not returned
	joined bool                                // in this run, so the store has worked
}

// run keeps a membership until ctx ends. If one is lost, run takes another. If it cannot take any because the store cannot work, it
// returns an error.
func (m *membership) run(ctx context.Context) error {
	peers, cfg := m.slots.peers, m.slots.cfg
	m.joined = false
	var errs []error
	for ctx.Err() == nil {
		read := peers.changed.Next()
		if n := peers.snapshot(cfg.Slots, cfg.Members).vacant; n != nobody {
			if err := m.join(ctx, n); err != nil {
				errs = append(errs, err)
				break
			}
			read = peers.changed.Next()
			peers.nudge()
		}
		select {
		case <-ctx.Done():
		case <-read:
		}
	}
	until := time.Now().Add(m.slots.timing.Grace())
	for _, wait := range m.left {
		errs = append(errs, wait(time.Until(until)))
	}
	return errors.Join(errs...)
}

// join competes for the number n. It returns after this replica has held and lost it, or when another replica has it. The error says that
// the store cannot work.
func (m *membership) join(ctx context.Context, n int) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	s := m.slots
	cfg := m.lease
	cfg.Key = memberKey(cfg.Key, n)
	cfg.OnStartedLeading = func(ctx context.Context, _ *leaderelect.Leadership) error {
		m.joined = true
		s.peers.nudge()
		<-ctx.Done()
		return nil
	}
	cfg.OnNewLeader = func(l leaderelect.Leader) {
		if l.Incarnation != s.incarnation {
			leave()
		}
	}
	cfg.Link = &lease.Link{
		Incarnation: s.incarnation,
		Amend:       func(r *lease.Record) { r.Declines = s.declined() },
		Prior:       s.peers.observation(cfg.Key), // the time for which peers has observed it counts
		Leave: func(wait func(time.Duration) error) { // a call that returns late must not delay the next membership
			m.left = append(m.left, wait)
		},
	}
	e, err := leaderelect.New(cfg)
	if err != nil {
		s.log.ErrorContext(ctx, "joining failed", "error", err) // New has checked the same Config
		return nil
	}
	err = e.RunOnce(ctx)
	m.left = slices.DeleteFunc(m.left, func(wait func(time.Duration) error) bool { return wait(0) == nil })
	if retry.IsPermanent(err) && !m.joined {
		return err
	}
	return nil // a membership that was lost is taken again
}
