package simtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/store/backend"
)

// stepTime is how much time passes between two steps of the user.
const stepTime = time.Second

const (
	horizon       = 7*time.Minute + 3*time.Second // different from every timer of the library
	maxReconciles = 1000
)

// run is a world under one plan, from the beginning to the end. It starts processes, lets them act one at a time, applies the faults of the
// plan, and records what happens.
//
//  1. One goroutine at a time acts: that of the run, or that of the call for which the run waits. mu is for reconciles that make concurrent
//     calls.
//  2. Each fault of the plan happens at most once.
//  3. A process that has ended does nothing: its next call ends the goroutine (runtime.Goexit).
//  4. Faults end: when nothing else is left to do, caches catch up and processes that are down come back.
//  5. Nothing is judged before each source that polls has listed the last change, and each reconcile in flight has returned, or longest has
//     passed. Nor is it before all work that is due within the horizon has been done. The horizon begins with what touch lists.
type run struct {
	world    World
	plan     Plan
	db       *database
	programs []*program
	fleets   []*fleet
	timeline *timeline
	final    *finalState // nil if the run failed before its end

	// concurrent is set if several goroutines make calls, which must wait for their turn.
	concurrent bool

	driver     driver
	workers    workers        // for what may block: reconciles in step mode, and functions of the world
	callLimit  limitTimer     // of a call of a function of the world
	decoded    *decodedValues // of all runs
	user       *User          // of each step
	view       *View          // of each call of Always and Goal
	began      time.Time
	reconciles int    // since the last step of the user, or since the end of a fault
	healed     bool   // that fault was ended, because it made the systems busy
	begun      int    // steps of the user
	step       int    // the index of the step that begins next
	taken      []bool // by index: the step came early
	stepping   bool   // a step has begun and not ended: the user waits for what it needs
	spoiled    bool   // an early step has failed halfway: the run shows nothing
	turns      int    // reconciles
	idle       int    // how many times nothing was left to do
	late       []*lateCall
	over       bool           // the run is over: no process is started
	retried    map[string]int // the keys that had one more attempt at the end, with one more than the number of faults until then
	resumed    time.Time      // when the last process that a fault has made hang went on
	wake       chan struct{}  // ends a sleep; of capacity 1
	made       atomic.Int64   // calls since the last write, step of the user, end of a fault, or sleep
	writes     atomic.Int64   // writes since the last step of the user, end of a fault, or sleep

	mu sync.Mutex
	// mu guards the following.
	quiet     time.Time // when the last of what touch lists has happened
	positions []position
	hits      []bool // which faults of the plan have happened
	uids      int
	changes   map[string]int              // commits of each object
	problem   *problem                    // the first
	advice    []problem                   // what is doubtful, one of each sort and object that it creates
	commits   int                         // by others than the user, since the last step of the user, or since the end of a fault
	wrote     map[string]informer.Version // the last write of each system, by its name and the kind
	calls     []*waiting                  // calls that wait for their turn
	held      []*held                     // calls that a fault has hit, outside of a reconcile that the run waits for
}

// newRun returns a run that has not begun, without a driver.
func newRun(world World, plan Plan, decoded *decodedValues) *run {
	world.Horizon = cmp.Or(world.Horizon, horizon)
	world.MaxReconciles = cmp.Or(world.MaxReconciles, maxReconciles)
	db := newDatabase()
	r := &run{
		world: world, plan: plan, db: db, timeline: newTimeline(db, world.Same), decoded: decoded, began: time.Now(), quiet: time.Now(),
		wake: make(chan struct{}, 1), positions: make([]position, 0, 16),
		hits: make([]bool, len(plan)), taken: make([]bool, len(world.Steps)), changes: make(map[string]int), wrote: make(map[string]informer.Version),
	}
	r.user = &User{r.stores(&handle{database: db, actor: userActor, write: r.commit})}
	r.view = &View{all: r.stores(&handle{database: db, actor: "a view"}), run: r}
	for _, s := range world.Systems {
		r.programs = append(r.programs, &program{System: s, run: r, counts: make(map[callKey]int)})
	}
	return r
}

