package leaderelect

import (
	"context"
	"sync"
)

// slot is one lease of [Slots], and the work on its keys.
//
// It is owned from its acquisition until its lease is lost or is to be released. Work that has begun then may go on, and
// is waited for.
type slot struct {
	number  int
	elector *Elector
	slots   *Slots

	mu sync.Mutex
	// mu guards the following.
	leadership *Leadership   // while new work may begin; else nil
	working    int           // begun and not done
	idle       chan struct{} // made by lead when it waits, closed by the last that is done; nil when nobody waits
}

// newSlot returns a slot that is not owned.
func newSlot(s *Slots, number int, store LeaseStore, incarnation string) *slot {
	one := &slot{number: number, slots: s}
	cfg := s.lease
	cfg.Store, cfg.Key, cfg.ReleaseOnCancel = store, slotKey(s.lease.Key+"/", number), true
	cfg.OnStartedLeading, cfg.OnStoppedLeading, cfg.OnNewLeader = one.lead, nil, nil
	if s.cfg.OnRevoked != nil {
		cfg.OnStoppedLeading = func(_ *Leadership, cause error) { s.cfg.OnRevoked(number, cause) }
	}
	one.elector = newElector(cfg, incarnation)
	one.elector.headStart = slotHeadStart
	return one
}

// lead is the work of the leader of the slot.
func (s *slot) lead(ctx context.Context, l *Leadership) error {
	s.mu.Lock()
	s.leadership = l
	s.mu.Unlock()

	err := guard(ctx, func(ctx context.Context) error {
		if err := s.slots.cfg.OnAcquired(ctx, s.number); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})

	s.mu.Lock()
	s.leadership = nil
	var idle chan struct{}
	if s.working > 0 {
		s.idle = make(chan struct{})
		idle = s.idle
	}
	s.mu.Unlock()
	if idle != nil {
		<-idle
	}
	return err
}

// owned reports whether new work may begin.
func (s *slot) owned() bool {
	s.mu.Lock()
	l := s.leadership
	s.mu.Unlock()
	return l != nil && l.takesWork()
}

// begin is Slots.Begin.
func (s *slot) begin(ctx context.Context) (context.Context, func(), bool) {
	s.mu.Lock()
	l := s.leadership
	if l == nil {
		s.mu.Unlock()
		return ctx, func() {}, false
	}
	s.working++ // first, so that the slot cannot be released before its leadership is looked at
	s.mu.Unlock()
	if !l.takesWork() {
		s.done()
		return ctx, func() {}, false
	}

	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, leadershipKey{}, l))
	stop := context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })
	return ctx, sync.OnceFunc(func() {
		stop()
		cancel(context.Canceled)
		s.done()
	}), true
}

// done counts work that has ended.
func (s *slot) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.working--
	if s.working == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}
