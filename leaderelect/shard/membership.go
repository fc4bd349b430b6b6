package shard

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
)

// membership is the lease that shows other replicas that this one takes part. Members are numbered, and numbers are
// reused. So records of replicas that are gone do not accumulate.
type membership struct {
	slots *Slots
	store leaderelect.LeaseStore
	left  []*lease.Link // of electors with calls that have not returned; belongs to the goroutine of run
}

// run keeps a membership until ctx ends. If one is lost, run takes another.
func (m *membership) run(ctx context.Context) error {
	peers, cfg := m.slots.peers, m.slots.cfg
	for ctx.Err() == nil {
		read := peers.changed.Wait()
		if n := peers.snapshot(cfg.Slots, cfg.Members).vacant; n != nobody {
			m.join(ctx, n)
			read = peers.changed.Wait()
			peers.nudge()
		}
		select {
		case <-ctx.Done():
		case <-read:
		}
	}
	var errs []error
	until := time.Now().Add(m.slots.timing.Grace())
	for _, link := range m.left {
		errs = append(errs, link.Left(time.Until(until)))
	}
	return errors.Join(errs...)
}

// join competes for the number n. It returns after this replica has held and lost it, or when another replica has it.
func (m *membership) join(ctx context.Context, n int) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	s := m.slots
	cfg := s.cfg.lease()
	cfg.Key = memberKey(cfg.Key, n)
	cfg.Hooks = leaderelect.Hooks{Request: cfg.Hooks.Request} // a membership is no leadership to users
	cfg.OnStartedLeading = func(ctx context.Context, _ *leaderelect.Leadership) error {
		s.peers.nudge()
		<-ctx.Done()
		return nil
	}
	cfg.OnNewLeader = func(l leaderelect.Leader) {
		if l.Incarnation != s.incarnation {
			leave()
		}
	}
	link := &lease.Link{
		Incarnation: s.incarnation,
		Amend:       func(r *lease.Record) { r.Declines = s.declined() },
		Prior:       s.peers.observation(cfg.Key), // the time that peers has observed it counts
		Unwaited:    true,                         // a call that returns late must not delay the next membership
	}
	e, err := s.elector(cfg, m.store, link)
	if err != nil {
		s.log.ErrorContext(ctx, "shard: joining failed", "error", err) // New has checked the same Config
		return
	}
	_ = e.RunOnce(ctx) // a membership that was lost is taken again
	m.left = slices.DeleteFunc(append(m.left, link), func(l *lease.Link) bool { return l.Left(0) == nil })
}
