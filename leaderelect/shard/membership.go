package shard

import (
	"context"
	"errors"
	"sync"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
)

// membership is the lease that shows other replicas that this one takes part. Members are numbered, and numbers are
// reused. So records of replicas that are gone do not accumulate.
type membership struct {
	slots *Slots
	store leaderelect.LeaseStore

	mu sync.Mutex
	// mu guards the following.
	number int // nobody if this replica is no member
}

// held returns the number of this member, or nobody.
func (m *membership) held() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.number
}

// run keeps a membership until ctx ends. If one is lost, run takes another.
func (m *membership) run(ctx context.Context) error {
	var errs []error
	peers, cfg := m.slots.peers, m.slots.cfg
	for ctx.Err() == nil {
		read := peers.changed.Wait()
		if n := peers.snapshot(cfg.Slots, cfg.Members).vacant; n != nobody {
			if err := m.join(ctx, n); errors.Is(err, leaderelect.ErrStoreStuck) {
				errs = append(errs, err)
			}
			read = peers.changed.Wait()
			peers.nudge()
		}
		select {
		case <-ctx.Done():
		case <-read:
		}
	}
	return errors.Join(errs...)
}

// join competes for the number n. It returns after this replica has held and lost it, or when another replica has it.
func (m *membership) join(ctx context.Context, n int) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	s := m.slots
	cfg := s.cfg.lease()
	cfg.Key = memberKey(cfg.Key, n)
	cfg.Hooks = leaderelect.Hooks{Request: cfg.Hooks.Request} // a membership is no leadership to users
	cfg.OnStartedLeading = func(ctx context.Context, _ *leaderelect.Leadership) error {
		m.set(n)
		defer m.set(nobody)
		s.peers.nudge()
		<-ctx.Done()
		return nil
	}
	cfg.OnNewLeader = func(l leaderelect.Leader) {
		if l.Incarnation != s.incarnation {
			leave()
		}
	}
	e, err := s.elector(cfg, m.store, &lease.Link{
		Incarnation: s.incarnation,
		Amend:       func(r *lease.Record) { r.Declines = s.declined() },
		Prior:       s.peers.observation(cfg.Key), // the time that peers has observed it counts
	})
	if err != nil {
		return err
	}
	return e.RunOnce(ctx)
}

func (m *membership) set(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.number = n
}
