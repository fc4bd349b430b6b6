package leaderelect

import (
	"context"
	"fmt"
	"sync"
	"time"
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
	drains     time.Time     // since when lead waits; zero when it does not
	wanted     time.Time     // since when this replica is to own it and nobody does; zero if it is otherwise
	failures   int           // to acquire it, one after the other
	declined   time.Time     // until then this replica leaves the slot to others
}

// A replica that cannot acquire a slot declines it, for so many RetryPeriods the first time, twice as many the next, and so
// on. In the first ones, all others learn of it and try.
const (
	firstDecline = 4
	longDecline  = 64
)

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

	began := time.Now()
	err := guard(ctx, func(ctx context.Context) error {
		if err := s.slots.cfg.OnAcquired(ctx, s.number); err != nil {
			return err
		}
		s.acquired()
		<-ctx.Done()
		return nil
	})
	if err != nil && ctx.Err() == nil {
		if time.Since(began) > s.slots.lease.LeaseDuration {
			s.acquired() // and it has failed since
		}
		s.decline(0)
		s.slots.peers.nudge()
	}

	s.mu.Lock()
	s.leadership = nil
	var idle chan struct{}
	if s.working > 0 {
		s.idle, s.drains = make(chan struct{}), time.Now()
		idle = s.idle
	}
	s.mu.Unlock()
	if idle != nil {
		<-idle
		s.mu.Lock()
		s.drains = time.Time{}
		s.mu.Unlock()
	}
	return err
}

// acquired notes that this replica was able to acquire the slot.
func (s *slot) acquired() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = 0
}

// decline notes that this replica was not able to acquire the slot, and leaves it to others for a while.
func (s *slot) decline(atLeast time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	periods := min(firstDecline<<min(s.failures, 10), longDecline)
	s.failures++
	s.declined = time.Now().Add(max(time.Duration(periods)*s.slots.lease.RetryPeriod, atLeast))
	s.wanted = time.Time{}
}

// declines reports whether this replica leaves the slot to others.
func (s *slot) declines() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.declined)
}

// want notes whether this replica is to own the slot while nobody does. If that lasts for longer than any lease can, the
// replica cannot acquire it: its calls for this record fail.
func (s *slot) want(free bool) {
	s.mu.Lock()
	now := time.Now()
	switch {
	case !free:
		s.wanted = time.Time{}
	case s.wanted.IsZero():
		s.wanted = now
	}
	patience := 2 * s.slots.lease.LeaseDuration
	stuck := free && now.Sub(s.wanted) > patience
	s.mu.Unlock()
	if stuck {
		s.decline(4 * patience) // long enough for several others to find out the same
		s.slots.log.Warn("leaderelect: a slot that is free cannot be acquired here, and is left to others", "slot", s.number)
	}
}

// check returns an error if work that was begun holds up the slot for longer than it may.
func (s *slot) check(tolerance time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drains.IsZero() {
		return nil
	}
	age, limit := time.Since(s.drains), s.slots.lease.LeaseDuration+max(0, s.slots.lease.DrainTimeout)
	if age <= limit+tolerance {
		return nil
	}
	return fmt.Errorf("leaderelect: check %q: the slot is to be released for %s, and done was not called for %d of the works begun",
		s.elector.cfg.Key, age, s.working)
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

	ctx, cancel := context.WithCancelCause(l.mark(ctx))
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
