package manager

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/setpoint-go/setpoint/controller"
)

// Part is a unit that a manager starts and stops. *controller.Controller and *events.Recorder are parts, and so is every type with
// a Name and a Run. A part may also be a [Dependent], a [Checker], a [Sharer], or a [Syncer].
type Part interface {
	// Name returns the name of the part, for errors, logs, and Remove.
	Name() string

	// Run blocks until ctx ends, and then stops gracefully. The manager calls it again after it has returned: once per term if the
	// part is of stage Leading, and after a failure as [Config].Restart says. A part of stage Leading must stop at once when the
	// leadership of ctx (leaderelect.FromContext) is lost.
	Run(ctx context.Context) error
}

// Dependent is a [Part] that needs informers. The manager runs each informer of its parts once, in stage Outer, so you need not add
// them. Two informers are the same if they are equal.
type Dependent interface {
	Informers() []controller.Informer
}

// Checker is a [Part] that reports whether it is healthy: see [Manager.Check].
type Checker interface {
	Check() error
}

// Sharer is a [Part] of stage Leading that shares its keys with the same part of other replicas: see [Config].Shards.
type Sharer interface {
	// Share is called once, before Run.
	Share(controller.Slots)

	// Prepare makes the part ready for a slot, before work in it begins. ctx carries the leadership of the slot.
	Prepare(ctx context.Context, slot int) error

	// Acquired is called after this replica has acquired a slot, and prepared it.
	Acquired(slot int)

	// Revoked is called after all work in a slot has ended, before it is released. It is also called after a Prepare that has failed.
	Revoked(slot int)
}

// Syncer is a [Part] for which others wait until it has synced. If it is of stage Outer, it is an informer. A controller.Informer that
// is added without a stage is a part of stage Outer.
type Syncer interface {
	// Synced returns a channel that is closed when the part has synced.
	Synced() <-chan struct{}
}

// Stage says when a part runs. The package documentation shows the order. A part has started when its Run has been called. A part for which
// others must wait longer is a [Syncer] of stage Outer.
type Stage int

// The stages, in the order in which they start.
const (
	Outer    Stage = iota // on every replica, the first to start and the last to end, as informers do
	Always                // on every replica, from when the informers have synced until the stop begins
	electing              // the election, or the slots
	Leading               // while this process leads, which without an election is always; the default of New and Add

	stages // their number
)

// String returns the name of the stage.
func (s Stage) String() string {
	switch s {
	case Leading:
		return "leading"
	case Always:
		return "always"
	case Outer:
		return "outer"
	case electing:
		return "electing"
	}
	return fmt.Sprintf("Stage(%d)", int(s))
}

// At returns p as a part that runs in the given stage, even if At has given it another one. It panics if p is nil or stage is invalid.
func At(stage Stage, p Part) Part {
	if stage != Outer && stage != Always && stage != Leading {
		panic(fmt.Sprintf("manager: At called with %v", stage))
	}
	mustPart("At", p)
	return staged{Part: p, stage: stage}
}

// staged is a part with a stage.
type staged struct {
	Part
	stage Stage
}

// Stage returns the stage, for code that runs parts without a Manager.
func (s staged) Stage() Stage { return s.stage }

// Func returns a part of the given name that calls run. It panics if run is nil.
func Func(name string, run func(ctx context.Context) error) Part {
	if run == nil {
		panic("manager: Func called with a nil function")
	}
	return &function{name, run}
}

// function is a part made by Func.
type function struct {
	name string
	run  func(ctx context.Context) error
}

func (f *function) Name() string                  { return f.name }
func (f *function) Run(ctx context.Context) error { return f.run(ctx) }

// mustPart panics if p is nil.
func mustPart(method string, p any) {
	v := reflect.ValueOf(p)
	if p == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		panic("manager: " + method + " called with a nil part")
	}
}

// What a part is, in errors, in Stats and in the log.
const (
	kindInformer = "informer"
	kindPart     = "part"
	kindElection = "election"
)

// part is a part, one of the informers of parts, or the election.
type part struct {
	kind   string
	name   string
	value  any   // what it is
	stage  Stage // in which it runs
	run    func(ctx context.Context) error
	check  func() error    // nil if it has none
	synced <-chan struct{} // of an informer; else nil

	// gate is closed, with Manager.mu held, when parts of later stages need not wait for this one: an informer has synced once, Run of another
	// part has been called, or the part has been removed. Nil if it is of stage Leading, or the election.
	gate chan struct{}

	sharer Sharer        // nil if it cannot share its keys
	shared chan struct{} // closed by Add after Share has returned, before p runs; nil if the manager shares no keys

	// Manager.mu guards the following.

	listed    bool    // was added itself, so its name is reserved
	informers []*part // the informers that it needs
	needs     int     // of an informer: the number of parts that need it
	number    int     // in the order in which parts were added
	after     int     // the part waits for parts of earlier stages with smaller numbers
	state     string
	since     time.Time // when state began
	failures  int       // in a row
	restarts  int
	err       error // of the last failure
	removed   bool
	removers  int     // calls that wait for its end
	released  []*part // informers that no part needed after its removal
	result    error   // of a removed part: the error of Run, unless that is expected

	// While a stage drives it; else nil.
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the stage no longer drives it
	ending time.Time     // when its context ended, or is about to; zero before
}

// newPart returns the manager's record of p.
func newPart(p Part) *part {
	mustPart("Add", p)
	stage := Leading
	at, ok := p.(staged)
	if ok {
		stage = at.stage
		for ; ok; at, ok = p.(staged) {
			p = at.Part
		}
	} else if _, ok := p.(controller.Informer); ok {
		stage = Outer
	}
	made := &part{kind: kindPart, name: p.Name(), value: p, stage: stage, run: p.Run, check: checkOf(p), state: stateWaiting, listed: true}
	if stage < electing {
		made.gate = make(chan struct{})
	}
	if s, ok := p.(Syncer); ok && stage == Outer {
		made.kind, made.synced = kindInformer, s.Synced()
	}
	made.sharer, _ = p.(Sharer)
	return made
}

// newInformer returns the manager's record of an informer.
func newInformer(in controller.Informer) *part {
	return &part{
		kind: kindInformer, name: in.Name(), value: in, stage: Outer, run: in.Run, check: checkOf(in), state: stateWaiting,
		gate: make(chan struct{}), synced: in.Synced(),
	}
}

// newElectionPart returns the part of an *leaderelect.Elector or *shard.Slots.
func newElectionPart(key string, e interface {
	Checker
	Run(ctx context.Context) error
}) *part {
	return &part{kind: kindElection, name: key, value: e, stage: electing, run: e.Run, check: e.Check, state: stateWaiting}
}

// checkOf returns the method Check of a part, or nil if it has none.
func checkOf(part any) func() error {
	if c, ok := part.(Checker); ok {
		return c.Check
	}
	return nil
}

// informersOf returns the informers that a part needs.
func informersOf(part any) []controller.Informer {
	if d, ok := part.(Dependent); ok {
		return d.Informers()
	}
	return nil
}

// is reports whether v is the value of p.
func (p *part) is(v any) bool {
	return reflect.ValueOf(p.value).Comparable() && reflect.ValueOf(v).Comparable() && p.value == v
}

// endLocked records that the context of p ends, unless it already has.
func (p *part) endLocked(now time.Time) {
	if p.ending.IsZero() {
		p.ending = now
	}
}
