package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/setpoint-go/setpoint/store/backend"
)

// Fence is the term in which a leader writes, and the lease that the term belongs to.
type Fence = backend.Fence

// fenceKey is the key of a fence in a context. The value is a Fence; one without a lease is none.
type fenceKey struct{}

// WithFence returns a context whose writes, to any store, carry f as [IfTerm] does. It takes the place of the fence that ctx
// has. Package leaderelect calls it for the contexts of leaders and slots, so a reconcile of a leader need not.
//
// context.WithoutCancel keeps the fence, so that last writes are fenced too.
func WithFence(ctx context.Context, f Fence) context.Context {
	return context.WithValue(ctx, fenceKey{}, f)
}

// Unfenced returns a context whose writes carry no fence. It is for what is true whoever leads, such as a heartbeat.
func Unfenced(ctx context.Context) context.Context { return WithFence(ctx, Fence{}) }

// FenceFrom returns the fence that the writes under ctx carry. False means that they carry none.
func FenceFrom(ctx context.Context) (Fence, bool) {
	f, _ := ctx.Value(fenceKey{}).(Fence)
	return f, f.Lease != ""
}

// fencesOf returns the fences of a write: that of its context, and those among its preconditions. There is one of each
// lease. Of two terms of one lease the lesser is over, so the write is refused.
func fencesOf(ctx context.Context, pre []Precondition) ([]Fence, error) {
	var fences []Fence
	add := func(f Fence) error {
		for _, other := range fences {
			if other.Lease == f.Lease {
				return Fence{Lease: f.Lease, Term: min(f.Term, other.Term)}.Check(max(f.Term, other.Term))
			}
		}
		fences = append(fences, f)
		return nil
	}
	if f, ok := FenceFrom(ctx); ok {
		if err := add(f); err != nil {
			return nil, err
		}
	}
	for i := range pre {
		f, ok := pre[i].Fence()
		if !ok {
			continue
		}
		if err := add(f); err != nil {
			return nil, err
		}
	}
	if len(fences) > 1 {
		sortFences(fences)
	}
	for _, f := range fences {
		if err := checkName("lease", f.Lease, backend.MaxKey); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	return fences, nil
}

func sortFences(fences []Fence) {
	for i := 1; i < len(fences); i++ { // there are two, mostly
		for at := i; at > 0 && strings.Compare(fences[at].Lease, fences[at-1].Lease) < 0; at-- {
			fences[at], fences[at-1] = fences[at-1], fences[at]
		}
	}
}
