package leaderelect

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
	"github.com/setpoint-go/setpoint/store"
)

// Leadership is one term of an elector as the leader. Config.OnStartedLeading receives it, and its context carries it
// ([FromContext]).
//
// Work that takes long watches a context. Before each effect outside of the process, call [Leadership.Err]. Send the term
// along, so that the receiver can refuse an earlier leader. Writes to a store.Store under one of the contexts of a
// leadership carry the term by themselves: see store.WithFence.
//
// All methods may be called concurrently, even after the term.
type Leadership struct {
	key      string
	term     uint64
	leaseCtx context.Context // see Context
	endLease context.CancelCauseFunc
	workCtx  context.Context // ends with leaseCtx, and when the caller of Run cancels
	endWork  context.CancelCauseFunc

	renewDeadline time.Duration
	stepDown      time.Duration
	released      chan struct{} // closed by the goroutine of Run, after the term and its release

	// The following belong to the goroutine of Run.

	acquired time.Time    // when the lease was claimed, for the record
	version  string       // of the record, after the last write that has certainly happened
	session  string       // in the record of that version
	lastSent lease.Moment // from before the last write was sent, whether it succeeded or not

	mu sync.Mutex
	// mu guards the following.
	sent     lease.Moment // from before the last acknowledged write was sent; never moves back
	over     error        // why the term is over; nil while it lasts; set once
	leaveBy  time.Time    // when over is set: the work must have returned by then
	resigned bool         // by Resign
	returned time.Time    // when OnStartedLeading returned; zero before
	expiry   *time.Timer  // ends the term renewDeadline after sent, whatever the store does
	drain    *time.Timer  // ends the term at the DrainTimeout; nil while there is none
}

// newLeadership returns a leadership that ends at sent+RenewDeadline unless it is extended. ctx is the context of Run. The
// caller calls end after the work has returned.
func newLeadership(ctx context.Context, cfg *Config, term uint64, sent lease.Moment) *Leadership {
	l := &Leadership{
		key:           cfg.Key,
		term:          term,
		renewDeadline: cfg.RenewDeadline,
		stepDown:      cfg.StepDownTimeout,
		released:      make(chan struct{}),
		lastSent:      sent,
		sent:          sent,
	}
	ctx = l.NewContext(ctx)
	l.workCtx, l.endWork = context.WithCancelCause(ctx)
	l.leaseCtx, l.endLease = context.WithCancelCause(context.WithoutCancel(ctx))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expiry = time.AfterFunc(l.sent.Left(l.renewDeadline, lease.Present()), l.expire)
	return l
}

// Key returns the key of the record. Only terms of the same key can be compared.
func (l *Leadership) Key() string { return l.key }

// Term returns the fencing token. It is greater than the term of every earlier leadership of any elector of the record.
func (l *Leadership) Term() uint64 { return l.term }

// Deadline returns the time at which the lease is lost unless it is renewed. Every renewal moves it forward. If the machine
// was suspended since the last renewal, the deadline is earlier by that time.
func (l *Leadership) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := lease.Present()
	return l.sent.Add(l.renewDeadline - l.sent.Slept(now))
}

// Err returns nil while this elector may act as the leader. Otherwise it returns the reason why not: [ErrLeaseExpired],
// [ErrLeaseTaken], [ErrStoreRegressed], [ErrDrainTimeout], or [ErrTermEnded]. Err reads the clock, so it is right even if
// the process was suspended and no timer has fired yet. On Linux it also counts the time that the machine was suspended,
// which timers do not. A call takes about a microsecond.
func (l *Leadership) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.errLocked(lease.Present())
}

// Context returns a context that ends when the work must stop at once, because the lease is lost or DrainTimeout has passed.
// Its cause is the error of Err. Unlike the context of OnStartedLeading, it continues while the work drains, so use it for
// the last writes.
func (l *Leadership) Context() context.Context { return l.leaseCtx }

type leadershipKey struct{}

// NewContext returns a copy of ctx that carries this leadership, for work of the leader that began elsewhere, such as a
// request. [FromContext] returns the leadership, and writes to a store.Store carry the term. The copy does not end with the
// leadership.
func (l *Leadership) NewContext(ctx context.Context) context.Context {
	return store.WithFence(context.WithValue(ctx, leadershipKey{}, l), store.Fence{Lease: l.key, Term: l.term})
}

// FromContext returns the leadership that ctx carries. Both contexts of a leadership carry it, and so do those of
// [Leadership.NewContext] and those derived from any of them.
func FromContext(ctx context.Context) (*Leadership, bool) {
	l, ok := ctx.Value(leadershipKey{}).(*Leadership)
	return l, ok
}

// extend moves the deadline after a write that has certainly happened and was sent at the given moment. A term that is
// over stays over, even if its timer is late.
func (l *Leadership) extend(sent lease.Moment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := lease.Present()
	if l.errLocked(now) != nil {
		return
	}
	if sent.After(l.sent.Time) {
		l.sent = sent
		l.expiry.Reset(sent.Left(l.renewDeadline, now))
	}
}

// expire is the function of the expiry timer.
func (l *Leadership) expire() {
	l.mu.Lock()
	now := lease.Present()
	early := l.sent.Left(l.renewDeadline, now) > 0 // extended while the timer fired; it was set again
	l.mu.Unlock()
	if !early {
		l.end(ErrLeaseExpired)
	}
}

// startDrain ends the term after timeout, unless the work returns before. A negative timeout is no limit.
func (l *Leadership) startDrain(timeout time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if timeout > 0 && l.over == nil && l.drain == nil {
		l.drain = time.AfterFunc(timeout, func() { l.end(ErrDrainTimeout) })
	}
}

// resign makes the work drain, as the end of the caller's context does.
func (l *Leadership) resign(drain time.Duration) {
	l.mu.Lock()
	l.resigned = true
	l.mu.Unlock()
	l.startDrain(drain)
	l.endWork(ErrResigned)
}

// noteReturned notes that OnStartedLeading has returned.
func (l *Leadership) noteReturned() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.returned = time.Now()
}

// returnedAt returns when OnStartedLeading returned; zero if it has not.
func (l *Leadership) returnedAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.returned
}

// takesWork reports whether the work may begin: the term is not over, canceled, or resigned.
func (l *Leadership) takesWork() bool {
	return l.workCtx.Err() == nil && l.Err() == nil
}

// hasResigned reports whether resign was called.
func (l *Leadership) hasResigned() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.resigned
}

// end ends the term and its contexts, unless it is over. It returns why it is over. The timer, each renewal, and Err look at the clock, and
// the first that finds the lease expired calls end.
func (l *Leadership) end(why error) error {
	l.mu.Lock()
	now := lease.Present()
	if l.over == nil {
		if expired := l.errLocked(now); expired != nil {
			why = expired
		}
		l.over = why
		from := now.Time // another may lead already
		if errors.Is(why, ErrLeaseExpired) || errors.Is(why, ErrDrainTimeout) {
			from = l.sent.Add(l.renewDeadline)
		}
		l.leaveBy = from.Add(l.stepDown)
		l.expiry.Stop()
		if l.drain != nil {
			l.drain.Stop()
		}
	}
	over := l.over
	l.mu.Unlock()
	l.endLease(over)
	l.endWork(over)
	return over
}

// stepDownBy returns when the work must have returned, of a term that is over.
func (l *Leadership) stepDownBy() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leaveBy
}

// errLocked is Err at the given moment.
func (l *Leadership) errLocked(now lease.Moment) error {
	if l.over == nil && l.sent.Left(l.renewDeadline, now) <= 0 {
		return ErrLeaseExpired
	}
	return l.over
}
