package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
)

// slot is one lease of [Slots], and the work on its keys.
//
// This replica owns the slot until the lease is lost or the plan gives the slot to another replica. Work that has begun
// may then continue, and the release waits for it.
type slot struct {
	number  int
	elector *leaderelect.Elector
	link    *lease.Link
	slots   *Slots

	mu sync.Mutex
	// mu guards the following.
	leadership *leaderelect.Leadership // while new work may begin; else nil
	until      context.Context         // of the leadership; no new work begins after it has ended
	working    int                     // number of calls of begin without their done
	idle       chan struct{}           // made by lead when it waits, closed by the last done; else nil
	drains     time.Time               // since when lead waits; zero if it does not
	wanted     time.Time               // since when the slot is free and the plan gives it to this replica; else zero
	failures   int                     // consecutive failures to acquire the slot
	declined   time.Time               // until then this replica leaves the slot to others
}

// A replica that cannot acquire a slot declines it for four RetryPeriods, so that all others notice and try. It declines the
// slot twice as long after each further failure, at most for 64 RetryPeriods.
const (
	firstDecline = 4
	longDecline  = 64
)

// headStart is how many RetryPeriods other replicas leave a released slot to its successor. By then each replica has a
// new plan.
const headStart = 1

// newSlot returns a slot that this replica does not own yet. cfg is what the electors of all slots share.
func newSlot(s *Slots, number int, cfg leaderelect.Config) (*slot, error) {
	one := &slot{number: number, slots: s, link: &lease.Link{Incarnation: s.incarnation, HeadStart: headStart, Persistent: true}}
	cfg.Key, cfg.Link, cfg.OnStartedLeading = slotKey(cfg.Key, number), one.link, one.lead
	if s.cfg.OnRevoked != nil {
		cfg.OnStoppedLeading = func(_ *leaderelect.Leadership, cause error) { s.cfg.OnRevoked(number, cause) }
	}
	var err error
	one.elector, err = leaderelect.New(cfg)
	return one, err
}

// lead is the work of the leader of the slot.
func (s *slot) lead(ctx context.Context, l *leaderelect.Leadership) error {
	var began time.Time // of OnAcquired
	err := lease.Guard(ctx, func(ctx context.Context) error {
		if err := s.prepare(ctx); err != nil {
			return err
		}
		s.mu.Lock()
		s.leadership, s.until = l, ctx
		s.mu.Unlock()
		began = time.Now()
		if err := s.slots.cfg.OnAcquired(ctx, s.number); err != nil {
			return err
		}
		s.acquired()
		<-ctx.Done()
		return nil
	})
	if err != nil && ctx.Err() == nil {
		if !began.IsZero() && time.Since(began) > s.slots.timing.LeaseDuration {
			s.acquired() // OnAcquired has worked for a while, and then failed
		}
		s.decline(0)
		s.slots.peers.nudge()
	}

	s.mu.Lock()
	s.leadership, s.until = nil, nil
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

// errNotPrepared reports that Prepare has taken too long.
var errNotPrepared = errors.New("the slot was not prepared in time")

// prepare calls Prepare. It returns an error if the slot is not ready for work.
func (s *slot) prepare(ctx context.Context) error {
	if s.slots.cfg.Prepare == nil {
		return nil
	}
	limit := s.slots.timing.LeaseDuration
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: %v have passed", errNotPrepared, limit))
	defer cancel()
	err := s.slots.cfg.Prepare(ctx, s.number)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("prepare slot %d: %w", s.number, err)
	}
	return nil
}

// acquired notes that this replica has acquired the slot.
func (s *slot) acquired() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = 0
}

// decline notes that this replica could not acquire the slot, and leaves it to others for a while.
func (s *slot) decline(atLeast time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	periods := min(firstDecline<<min(s.failures, 10), longDecline)
	s.failures++
	s.declined = time.Now().Add(max(time.Duration(periods)*s.slots.timing.RetryPeriod, atLeast))
	s.wanted = time.Time{}
}

// declines reports whether this replica leaves the slot to others.
func (s *slot) declines() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.declined)
}

// want notes whether the slot is free and the plan gives it to this replica. If that lasts for longer than any lease,
// this replica cannot acquire the slot, because its calls for this record fail.
func (s *slot) want(free bool) {
	s.mu.Lock()
	now := time.Now()
	switch {
	case !free:
		s.wanted = time.Time{}
	case s.wanted.IsZero():
		s.wanted = now
	}
	patience := 2 * s.slots.timing.LeaseDuration
	stuck := free && now.Sub(s.wanted) > patience
	s.mu.Unlock()
	if stuck {
		s.decline(4 * patience) // long enough for several others to try and fail
		s.slots.log.Warn("a free slot cannot be acquired, and is left to others", "slot", s.number)
	}
}

// stuck returns an error if work delays the release of the slot for too long.
func (s *slot) stuck() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drains.IsZero() {
		return nil
	}
	age, timing := time.Since(s.drains), s.slots.timing
	if age-max(0, timing.DrainTimeout) <= timing.LeaseDuration {
		return nil
	}
	return fmt.Errorf("slot %d has drained for %s, and done was not called for %d calls of Begin", s.number, age, s.working)
}

// begin is Slots.Begin.
func (s *slot) begin(ctx context.Context) (context.Context, func(), bool) {
	s.mu.Lock()
	l, until := s.leadership, s.until
	if l == nil {
		s.mu.Unlock()
		return ctx, func() {}, false
	}
	s.working++ // first, so that the slot is not released while its leadership is checked
	s.mu.Unlock()
	if until.Err() != nil || l.Err() != nil {
		s.done()
		return ctx, func() {}, false
	}

	ctx, cancel := context.WithCancelCause(l.NewContext(ctx))
	stop := context.AfterFunc(l.Context(), func() { cancel(context.Cause(l.Context())) })
	return ctx, sync.OnceFunc(func() {
		stop()
		cancel(context.Canceled)
		s.done()
	}), true
}

// done ends a work.
func (s *slot) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.working--
	if s.working == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}