// play plays the run, from the beginning to the end. Call it in a bubble. It returns when all goroutines of the run have ended.
func (r *run) play(mode string) {
	world, plan := r.world, r.plan
	switch mode {
	case "", "step":
		r.driver = &stepDriver{}
	case "run":
		r.driver, r.concurrent = &runDriver{leases: memlease.New()}, true
	default:
		r.fail(ruleWorld, `there is no mode %q: it is "step" or "run"`, mode)
		return
	}
	if err := r.makeFleets(); err != nil {
		r.fail(ruleWorld, "%v", err)
		return
	}
	growStack()
	defer r.end()
	r.settle()
	for i := range world.Steps {
		if plan.skips(i + 1) {
			continue
		}
		if r.failed() {
			return
		}
		if r.begun > 0 { // objects of two steps do not have the same creation time
			time.Sleep(stepTime)
			r.settle()
		}
		r.begun++
		r.step = i + 1
		if !r.taken[i] {
			r.userStep(i)
		}
		r.settle()
		if r.arrive(false) {
			r.settle()
		}
		if r.rebalance(false) {
			r.settle()
		}
		r.noteSettled()
	}
	for !r.failed() && (r.heal() || r.oneMoreAttempt()) {
		r.settle()
	}
	r.noteSettled()
	r.checkInputs()
	r.judge()
	r.quit()
}

// stores returns stores on a database.
func (r *run) stores(b backend.Backend) stores {
	return stores{backend: b, newUID: r.newUID, decoded: r.decoded}
}

// viewAt returns a view of the state at a version.
func (r *run) viewAt(at informer.Version) *View {
	past := newDatabase()
	for _, c := range r.db.after(0, at) {
		past.commit(c.actor, c.kind, c.record.Key, c.record)
	}
	return &View{all: r.stores(&handle{database: past, actor: "a view"}), run: r}
}

// growStack grows the stack of a new goroutine for the calls of stores and controllers. If the stack grew during these calls,
// each of their frames would be copied, which takes a twentieth of the time of a run.
//
//go:noinline
func growStack() {
	var room [24 << 10]byte
	runtime.KeepAlive(&room)
}

// quit makes every process stop gracefully.
func (r *run) quit() {
	r.over = true
	for _, s := range r.programs {
		if s.p != nil && !r.failed() {
			s.p.driver.stop()
		}
	}
}

// noteSettled records that nothing is left to do.
func (r *run) noteSettled() {
	if !r.failed() {
		r.timeline.markSettled()
	}
}

// end ends every process.
func (r *run) end() {
	for p := range r.processes() {
		p.remove()
	}
	r.driver.end()
	r.workers.dismiss()
	synctest.Wait()
}

