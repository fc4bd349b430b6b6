package claim

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/setpoint-go/setpoint/leaderelect/fence"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

// Guards has one guard for each lease. All methods may be called concurrently.
type Guards struct {
	max int

	mu sync.Mutex
	// mu guards the following.
	byLease map[string]*fence.Guard // never shrinks: a guard that is forgotten admits a former leader
}

// NewGuards returns guards, of which requests create at most max.
func NewGuards(max int) *Guards {
	return &Guards{max: max, byLease: make(map[string]*fence.Guard)}
}

// Of returns the guard of a lease. It creates the guard beyond the limit too.
func (g *Guards) Of(lease string) *fence.Guard {
	guard, _ := g.of(lease, false)
	return guard
}

// of returns the guard of a lease, or false if it does not exist and there are max others.
func (g *Guards) of(lease string, limited bool) (*fence.Guard, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	guard := g.byLease[lease]
	if guard == nil {
		if limited && len(g.byLease) >= g.max {
			return nil, false
		}
		guard = new(fence.Guard)
		g.byLease[lease] = guard
	}
	return guard, true
}

// Request is what a server knows of a request before it serves it.
type Request struct {
	Lease, Term []string // the values of the two headers
	Safe        bool     // it changes nothing
	Fixed       bool     // the route belongs to one lease
	Route       string   // that lease; if it is empty, the route belongs to none
}

// Reason is why a request is refused.
type Reason int

// The reasons, by the columns of the table in the documentation of the package, and then that of a request that has waited.
const (
	Missing       Reason = iota + 1 // it has no term
	Malformed                       // it has none that can be read
	OtherLease                      // its term is of another lease than that of the route
	TooManyLeases                   // its lease has no guard, and there are too many
	Stale                           // its term is over; the error is a *fence.StaleError
	Ended                           // its context has ended before its work could begin
)

// Refusal is a request that is not served.
type Refusal struct {
	Reason Reason
	Err    error
}

// Admission is a request that may be served.
type Admission struct {
	guard *fence.Guard // nil for one without a term
	fence store.Fence
	safe  bool
}

// Admit decides about a request. If the request has a term and may be served, Admit has barred lower terms.
func (g *Guards) Admit(r Request) (*Admission, *Refusal) {
	f, found, err := Parse(r.Lease, r.Term)
	switch {
	case err != nil:
		return nil, &Refusal{Malformed, err}
	case !found && r.Safe, found && r.Safe && r.Fixed && r.Route != f.Lease:
		return &Admission{}, nil
	case !found:
		return nil, &Refusal{Missing, fmt.Errorf("the request needs %s and %s, those of a leader", LeaseHeader, TermHeader)}
	case r.Fixed && r.Route != f.Lease:
		return nil, &Refusal{OtherLease, fmt.Errorf("the leader of lease %q may not do this", f.Lease)}
	}
	guard, ok := g.of(f.Lease, true)
	if !ok {
		return nil, &Refusal{TooManyLeases, fmt.Errorf("there are %d other leases already", g.max)}
	}
	a := &Admission{guard, f, r.Safe}
	if err := guard.Raise(f.Term); err != nil {
		return nil, a.refuse(err)
	}
	return a, nil
}

// Do does the work of a request, or refuses it. Writes to a store under the context of the work carry the claim of the request.
func (a *Admission) Do(ctx context.Context, work func(context.Context)) *Refusal {
	return a.run(ctx, (*fence.Guard).Do, work)
}

// DoUntilStale is like Do, for work that lasts: see [fence.Guard.DoUntilStale]. Only the context of safe work does not end with the term.
func (a *Admission) DoUntilStale(ctx context.Context, work func(context.Context)) *Refusal {
	return a.run(ctx, (*fence.Guard).DoUntilStale, work)
}

type doFunc = func(*fence.Guard, context.Context, uint64, func(context.Context) error) error

func (a *Admission) run(ctx context.Context, do doFunc, work func(context.Context)) *Refusal {
	if a.guard == nil {
		work(ctx)
		return nil
	}
	ctx = store.WithFence(ctx, a.fence)
	err := do(a.guard, ctx, a.fence.Term, func(ctx context.Context) error {
		if !a.safe {
			work(ctx)
		}
		return nil
	})
	if err != nil {
		return a.refuse(err)
	}
	if a.safe { // after the guard, so that a read that lasts delays no successor
		work(ctx)
	}
	return nil
}

// Stale returns the error of work whose context has ended because a greater term was seen, or nil.
func (a *Admission) Stale(ctx context.Context) *Refusal {
	if stale := new(fence.StaleError); errors.As(context.Cause(ctx), &stale) {
		return a.refuse(stale)
	}
	return nil
}

func (a *Admission) refuse(err error) *Refusal {
	if stale := new(fence.StaleError); errors.As(err, &stale) {
		return &Refusal{Stale, &fence.StaleError{Lease: a.fence.Lease, Term: stale.Term, Have: stale.Have}}
	}
	return &Refusal{Ended, err}
}

// Fenced returns the refusal of a request whose work has failed because its term is over, or nil.
func Fenced(err error) *Refusal {
	if fenced := new(backend.FencedError); errors.As(err, &fenced) {
		return &Refusal{Stale, &fence.StaleError{Lease: fenced.Fence.Lease, Term: fenced.Fence.Term, Have: fenced.Have}}
	}
	if stale := new(fence.StaleError); errors.As(err, &stale) {
		return &Refusal{Stale, stale}
	}
	return nil
}
