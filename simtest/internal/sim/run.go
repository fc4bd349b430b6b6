package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/simtest/internal/database"
	"github.com/setpoint-go/setpoint/simtest/internal/fault"
	"github.com/setpoint-go/setpoint/simtest/internal/judge"
	"github.com/setpoint-go/setpoint/simtest/internal/rule"
	"github.com/setpoint-go/setpoint/simtest/internal/timeline"
	"github.com/setpoint-go/setpoint/store/backend"
)

const (
	horizon       = 7*time.Minute + 3*time.Second // different from every timer of the library
	maxReconciles = 1000
)

// Run is a world under one plan, from the beginning to the end.
//
// One goroutine at a time acts: that of the run, or that of the reconcile for which the run waits. mu is for reconciles that make
// concurrent calls.
type Run struct {
	World    World
	Plan     fault.Plan
	DB       *database.DB
	Programs []*Program
	Timeline *timeline.Timeline
	End      *judge.End // nil if the run has failed before

	// Concurrent is set if several goroutines make calls, which must wait for their turn.
	Concurrent bool

	driver     Driver
	user, view *database.Handle
	began      time.Time
	reconciles int // since the last step of the user, or since the end of a fault
	begun      int // steps of the user
	turns      int // reconciles
	idle       int // how many times nothing was left to do
	late       []*lateCall
	over       bool          // the run is over: no process is started
	wake       chan struct{} // ends a sleep; of capacity 1
	made       atomic.Int64  // calls since the last step of the user, the end of a fault, or a sleep

	mu sync.Mutex
	// mu guards the following.
	quiet     time.Time // when the last of what Touch lists has happened
	positions []Position
	hits      []bool // which faults of the plan have happened
	uids      int
	events    map[string]int              // commits of each object
	problem   *rule.Problem               // the first
	advice    []rule.Problem              // what is doubtful, one of each sort
	commits   int                         // by others than the user, since the last step of the user, or since the end of a fault
	wrote     map[string]informer.Version // the last write of each system, by its name and the kind
	calls     []*waiting                  // calls that wait for their turn
	held      []*held                     // calls that a fault has hit, outside of a reconcile that the run waits for
}

// New returns a run that has not begun, without a driver.
func New(world World, plan fault.Plan) *Run {
	if world.Horizon == 0 {
		world.Horizon = horizon
	}
	if world.MaxReconciles == 0 {
		world.MaxReconciles = maxReconciles
	}
	db := database.New()
	r := &Run{
		World: world, Plan: plan, DB: db, Timeline: timeline.New(db, world.Same), began: time.Now(), quiet: time.Now(),
		wake: make(chan struct{}, 1), positions: make([]Position, 0, 16),
		hits: make([]bool, len(plan)), events: make(map[string]int), wrote: make(map[string]informer.Version),
	}
	r.user = &database.Handle{DB: db, Actor: database.User, NewUID: r.NewUID, Write: r.commit}
	r.view = &database.Handle{DB: db, Actor: "a view", NewUID: r.NewUID}
	for _, s := range world.Systems {
		r.Programs = append(r.Programs, newProgram(r, s))
	}
	return r
}

// Play runs the world under a plan, and returns the run. Call it in a bubble.
func Play(world World, plan fault.Plan, drive func(*Run) (Driver, error)) *Run {
	r := New(world, plan)
	driver, err := drive(r)
	if err != nil {
		r.Fail(rule.World, "%v", err)
		return r
	}
	r.driver = driver
	GrowStack()
	defer r.end()
	r.settle()
	for i := range world.Steps {
		if plan.Skips(i + 1) {
			continue
		}
		if r.Failed() {
			return r
		}
		r.begun++
		r.userStep(i)
		r.settle()
		r.arrive(false)
		r.settle()
		r.noteSettled()
	}
	for {
		r.settle()
		if !r.heal() || r.Failed() {
			break
		}
	}
	r.noteSettled()
	r.checkViews()
	r.judge()
	r.quit()
	return r
}

// GrowStack grows the stack of a new goroutine for the calls of stores and controllers. If the stack grew during these calls,
// each of their frames would be copied, which takes a twentieth of the time of a run.
//
//go:noinline
func GrowStack() {
	var room [24 << 10]byte
	runtime.KeepAlive(&room)
}

// quit makes every process stop gracefully.
func (r *Run) quit() {
	r.over = true
	for _, s := range r.Programs {
		if s.p != nil && !r.Failed() {
			s.p.life.Quit()
		}
	}
}

// noteSettled records that nothing is left to do.
func (r *Run) noteSettled() {
	if !r.Failed() {
		r.Timeline.Settled()
	}
}

// end ends every process.
func (r *Run) end() {
	for p := range r.Processes() {
		p.bury()
	}
	r.driver.End()
	synctest.Wait()
}

// Processes yields every process that acts, in the order in which they do.
func (r *Run) Processes() iter.Seq[*Process] {
	return func(yield func(*Process) bool) {
		for _, s := range r.Programs {
			for _, p := range s.former {
				if !yield(p) {
					return
				}
			}
			if s.p != nil && !yield(s.p) {
				return
			}
		}
	}
}

// Failed reports whether a rule is broken.
func (r *Run) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.problem != nil
}

// Fail records a problem, unless there was one before.
func (r *Run) Fail(broken rule.Rule, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.problem == nil {
		r.problem = &rule.Problem{Rule: broken, Text: fmt.Sprintf(format, args...)}
	}
}

// NewUID returns the UID of the next object.
func (r *Run) NewUID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.uids++
	return fmt.Sprintf("uid-%d", r.uids)
}

