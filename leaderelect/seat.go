package leaderelect

import (
	"context"
	"errors"
	"sync"
)

// seat is the lease by which others know that this replica is there. Seats are numbered, and taken again when they are
// free: records of replicas that are gone do not pile up.
type seat struct {
	slots       *Slots
	store       LeaseStore
	incarnation string

	mu sync.Mutex
	// mu guards the following.
	number int // nobody while it has none
}

// held returns the number of the seat, or nobody.
func (s *seat) held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.number
}

// run takes a seat, and another one when it is lost, until ctx ends.
func (s *seat) run(ctx context.Context) error {
	var errs []error
	for ctx.Err() == nil {
		read := s.slots.peers.changed.wait()
		if n := s.slots.peers.snapshot(s.slots.cfg.Slots, s.slots.cfg.Seats).freeSeat; n != nobody {
			if err := s.sit(ctx, n); errors.Is(err, ErrStoreStuck) {
				errs = append(errs, err)
			}
			read = s.slots.peers.changed.wait()
			s.slots.peers.nudge()
		}
		select {
		case <-ctx.Done():
		case <-read:
		}
	}
	return errors.Join(errs...)
}

// sit competes for the seat until it was held and lost, or another has it.
func (s *seat) sit(ctx context.Context, n int) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	cfg := s.slots.lease
	cfg.Store, cfg.Key, cfg.ReleaseOnCancel = s.store, seatKey(s.slots.lease.Key+"/", n), true
	cfg.OnStoppedLeading, cfg.Hooks = nil, Hooks{Request: cfg.Hooks.Request} // it leads nothing that counts
	cfg.OnStartedLeading = func(ctx context.Context, _ *Leadership) error {
		s.set(n)
		defer s.set(nobody)
		s.slots.peers.nudge()
		<-ctx.Done()
		return nil
	}
	cfg.OnNewLeader = func(l Leader) {
		if l.Incarnation != s.incarnation {
			leave()
		}
	}
	e := newElector(cfg, s.incarnation)
	e.amend = func(r *record) { r.Declines = s.slots.declined() }
	e.prior = s.slots.peers.observation(cfg.Key) // it may have expired while it was watched from here
	return e.RunOnce(ctx)
}

func (s *seat) set(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number = n
}
