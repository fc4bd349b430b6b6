package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// Precondition is a condition on a write. The store rejects the write unless all its preconditions hold. The zero value always holds.
//
// [IfVersion], [IfUID], and [IfTerm] return one. Its methods return its arguments, for tests and logs.
type Precondition struct {
	asks    question
	version informer.Version
	uid     string
	fence   Fence
}

// question is a set of bits: the conditions in a Precondition.
type question uint8

const (
	askVersion question = 1 << iota
	askUID
	askTerm
)

// IfVersion holds if the stored object has version v. If not, the write is refused with [ErrConflict].
func IfVersion(v informer.Version) Precondition { return Precondition{asks: askVersion, version: v} }

// IfUID holds if the stored object has this UID. If not, such as after the key was created again, the write is refused with
// [ErrConflict].
func IfUID(uid string) Precondition { return Precondition{asks: askUID, uid: uid} }

// IfTerm refuses the write with [ErrFenced] if the database has accepted a write with a greater term of the same lease, on any
// object. Each lease has its own terms.
//
// Under the context of a leader or a slot, each write carries its term without IfTerm: see [WithFence]. IfTerm is for a term that
// arrived another way, such as in a message.
//
// A write without a term is not checked. Zero is a term like any other. An accepted write records its term even if it changes
// nothing. If a write carries two terms of one lease, the lower one is over, and the write is refused.
func IfTerm(lease string, term uint64) Precondition {
	return Precondition{asks: askTerm, fence: Fence{Lease: lease, Term: term}}
}

// Version returns the version of [IfVersion], or false if p is another precondition.
func (p Precondition) Version() (informer.Version, bool) { return p.version, p.asks&askVersion != 0 }

// UID returns the UID of [IfUID], or false if p is another precondition.
func (p Precondition) UID() (string, bool) { return p.uid, p.asks&askUID != 0 }

// Fence returns the lease and the term of [IfTerm], or false if p is another precondition.
func (p Precondition) Fence() (Fence, bool) { return p.fence, p.asks&askTerm != 0 }

// String returns the call that made p, such as IfVersion(7) or IfTerm("shop", 3).
func (p Precondition) String() string {
	switch p.asks {
	case askVersion:
		return fmt.Sprintf("IfVersion(%d)", p.version)
	case askUID:
		return fmt.Sprintf("IfUID(%q)", p.uid)
	case askTerm:
		return fmt.Sprintf("IfTerm(%q, %d)", p.fence.Lease, p.fence.Term)
	default:
		return "none"
	}
}

// Fence is the term of a leader, and the lease that the term belongs to.
type Fence = backend.Fence

// fenceKey is the context key of a Fence. A Fence without a lease means no fence.
type fenceKey struct{}

// WithFence returns a context under which each write to any store carries f, as with [IfTerm]. It replaces the fence of ctx. If f has no
// Lease, writes carry no fence. Package leaderelect calls WithFence for the contexts of leaders and slots, so your reconciler need not.
//
// context.WithoutCancel keeps the fence, so writes during a shutdown are fenced too.
func WithFence(ctx context.Context, f Fence) context.Context {
	return context.WithValue(ctx, fenceKey{}, f)
}

// Unfenced returns a context under which writes carry no fence. Use it for facts that do not depend on the leader, such as a heartbeat.
func Unfenced(ctx context.Context) context.Context { return WithFence(ctx, Fence{}) }

// FenceFrom returns the fence of writes under ctx, or false if there is none.
func FenceFrom(ctx context.Context) (Fence, bool) {
	f, _ := ctx.Value(fenceKey{}).(Fence)
	return f, f.Lease != ""
}

// fencesOf returns the fences of a write, from its context and its preconditions, one for each lease, in order of lease. If they name two
// terms of one lease, the lower one is over, and fencesOf returns the error for that.
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
	slices.SortFunc(fences, func(a, b Fence) int { return strings.Compare(a.Lease, b.Lease) })
	for _, f := range fences {
		if err := checkName("lease", f.Lease, backend.MaxKey); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	return fences, nil
}
