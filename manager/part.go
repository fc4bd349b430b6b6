package manager

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/setpoint-go/setpoint/controller"
)

// Part is a unit that a manager starts and stops. *controller.Controller and *events.Recorder are parts, and so is every type with
// a Name and a Run. A part may also have these methods, which the manager detects:
//
//   - Informers() []controller.Informer lists the informers that the part needs. The manager runs each informer of its parts once, in stage
//     Outer, so you need not add them. Two informers are the same if they are equal.
//   - Check() error reports whether the part is healthy: see [Manager.Check].
//   - Share(controller.Slots) and Acquired(slot int) make a part of stage Leading share its keys: see [Config].Shards.
//   - Synced() <-chan struct{} makes a part of stage Outer an informer: other parts wait until it has synced. A controller.Informer
//     that is added without a stage is a part of stage Outer.
type Part interface {
	// Name returns the name of the part, for errors, logs, and Remove.
	Name() string

	// Run blocks until ctx ends, and then stops gracefully. The manager calls it again after it has returned: once per term if the
	// part is of stage Leading, and after a failure if [Config].Restart says so. A part of stage Leading must stop at once when the
	// leadership of ctx (leaderelect.FromContext) is lost.
	Run(ctx context.Context) error
}

// Stage says when a part runs. The package documentation shows the order.
type Stage int

// The stages.
const (
	Leading Stage = iota // while this process leads, which without an election is always; the default
	Always               // on every replica, from when the informers have synced until the stop begins
	Outer                // on every replica, the first to start and the last to end, as informers do
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
	}
	return fmt.Sprintf("Stage(%d)", int(s))
}

// At returns p as a part that runs in the given stage, even if At has given it another one. It panics if p is nil or stage is invalid.
func At(stage Stage, p Part) Part {
	if stage < Leading || stage > Outer {
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
	value  any       // what it is
	stage  stageKind // in which it runs
	run    func(ctx context.Context) error
	check  func() error    // nil if it has none
	synced <-chan struct{} // of an informer; else nil
	gate   chan struct{}   // of an informer: closed when it has synced once or is gone, with Manager.mu held

	// share and acquired are the methods of a part that can share its keys; else nil.
	share    func(controller.Slots)
	acquired func(slot int)
	shared   chan struct{} // closed by Add after share has returned, before p runs; nil if the manager shares no keys

	// Manager.mu guards the following.

	listed    bool    // was added itself, so its name is reserved
	informers []*part // the informers that it needs
	needs     int     // of an informer: the number of parts that need it
	number    int     // in the order in which parts were added; a part waits for the informers with smaller ones
	state     string
	since     time.Time // of state
	failures  int       // in a row
	restarts  int
	err       error // of the last failure
	removed   bool
	removers  int     // calls that wait for its end
	released  []*part // informers that no part needed when it was gone
	result    error   // of a removed part: the error of Run, unless that is expected

	// While a stage drives it; else nil.
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the stage lets go of it
	told   time.Time     // when it was told to end; zero before
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
	made := &part{kind: kindPart, name: p.Name(), value: p, run: p.Run, check: checkOf(p), state: stateWaiting, listed: true}
	switch stage {
	case Leading:
		made.stage = leaderStage
	case Always:
		made.stage = replicaStage
	case Outer:
		made.stage = outerStage
		if s, ok := p.(interface{ Synced() <-chan struct{} }); ok {
			made.makeInformer(s.Synced())
		}
	}
	if s, ok := p.(interface {
		Share(slots controller.Slots)
		Acquired(slot int)
	}); ok {
		made.share, made.acquired = s.Share, s.Acquired
	}
	return made
}

// newInformer returns the manager's record of an informer.
func newInformer(in controller.Informer) *part {
	p := &part{kind: kindPart, name: in.Name(), value: in, stage: outerStage, run: in.Run, check: checkOf(in), state: stateWaiting}
	p.makeInformer(in.Synced())
	return p
}

// makeInformer makes p an informer, which other parts wait for.
func (p *part) makeInformer(synced <-chan struct{}) {
	p.kind, p.synced, p.gate = kindInformer, synced, make(chan struct{})
}

// newElectionPart returns the part of an *leaderelect.Elector or *shard.Slots.
func newElectionPart(key string, e interface {
	Run(ctx context.Context) error
	Check(tolerance time.Duration) error
}) *part {
	check := func() error { return e.Check(0) }
	return &part{kind: kindElection, name: key, value: e, stage: electionStage, run: e.Run, check: check, state: stateWaiting}
}

// checkOf returns the method Check of a part, or nil if it has none.
func checkOf(part any) func() error {
	if c, ok := part.(interface{ Check() error }); ok {
		return c.Check
	}
	return nil
}

// informersOf returns the informers that a part lists.
func informersOf(part any) []controller.Informer {
	if s, ok := part.(interface{ Informers() []controller.Informer }); ok {
		return s.Informers()
	}
	return nil
}

// is reports whether v is the value of p.
func (p *part) is(v any) bool {
	return reflect.ValueOf(p.value).Comparable() && reflect.ValueOf(v).Comparable() && p.value == v
}

// tellLocked records that p is told to end, unless it already was.
func (p *part) tellLocked(now time.Time) {
	if p.told.IsZero() {
		p.told = now
	}
}
