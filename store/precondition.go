package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// Precondition has to hold for a write to be accepted. All that are given have to hold. The zero value always holds.
//
// Make one with [IfVersion], [IfUID], [IfTerm] or [RequestID]. Its methods say what it asks for, and String shows it.
type Precondition struct {
	asks    question
	version informer.Version
	uid     string
	fence   Fence
	request string
}

// question is what a precondition asks for: one bit each.
type question uint8

const (
	askVersion question = 1 << iota
	askUID
	askTerm
	askRequest
)

// IfVersion holds while the stored object has version v. Else the write is refused with [ErrConflict].
func IfVersion(v informer.Version) Precondition { return Precondition{asks: askVersion, version: v} }

// IfUID holds while the stored object has this UID: not the object that was created again under the same key. Else the
// write is refused with [ErrConflict].
func IfUID(uid string) Precondition { return Precondition{asks: askUID, uid: uid} }

// IfTerm holds unless a write with a greater term of the same lease was accepted before, on any object of any kind in the
// same database. Else the write is refused with [ErrFenced]. Terms of other leases have nothing to do with it.
//
// Under the context of a leader or of a slot, each write carries its term by itself: see [WithFence]. IfTerm is for a term
// that came another way, such as in a message.
//
// A write that carries no term is not checked: it passes, whatever terms were seen. Zero is a term like any other.
// A term is seen with every write that is accepted, also with one that had nothing to change.
func IfTerm(lease string, term uint64) Precondition {
	return Precondition{asks: askTerm, fence: Fence{Lease: lease, Term: term}}
}

// RequestID gives the write an identity, so that it can be sent again when its acknowledgement was lost: a write whose id
// belongs to a write that was accepted is not applied again, and no other precondition is looked at. It returns the object
// as it is now, or its last state if it is gone; its Version tells whether anybody has written since. The id has to be unique
// among the writes of the key, such as a UUID made for this write; for another operation it is refused with
// [ErrInvalid]. A write that was refused, or had nothing to change, may be sent again under its id.
//
// The last 8 ids of each key are remembered, also when the object is deleted and created again, for as long as the
// backend knows of the deletion: as long as a watch can start from before it. An empty id is none; of several the first
// counts.
func RequestID(id string) Precondition { return Precondition{asks: askRequest, request: id} }

// Version returns the version that the stored object has to have. False means that p does not ask for one.
func (p Precondition) Version() (informer.Version, bool) { return p.version, p.asks&askVersion != 0 }

// UID returns the UID that the stored object has to have. False means that p does not ask for one.
func (p Precondition) UID() (string, bool) { return p.uid, p.asks&askUID != 0 }

// Fence returns the term of the write and its lease. False means that p has none.
func (p Precondition) Fence() (Fence, bool) { return p.fence, p.asks&askTerm != 0 }

// RequestID returns the id of [RequestID]. False means that p has none.
func (p Precondition) RequestID() (string, bool) { return p.request, p.request != "" }

// String returns p as it was made, such as IfVersion(7) or IfTerm("shop", 3).
func (p Precondition) String() string {
	switch p.asks {
	case askVersion:
		return fmt.Sprintf("IfVersion(%d)", p.version)
	case askUID:
		return fmt.Sprintf("IfUID(%q)", p.uid)
	case askTerm:
		return fmt.Sprintf("IfTerm(%q, %d)", p.fence.Lease, p.fence.Term)
	case askRequest:
		return fmt.Sprintf("RequestID(%q)", p.request)
	default:
		return "none"
	}
}

// requestOf returns the id of [RequestID] among the preconditions, or "".
func requestOf(pre []Precondition) string {
	for i := range pre {
		if pre[i].request != "" {
			return pre[i].request
		}
	}
	return ""
}

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
