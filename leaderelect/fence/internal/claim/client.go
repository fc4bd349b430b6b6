package claim

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/store"
)

// ErrNoLeadership is the error of a request that is not safe and whose context carries no leadership.
var ErrNoLeadership = errors.New("the context carries no leadership")

// Claim is what a client may state in a request: the fence of its context. The zero value states nothing.
type Claim struct {
	Fence      store.Fence
	leadership *leaderelect.Leadership // whose term it is; nil if another process leads, and this one passes its term on
}

// Of returns the claim of a request under ctx. It is ok to send a request without a claim if the context says so: store.Unfenced of
// a leader's context.
func Of(ctx context.Context) (c Claim, ok bool) {
	l, leads := leaderelect.FromContext(ctx)
	f, fenced := store.FenceFrom(ctx)
	if !fenced {
		return Claim{}, leads
	}
	if leads && l.Key() == f.Lease && l.Term() == f.Term {
		return Claim{f, l}, true
	}
	return Claim{Fence: f}, true
}

// Empty reports whether c states nothing.
func (c Claim) Empty() bool { return c.Fence.Lease == "" }

// Err returns nil while the leadership lasts, and otherwise an error that wraps the reason. sent says whether the receiver may have got the
// request, or a part of it.
func (c Claim) Err(sent bool) error {
	if c.leadership == nil {
		return nil
	}
	why := c.leadership.Err()
	if why == nil {
		return nil
	}
	return &overError{c.Fence, sent, why}
}

// overError is the error of a request whose leadership is over.
type overError struct {
	fence store.Fence
	sent  bool
	why   error
}

func (e *overError) Error() string {
	state := "not sent"
	if e.sent {
		state = "canceled in flight"
	}
	return fmt.Sprintf("%s, term %d of lease %q is over: %v", state, e.fence.Term, e.fence.Lease, e.why)
}

func (e *overError) Unwrap() error { return e.why }

// Fenced makes a controller leave the key to the next leader.
func (e *overError) Fenced() bool { return true }

// Bound is a request in flight.
type Bound struct {
	claim Claim
	ctx   context.Context
	end   context.CancelCauseFunc
}

// Bind returns a request whose context ends with parent, when the leadership ends, or by Release.
func (c Claim) Bind(parent context.Context) *Bound {
	b := &Bound{claim: c}
	b.ctx, b.end = context.WithCancelCause(parent)
	if c.leadership == nil {
		return b
	}
	over := c.leadership.Context()
	stop := context.AfterFunc(over, func() { b.end(context.Cause(over)) })
	context.AfterFunc(b.ctx, func() { stop() })
	return b
}

// Context returns the context of the request.
func (b *Bound) Context() context.Context { return b.ctx }

// Release ends the context. The leadership no longer refers to the request.
func (b *Bound) Release() { b.end(nil) }

// Explain returns the error of a request that has failed: err, unless the end of the leadership has canceled the request.
func (b *Bound) Explain(err error) error {
	if over := new(overError); errors.As(err, &over) {
		return &overError{over.fence, true, over.why}
	}
	over := b.claim.Err(true)
	if over != nil && errors.Is(context.Cause(b.ctx), errors.Unwrap(over)) {
		return over
	}
	return err
}
