package leaderelect

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Leadership is one term of this elector as the leader. Config.OnStartedLeading gets it, and finds it in its context
// ([FromContext]).
//
// Work that lasts long watches a context. Work that has effects outside of the process asks [Leadership.Err] right before
// each of them, and sends the term along so that the receiver can refuse a leader of the past.
//
// All methods may be called by many goroutines at once, also after the term.
type Leadership struct {
	term    uint64
	ctx     context.Context // see Context
	cancel  context.CancelCauseFunc
	work    context.Context // ends with ctx, and when the caller of Run cancels
	endWork context.CancelCauseFunc

	renewDeadline time.Duration
	stepDown      time.Duration

	mu sync.Mutex
	// mu guards the following.
	deadline time.Time   // from before the last acknowledged write was sent, plus renewDeadline; never moves back
	over     error       // why the term is over; nil while it lasts; set once
	leaveBy  time.Time   // when over is set: the work must have returned by then
	expiry   *time.Timer // ends the term at the deadline, whatever the store does
	drain    *time.Timer // ends the term at the DrainTimeout; nil while there is none
}

// newLeadership returns a leadership that ends at sent+RenewDeadline at the latest. ctx is that of the caller of Run.
// Its owner calls end when the work has returned.
func newLeadership(ctx context.Context, cfg *Config, term uint64, sent time.Time) *Leadership {
	l := &Leadership{
		term:          term,
		renewDeadline: cfg.RenewDeadline,
		stepDown:      cfg.StepDownTimeout,
		deadline:      sent.Add(cfg.RenewDeadline),
	}
	ctx = context.WithValue(ctx, leadershipKey{}, l)
	l.work, l.endWork = context.WithCancelCause(ctx)
	l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expiry = time.AfterFunc(time.Until(l.deadline), l.expire)
	return l
}

// Term returns the fencing token: greater than that of every leadership before, of any elector of the same record.
func (l *Leadership) Term() uint64 { return l.term }

// Deadline returns the time at which the lease is lost unless it is renewed. It moves with every renewal.
func (l *Leadership) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

// Err returns nil while this elector may act as the leader, and otherwise why not: [ErrLeaseExpired], [ErrLeaseTaken],
// [ErrStoreRegressed], [ErrDrainTimeout] or [ErrTermEnded]. It reads the clock, so it is right even if the
// process was stopped and no timer has fired yet.
func (l *Leadership) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.errLocked(time.Now())
}

// Context ends when the work must stop now, because the lease is lost or DrainTimeout is over; its cause is what Err
// returns. Unlike the context of OnStartedLeading it goes on while the work drains after the caller of Run has cancelled,
// so it is the one for the last writes.
func (l *Leadership) Context() context.Context { return l.ctx }

type leadershipKey struct{}

// FromContext returns the leadership whose work has ctx: one of its two contexts, or one derived from them.
func FromContext(ctx context.Context) (*Leadership, bool) {
	l, ok := ctx.Value(leadershipKey{}).(*Leadership)
	return l, ok
}

// Term returns the term of the leadership of ctx, as [FromContext] finds it.
func Term(ctx context.Context) (uint64, bool) {
	l, ok := FromContext(ctx)
	if !ok {
		return 0, false
	}
	return l.term, true
}

// extend moves the deadline for a write that was acknowledged, or is proven to have happened, and was sent at the given
// time. A term that is over stays over, even if its timer is late.
func (l *Leadership) extend(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.errLocked(now) != nil {
		return
	}
	if deadline := sent.Add(l.renewDeadline); deadline.After(l.deadline) {
		l.deadline = deadline
		l.expiry.Reset(deadline.Sub(now))
	}
}

// expire is what the expiry timer runs.
func (l *Leadership) expire() {
	l.mu.Lock()
	early := time.Now().Before(l.deadline) // extended while the timer fired; it was set again
	l.mu.Unlock()
	if !early {
		l.end(ErrLeaseExpired)
	}
}

// startDrain bounds the time that the work has from now on. 0 is no bound.
func (l *Leadership) startDrain(timeout time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if timeout > 0 && l.over == nil && l.drain == nil {
		l.drain = time.AfterFunc(timeout, func() { l.end(ErrDrainTimeout) })
	}
}

// end ends the term and its contexts, unless it is over. It returns why it is over.
func (l *Leadership) end(why error) error {
	l.mu.Lock()
	if l.over == nil {
		now := time.Now()
		if expired := l.errLocked(now); expired != nil {
			why = expired
		}
		l.over = why
		from := now // another may lead already
		if errors.Is(why, ErrLeaseExpired) || errors.Is(why, ErrDrainTimeout) {
			from = l.deadline
		}
		l.leaveBy = from.Add(l.stepDown)
		l.expiry.Stop()
		if l.drain != nil {
			l.drain.Stop()
		}
	}
	over := l.over
	l.mu.Unlock()
	l.cancel(over)
	l.endWork(over)
	return over
}

// leave returns when the work must have returned, of a term that is over.
func (l *Leadership) leave() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leaveBy
}

// errLocked is Err at the given time.
func (l *Leadership) errLocked(now time.Time) error {
	if l.over == nil && !now.Before(l.deadline) {
		return ErrLeaseExpired
	}
	return l.over
}
