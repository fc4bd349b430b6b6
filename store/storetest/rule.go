package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/setpoint-go/setpoint/store"
)

// ErrLost is the error of a call whose request or reply was lost. Whoever gets it cannot know whether the write was applied.
var ErrLost = errors.New("the connection was lost, the outcome is unknown")

// Rule says which calls of an [Interceptor] a fault hits. It is plain data:
//
//	Rule{Op: store.OpUpdate, Key: "web", Nth: 3, Fault: LoseReply()}   the 3rd update of "web" is applied, and nobody hears of it
//	Rule{Op: store.OpGet, Times: -1, Fault: Fail(errDown)}             no get succeeds
//	Rule{Times: -1, Fault: Hang()}                                     the store is not reachable
//	Rule{Op: store.OpWatch, After: 2, Fault: Fail(store.ErrExpired)}   the next watch expires after two events
type Rule struct {
	// Op is the operation, one of the Op constants of package store; OpList stands for Select and ListPages, too, OpWatch for WatchSelected. Empty means any.
	Op string

	// Key is the key of the object. Empty means any, and none: a rule with a key hits no list and no watch.
	Key string

	// Nth is the first of the matching calls to be hit, counted from 1 and from when the rule was injected. Defaults to 1.
	Nth int

	// Times is how many calls in a row are hit. Defaults to 1; a negative number means all from the Nth on.
	Times int

	// After is how many events a watch yields before it is hit, without bookmarks. It is for OpWatch alone.
	After int

	// Fault is what happens to the calls that are hit.
	Fault Fault
}

// Fault is what can happen to a call. Make one with [Fail], [Hang], [LoseRequest], [LoseReply] or [Before].
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
)

// Fail makes a call fail with err, and the store hears nothing of it. An err that is no [*store.Error] is wrapped in one. To
// a watch it is how the watch ends: store.ErrExpired, or anything else for one that breaks.
func Fail(err error) Fault { return Fault{kind: fail, err: err} }

// Hang holds a call until its context ends, and the store hears nothing of it; or until the rule is removed: then it goes on
// as if nothing had been. A watch falls silent.
func Hang() Fault { return Fault{kind: hang} }

// LoseRequest makes a call fail with [ErrLost] before it has reached the store.
func LoseRequest() Fault { return Fault{kind: loseRequest, err: ErrLost} }

// LoseReply makes a call fail with [ErrLost] after the store has done it, or refused it.
func LoseReply() Fault { return Fault{kind: loseReply, err: ErrLost} }

// Before calls f, and then does the call; unless f returns an error, with which the call fails as by [Fail]. Use it for what
// has to happen between two steps of the code under test, such as a write of somebody else. It is called without locks, and
// may use the store, also through the interceptor.
func Before(f func(ctx context.Context) error) Fault { return Fault{kind: before, f: f} }

// Injection is a rule in force. Its methods may be called by several goroutines at once.
type Injection struct {
	rule    Rule
	removed context.Context // ends with Remove
	remove  context.CancelFunc
	calls   int // that the rule has matched; guarded by mu of the interceptor
	hits    atomic.Int64
}

func newInjection(r Rule) *Injection {
	in := &Injection{rule: r.withDefaults()}
	in.removed, in.remove = context.WithCancel(context.Background())
	return in
}

// Remove ends the rule: it hits no more calls, and those that hang because of it go on. To remove it again does nothing.
func (in *Injection) Remove() { in.remove() }

// Hits returns how many calls the rule has hit. A test that relies on a fault asserts that it came.
func (in *Injection) Hits() int { return int(in.hits.Load()) }

// matchesLocked counts a call if the rule matches it, and says whether its fault is to hit it.
func (in *Injection) matchesLocked(op, key string) bool {
	r := in.rule
	if r.Op != "" && r.Op != op || r.Key != "" && r.Key != key {
		return false
	}
	in.calls++
	return in.calls >= r.Nth && (r.Times < 0 || in.calls < r.Nth+r.Times)
}

// withDefaults returns r with every zero value replaced. It panics on a rule that could never hit.
func (r Rule) withDefaults() Rule {
	ops := []string{
		"", store.OpGet, store.OpList, store.OpWatch,
		store.OpCreate, store.OpUpdate, store.OpUpdateStatus, store.OpDelete,
	}
	switch {
	case !slices.Contains(ops, r.Op):
		panic(fmt.Sprintf("storetest: inject: %q is no operation of a store", r.Op))
	case r.Key != "" && (r.Op == store.OpList || r.Op == store.OpWatch):
		panic(fmt.Sprintf("storetest: inject: a %s has no key", r.Op))
	case r.Nth < 0:
		panic(fmt.Sprintf("storetest: inject: Nth is %d", r.Nth))
	case r.After != 0 && r.Op != store.OpWatch || r.After < 0:
		panic(fmt.Sprintf("storetest: inject: After is %d for the operation %q", r.After, r.Op))
	case r.Fault.kind == 0:
		panic("storetest: inject: a rule without a fault")
	case r.Fault.kind == fail && r.Fault.err == nil, r.Fault.kind == before && r.Fault.f == nil:
		panic("storetest: inject: a fault of nil")
	}
	if r.Nth == 0 {
		r.Nth = 1
	}
	if r.Times == 0 {
		r.Times = 1
	}
	return r
}
