package interceptor

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// ErrLost is the error of a call whose request or reply was lost. The caller cannot know whether the write was applied.
var ErrLost = errors.New("the connection was lost, the outcome is unknown")

// Rule selects the calls of a [Store], or the events of its watches, that a fault hits:
//
//	Rule{Op: "update", Key: "web", Nth: 3, Fault: LoseReply()}           the 3rd update of "web" is applied, and its reply is lost
//	Rule{Op: "get", Times: -1, Fault: Fail(errDown)}                     no get succeeds
//	Rule{Caller: "worker 1", Times: -1, Fault: Hang()}                   one caller cannot reach the store
//	Rule{Op: "watch", After: 2, Fault: Fail(informer.ErrExpired)}        the next watch expires after two events
//	Rule{Op: "event", Key: "web", Times: -1, Fault: Hang()}              watches lag from the next event of "web" on
type Rule struct {
	// Op is "get", "list" (also for Select and ListPages), "watch" (also for WatchSelected), "create", "update", "update status", or
	// "delete". Empty means any of them. "event" means the delivery of an event by an open watch, which is not a call. Bookmarks are not
	// events.
	Op string

	// Kind is the kind of the store, for interceptors that share a [Plan]. Empty means any.
	Kind string

	// Caller is the name given to [Store.As]. Empty means any.
	Caller string

	// Key is the key of the object. Empty means any key or none. A rule with a key hits no list and no watch.
	Key string

	// When, if set, decides by the call and its arguments whether the rule matches. Calls that it rejects are not counted. It is called
	// without locks, and must not change or keep its argument.
	When func(Call) bool

	// Nth is the first matching call to hit, counted from 1 since the rule was injected. Defaults to 1.
	Nth int

	// Times is the number of consecutive calls to hit. Defaults to 1; a negative number means all from the Nth on.
	Times int

	// After is the number of events, not counting bookmarks, that a watch yields before it is hit. It is only for "watch".
	After int

	// Fault is what happens to the calls that are hit.
	Fault Fault
}

// Fault is what can happen to a call: see [Fail], [Hang], [LoseRequest], [LoseReply], and [Before]. To the delivery of an event,
// Fail, Hang, and Before can happen, and [Skip], [IllegalDrop], [IllegalRepeat], and [IllegalReorder].
type Fault struct {
	kind faultKind
	err  error
	f    func(context.Context) error
}

type faultKind int

const (
	fail faultKind = iota + 1
	hang
	loseRequest
	loseReply
	before
	skip
	drop
	repeat
	reorder
)

// Fail makes a call fail with err before it reaches the store. An err that is not a [*store.Error] is wrapped in one. A watch
// ends with the error: informer.ErrExpired, or any other for a watch that breaks.
func Fail(err error) Fault { return Fault{kind: fail, err: err} }

// Hang holds a call before it reaches the store, until its context ends, or until the rule is removed: then the call continues. A watch
// falls silent. A held event holds up all later events of the same watch: the source lags.
func Hang() Fault { return Fault{kind: hang} }

// LoseRequest makes a call fail with [ErrLost] before it has reached the store.
func LoseRequest() Fault { return Fault{kind: loseRequest, err: ErrLost} }

// LoseReply makes a call fail with [ErrLost] after the store has applied or rejected it.
func LoseReply() Fault { return Fault{kind: loseReply, err: ErrLost} }

// Before calls f, and then makes the call. If f returns an error, the call fails with it, as with [Fail]. Use Before for something that
// must happen between two steps of the code under test, such as a write of another process. f is called without locks, and may use the
// store, even through the interceptor.
func Before(f func(ctx context.Context) error) Fault { return Fault{kind: before, f: f} }

// Skip merges states: an event is left out if the next delivery of its watch is another event of the same key. So every matching event
// waits for the next event or bookmark. A deletion is never left out. A hit is an event that was left out.
//
// A source that keeps only the last state of an object does this, as one that polls, so every consumer of a source must tolerate it.
func Skip() Fault { return Fault{kind: skip} }

// IllegalDrop loses an event for good. No source may do this: it breaks guarantee 4 of package store. Use it to check that a test detects a
// lost event, or that something other than the watch repairs the loss.
func IllegalDrop() Fault { return Fault{kind: drop} }

// IllegalRepeat delivers an event twice. No source may do this, as with [IllegalDrop].
func IllegalRepeat() Fault { return Fault{kind: repeat} }

// IllegalReorder delivers an event after the next event or bookmark of its watch. No source may do this, as with [IllegalDrop].
func IllegalReorder() Fault { return Fault{kind: reorder} }

// withDefaults returns r with every zero value replaced. It panics on a rule that could never hit.
func (r Rule) withDefaults() Rule {
	ops := []string{
		"", opGet, opList, opWatch, opEvent,
		opCreate, opUpdate, opUpdateStatus, opDelete, opVersion, opRaiseFence,
	}
	switch {
	case !slices.Contains(ops, r.Op):
		panic(fmt.Sprintf("interceptor: Inject: %q is no operation of a store", r.Op))
	case r.Key != "" && (r.Op == opList || r.Op == opWatch || r.Op == opVersion || r.Op == opRaiseFence):
		panic(fmt.Sprintf("interceptor: Inject: a %s has no key", r.Op))
	case r.Nth < 0:
		panic(fmt.Sprintf("interceptor: Inject: Nth is %d", r.Nth))
	case r.After != 0 && r.Op != opWatch || r.After < 0:
		panic(fmt.Sprintf("interceptor: Inject: After is %d for the operation %q", r.After, r.Op))
	case r.Fault.kind == 0:
		panic("interceptor: Inject: a rule without a fault")
	case r.Fault.kind >= skip && r.Op != opEvent:
		panic(fmt.Sprintf("interceptor: Inject: the fault is for events, and the operation is %q", r.Op))
	case r.Op == opEvent && (r.Fault.kind == loseRequest || r.Fault.kind == loseReply):
		panic("interceptor: Inject: an event has no request and no reply")
	case r.Fault.kind == fail && r.Fault.err == nil, r.Fault.kind == before && r.Fault.f == nil:
		panic("interceptor: Inject: a fault of nil")
	}
	if r.Nth == 0 {
		r.Nth = 1
	}
	if r.Times == 0 {
		r.Times = 1
	}
	return r
}

// The operations of a store, as the Op of a store.Error names them, and the delivery of an event.
const (
	opGet          = "get"
	opList         = "list"
	opWatch        = "watch"
	opCreate       = "create"
	opUpdate       = "update"
	opUpdateStatus = "update status"
	opDelete       = "delete"
	opVersion      = "version"
	opRaiseFence   = "raise fence"
	opEvent        = "event"
)