// processes yields every process that acts, in the order in which they do.
func (r *run) processes() iter.Seq[*process] {
	return func(yield func(*process) bool) {
		for _, s := range r.programs {
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

// failed reports whether a rule is broken.
func (r *run) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.problem != nil
}

// fail records a problem, unless there was one before.
func (r *run) fail(broken Rule, format string, args ...any) {
	r.failWith(problem{rule: broken, text: fmt.Sprintf(format, args...)})
}

// newUID returns the UID of the next object.
func (r *run) newUID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.uids++
	return fmt.Sprintf("uid-%d", r.uids)
}

// position is a place at which a fault can happen: the nth operation on an object by a system.
type position struct {
	system, op, object string
	nth                int
	write              bool             // a write or an effect, not a read
	before             informer.Version // of the database
	step               int              // how many steps of the user have begun
	turn               int              // the number of the reconcile; 0 in run mode, which does not number them
	idle               int              // how many times nothing was left to do before
	when               time.Duration
}

// callKey is the key by which the operations of a system are counted.
type callKey struct{ op, object string }

// at counts an operation of a process. It returns the fault of the plan that hits the operation, or nil.
func (r *run) at(p *process, pos position) *Fault {
	if p.program.Trusted {
		return nil
	}
	pos.system, pos.before, pos.step = p.program.Name, r.db.version(), r.begun
	pos.turn, pos.idle, pos.when = p.turn, r.idle, time.Since(r.began)
	same := callKey{pos.op, pos.object}
	r.mu.Lock()
	p.program.counts[same]++
	pos.nth = p.program.counts[same]
	r.positions = append(r.positions, pos)
	var hit *Fault
	var lags []string
	for i, f := range r.plan {
		if f.Op != pos.op || f.System != pos.system || f.Object != pos.object || f.Nth != pos.nth {
			continue
		}
		if f.Do == faultLag {
			lags = append(lags, f.Kind)
		} else if hit == nil {
			hit = &r.plan[i]
		} else {
			continue
		}
		r.hits[i], r.quiet = true, time.Now()
	}
	r.mu.Unlock()
	for _, kind := range lags {
		p.note("FAULT its cache of %s lags from here on", kind)
		p.freeze(kind, pos.before)
	}
	switch {
	case hit == nil:
	case hit.Do == faultDown:
		p.program.down = true
	case hit.Do == faultTravel:
		p.program.travel = hit.N
	case hit.Do == faultCold:
		p.program.cold = hit.Kind
	}
	return hit
}

// commit writes a record. It checks whether Always holds, and whether a gap begins or ends.
func (r *run) commit(actor, kind, key string, next backend.Record) backend.Record {
	c := r.db.commit(actor, kind, key, next)
	r.timeline.committed(c)
	r.mu.Lock()
	r.quiet = time.Now()
	r.changes[c.object]++
	if actor != userActor {
		r.commits++
		r.writes.Add(1)
		r.made.Store(0)
	}
	nth := r.changes[c.object]
	r.mu.Unlock()
	for i, f := range r.plan {
		if f.Do != faultGap || f.Object != c.object {
			continue
		}
		s := r.program(f.System)
		switch {
		case s == nil || s.p == nil:
		case nth == f.Nth:
			r.mu.Lock()
			r.hits[i] = true
			r.mu.Unlock()
			s.p.note("FAULT its watch of %s breaks", kind)
			for _, in := range s.p.inputs {
				in.freeze(kind, c.record.Version-1, true)
			}
		case nth == f.N:
			for _, in := range s.p.inputs {
				in.relist(kind)
			}
		}
	}
	r.checkAlways(Change{By: actor, Op: c.op(), Kind: kind, Key: key})
	return c.record
}

// checkAlways checks whether Always holds, after a commit or an effect.
func (r *run) checkAlways(last Change) {
	if r.world.Always == nil || r.failed() {
		return
	}
	r.view.last = last
	err, ok := r.protect("World.Always", func() error { return r.world.Always(r.view) })
	if err == nil || !ok {
		return
	}
	what := "commit"
	if last.Kind == "" {
		what = "effect"
	}
	p := problem{rule: ruleAlways, text: fmt.Sprintf("after this %s by %s: %v", what, last.By, err)}
	if unfair := r.unfair(); unfair != "" {
		p.about, p.text = "unfair", p.text+"; "+unfair
		r.advise(p)
	} else {
		r.fail(p.rule, "%s", p.text)
	}
}

// program returns the system with this name, or nil.
func (r *run) program(name string) *program {
	for _, s := range r.programs {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// userStep runs a step of the user.
func (r *run) userStep(i int) {
	step := r.world.Steps[i]
	r.stepping = true
	defer func() { r.stepping = false }()
	r.timeline.note(userActor, "STEP %s", step.Name)
	r.calm()
	for began := time.Now(); ; {
		err, ok := r.limit(fmt.Sprintf("step %q", step.Name), func() error { return step.Do(context.Background(), r.user) })
		if !ok {
			return
		}
		if err == nil {
			break
		}
		if r.resumed.After(began) { // a system that hangs cannot do what the step waits for
			began = r.resumed
		}
		if !errors.Is(err, ErrNotYet) || time.Since(began) > r.world.Horizon && !r.oneMoreAttempt() {
			r.fail(ruleWorld, "step %q: %v", step.Name, err)
			return
		}
		r.heal()
		r.settle()
		time.Sleep(time.Second)
		r.settle()
		if r.failed() {
			return
		}
	}
	r.bringBack()
	var restart []*process
	r.mu.Lock()
	r.quiet = time.Now()
	for j, f := range r.plan {
		if s := r.program(f.System); f.Do == faultRestart && f.Nth == i+1 && !r.hits[j] && s != nil && s.p != nil {
			r.hits[j] = true
			restart = append(restart, s.p)
		}
	}
	r.mu.Unlock()
	for _, p := range restart {
		p.driver.restart()
	}
}

// earlyStep runs the next step of the user now, in the middle of a reconcile. If it fails, because the systems have not done yet what it needs, it
// comes in its turn; so it does if the user still waits for what the previous step needs.
func (r *run) earlyStep() {
	if r.stepping {
		return
	}
	i := r.step
	for i < len(r.world.Steps) && (r.plan.skips(i+1) || r.taken[i]) {
		i++
	}
	if i == len(r.world.Steps) {
		return
	}
	time.Sleep(stepTime) // as between any two steps
	before := r.db.version()
	r.timeline.note(userActor, "FAULT STEP %s comes early", r.world.Steps[i].Name)
	err, ok := r.limit(fmt.Sprintf("step %q", r.world.Steps[i].Name), func() error { return r.world.Steps[i].Do(context.Background(), r.user) })
	switch {
	case !ok:
	case err == nil:
		r.taken[i] = true
	default:
		r.timeline.note(userActor, "cannot do it yet: %v", err)
		r.spoiled = r.db.version() != before
	}
	r.touch()
}

// turn does one thing: it starts or ends a process, moves slots, lets caches read, or reconciles the first ready key. It returns false if there is
// nothing to do. It does not touch the controllers of a process that is in a call.
func (r *run) turn() bool {
	r.reap()
	if r.noticeLosses(false) {
		r.touch()
		return true
	}
	for _, s := range r.programs {
		if s.replace() {
			r.touch()
			return true
		}
	}
	if r.concurrent && r.release() {
		return true
	}
	for _, f := range r.fleets {
		if f.turn() {
			r.touch()
			return true
		}
	}
	for p := range r.processes() {
		if p.driver.deliver() {
			r.touch()
			return true
		}
	}
	return r.work()
}

// work runs the first reconcile that is ready. It returns false if there is none.
func (r *run) work() bool {
	for p := range r.processes() {
		if p.inFlight.Load() || p.dead.Load() || p.zombie || p.standby || p.stopping {
			continue
		}
		for _, l := range p.loops {
			if !p.isCold(l) && p.driver.work(l) {
				return true
			}
		}
	}
	return false
}

// sleep lets time pass until something waits for the run, or until the given time.
func (r *run) sleep(until time.Time) {
	r.timePasses()
	timer := time.NewTimer(max(time.Until(until), time.Nanosecond))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.wake:
	}
	synctest.Wait()
}

// wakeUp ends a sleep of the run.
func (r *run) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// reap ends a zombie whose call has returned, and checks for processes that have ended by themselves.
func (r *run) reap() {
	for p := range r.processes() {
		switch {
		case p.dead.Load():
		case p.zombie && !p.reconciling() && !p.inFlight.Load():
			p.die("ends")
		default:
			p.driver.check()
		}
	}
}

// checkInputs checks whether the kit drives the source of each cache.
func (r *run) checkInputs() {
	for p := range r.processes() {
		for _, in := range p.inputs {
			if in.kind() == "" {
				r.fail(ruleWorld, "a cache of %s has not listed: is its source a store of the Env?", p.name)
			}
		}
	}
}

// judge examines the state at the end.
func (r *run) judge() {
	if r.failed() {
		return
	}
	if r.world.Goal != nil {
		if err, ok := r.limit("World.Goal", func() error { return r.world.Goal(r.view) }); err != nil && ok {
			r.fail(ruleGoal, "at the end: %v", err)
		}
	}
	r.final = examine(r.db, r.world.Same)
	r.checkFailures()
}

// problemBeside returns the rule that the run breaks, compared with the run without faults, or nil.
func (r *run) problemBeside(fair *run) *problem {
	if r.spoiled {
		return nil
	}
	if r.problem != nil {
		return r.problem
	}
	return r.final.problemBeside(fair.final, r.world.Goal != nil)
}

// advises reports whether the run has advice of a sort.
func (r *run) advises(sort string) bool {
	return slices.ContainsFunc(r.advice, func(p problem) bool { return p.sort() == sort })
}