// at counts an operation of a process. It returns the fault of the plan that hits the operation, or nil.
func (r *Run) at(p *Process, pos Position) *fault.Fault {
	if p.Program.Trusted {
		return nil
	}
	pos.System, pos.Before, pos.Step = p.Program.Name, r.DB.Version(), r.begun
	pos.Turn, pos.Idle, pos.When = p.turn, r.idle, time.Since(r.began)
	same := call{pos.Op, pos.Object}
	r.mu.Lock()
	p.Program.counts[same]++
	pos.Nth = p.Program.counts[same]
	r.positions = append(r.positions, pos)
	var hit *fault.Fault
	var lags []string
	for i, f := range r.Plan {
		if r.hits[i] || f.Op != pos.Op || f.System != pos.System || f.Object != pos.Object || f.Nth != pos.Nth {
			continue
		}
		if f.Do == fault.Lag {
			lags = append(lags, f.Kind)
		} else if hit == nil {
			hit = &r.Plan[i]
		} else {
			continue
		}
		r.hits[i], r.quiet = true, time.Now()
	}
	r.mu.Unlock()
	for _, kind := range lags {
		p.Note("FAULT its cache of %s lags from here on", kind)
		p.freeze(kind, pos.Before)
	}
	switch {
	case hit == nil:
	case hit.Do == fault.Down:
		p.Program.down = true
	case hit.Do == fault.Travel:
		p.Program.travel = hit.N
	case hit.Do == fault.Cold:
		p.Program.cold = hit.Kind
	}
	return hit
}

// commit writes a record. It checks whether Always holds, and whether a gap begins or ends.
func (r *Run) commit(actor, kind, key string, next backend.Record) backend.Record {
	c := r.DB.Commit(actor, kind, key, next)
	r.Timeline.Wrote(c)
	r.mu.Lock()
	r.quiet = time.Now()
	r.events[c.Object]++
	if actor != database.User {
		r.commits++
	}
	nth := r.events[c.Object]
	r.mu.Unlock()
	for i, f := range r.Plan {
		if f.Do != fault.Gap || f.Object != c.Object {
			continue
		}
		s := r.Program(f.System)
		switch {
		case s == nil || s.p == nil:
		case nth == f.Nth:
			r.mu.Lock()
			r.hits[i] = true
			r.mu.Unlock()
			s.p.Note("FAULT its watch of %s breaks", kind)
			for _, v := range s.p.Views {
				v.Freeze(kind, c.Record.Version-1, true)
			}
		case nth == f.N:
			for _, v := range s.p.Views {
				v.Relist(kind)
			}
		}
	}
	if r.World.Always != nil && !r.Failed() {
		if err := r.World.Always(r.view); err != nil {
			p := rule.Problem{Rule: rule.Always, Text: fmt.Sprintf("after this commit by %s: %v", actor, err)}
			if unfair := r.unfair(); unfair != "" {
				p.About, p.Text = "unfair", p.Text+"; "+unfair
				r.advise(p)
			} else {
				r.Fail(p.Rule, "%s", p.Text)
			}
		}
	}
	return c.Record
}

// Program returns the system with this name, or nil.
func (r *Run) Program(name string) *Program {
	for _, s := range r.Programs {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// userStep runs a step of the user.
func (r *Run) userStep(i int) {
	step := r.World.Steps[i]
	r.Timeline.Note(database.User, "STEP %s", step.Name)
	r.calm()
	for began := time.Now(); ; {
		err := step.Do(context.Background(), r.user)
		if err == nil {
			break
		}
		if !errors.Is(err, ErrNotYet) || time.Since(began) > r.World.Horizon {
			r.Fail(rule.World, "step %q: %v", step.Name, err)
			return
		}
		r.heal()
		r.settle()
		time.Sleep(time.Second)
		r.settle()
		if r.Failed() {
			return
		}
	}
	r.bringBack()
	var restart []*Process
	r.mu.Lock()
	r.quiet = time.Now()
	for j, f := range r.Plan {
		if s := r.Program(f.System); f.Do == fault.Restart && f.Nth == i+1 && !r.hits[j] && s != nil && s.p != nil {
			r.hits[j] = true
			restart = append(restart, s.p)
		}
	}
	r.mu.Unlock()
	for _, p := range restart {
		p.life.Restart()
	}
}

// Turn does one thing: it starts or ends a process, lets caches read, or reconciles the first ready key. It returns false if there is
// nothing to do. It does not touch the controllers of a process that is in a call.
func (r *Run) Turn() bool {
	r.reap()
	if r.notice(false) {
		r.Touch()
		return true
	}
	for _, s := range r.Programs {
		if s.replace() {
			r.Touch()
			return true
		}
	}
	if r.Concurrent && r.release() {
		return true
	}
	for p := range r.Processes() {
		if p.life.Deliver() {
			r.Touch()
			return true
		}
	}
	return r.driver.Work()
}

// Sleep lets time pass until something waits for the run, or until the given time.
func (r *Run) Sleep(until time.Time) {
	r.made.Store(0)
	timer := time.NewTimer(max(time.Until(until), time.Nanosecond))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.wake:
	}
	synctest.Wait()
}

// Version returns the version of the database.
func (r *Run) Version() informer.Version { return r.DB.Version() }

// WakeUp ends a sleep of the run.
func (r *Run) WakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// reap ends a zombie whose call has returned, and checks for processes that have ended by themselves.
func (r *Run) reap() {
	for p := range r.Processes() {
		switch {
		case p.dead.Load():
		case p.zombie && !p.Works() && !p.inFlight.Load():
			p.Die("ends")
		default:
			p.life.Check()
		}
	}
}
