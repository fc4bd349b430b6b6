package simtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/store/backend"
)

const (
	horizon       = 7*time.Minute + 3*time.Second // shared with no timer of the library
	maxReconciles = 1000
	pairs         = 200
	slowness      = time.Minute + 7*time.Second
	pause         = 11*time.Minute + 13*time.Second // longer than the lifetime of expectations
)

// userName is the actor of what a [Step] does.
const userName = "user"

// position is a place at which a fault can happen: the nth operation on an object by a system.
type position struct {
	system, op, object string
	nth                int
	write              bool             // a write or an effect, and not a read
	before             informer.Version // of the database
	step               int              // how many steps of the user have begun
	turn               int              // which reconcile of the run
	idle               int              // how often nothing was left to do before
	when               time.Duration
}

// system is a [System] in one run.
type system struct {
	System
	run     *run
	p       *process   // nil while it is down
	former  []*process // that have lost their lease and do not know, in the order in which they did
	started int
	counts  map[position]int
	down    bool     // until the next step of the user
	travel  int      // how many commits the next process begins in the past
	kinds   []string // that its caches hold
}

// run is a world under one plan, from the beginning to the end.
//
// One goroutine at a time acts: that of the kit, or that of the reconcile that the kit waits for. Mu is for reconciles that make
// calls concurrently.
type run struct {
	world   World
	plan    Plan
	db      *database
	systems []*system
	began   time.Time
	final   end
	steps   int // reconciles since the last step of the user, or since the end of a fault
	begun   int // steps of the user
	turns   int // reconciles
	idle    int // how often nothing was left to do
	late    []*lateCall
	settled []informer.Version // of the database, whenever nothing was left to do after a step
	mode    string
	over    bool          // the run is: no process is started
	wake    chan struct{} // ends a sleep; of capacity 1

	concurrent bool            // several goroutines make calls: in run mode, and with parts in the background
	leases     *memlease.Store // of run mode
	launched   []*process      // of run mode
	leftBehind bool            // a part has not ended in time

	mu sync.Mutex
	// mu guards the following.
	quiet     time.Time // of the last commit, or step of the user
	entries   []entry
	positions []position
	hits      []bool // of the faults of the plan
	uids      int
	events    map[string]int              // commits of each object
	problem   *problem                    // the first
	advice    []problem                   // what is doubtful, one of each sort
	commits   int                         // when steps was zero
	wrote     map[string]informer.Version // the last write of each system, by its name and the kind
	workers   []*worker                   // that do nothing
	calls     []*waiting                  // that wait for their turn
	parks     []*park                     // that a fault has hit, in run mode and in the background
}

// entry is a line of the timeline.
type entry struct {
	at      time.Duration
	actor   string
	text    string
	wrote   *change // its text is made when somebody reads it
	settled int     // nothing is left to do; the place in run.settled, counted from 1
}

// play runs the world under a plan, and returns the run. It has to be called in a bubble.
func play(world World, plan Plan) *run {
	r := &run{
		world: world, plan: plan, db: newDatabase(), began: time.Now(), quiet: time.Now(),
		hits: make([]bool, len(plan)), events: make(map[string]int), wrote: make(map[string]informer.Version),
		wake: make(chan struct{}, 1), leases: memlease.New(),
	}
	var err error
	if r.mode, err = modeOf(world); err != nil {
		r.fail(ruleWorld, "%v", err)
		return r
	}
	r.concurrent = r.mode == runMode
	if r.world.Horizon == 0 {
		r.world.Horizon = horizon
	}
	if r.world.MaxReconciles == 0 {
		r.world.MaxReconciles = maxReconciles
	}
	for _, s := range world.Systems {
		r.systems = append(r.systems, &system{System: s, run: r, counts: make(map[position]int)})
	}
	defer r.end()
	r.settle()
	for i := range world.Steps {
		if plan.skips(i + 1) {
			continue
		}
		if r.failed() {
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
		if !r.heal() || r.failed() {
			break
		}
	}
	r.noteSettled()
	r.checkViews()
	r.judge()
	r.quitAll()
	return r
}

// noteSettled notes that nothing is left to do.
func (r *run) noteSettled() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.problem == nil {
		r.settled = append(r.settled, r.db.version())
		r.entries = append(r.entries, entry{at: time.Since(r.began), settled: len(r.settled)})
	}
}

// end ends every process.
func (r *run) end() {
	for p := range r.processes() {
		p.stop()
	}
	for _, p := range r.launched {
		p.life.kill(p)
		<-p.life.ended
	}
	if r.leftBehind {
		time.Sleep(time.Hour) // a part may end after all, and nothing may outlast the bubble
	}
	r.dismiss()
	synctest.Wait()
}

// processes yields every process that acts, in the order in which they do.
func (r *run) processes() iter.Seq[*process] {
	return func(yield func(*process) bool) {
		for _, s := range r.systems {
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

func (r *run) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.problem != nil
}

// fail records what is wrong, if nothing was before.
func (r *run) fail(rule Rule, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.problem == nil {
		r.problem = &problem{rule: rule, text: fmt.Sprintf(format, args...)}
	}
}

// note adds a line to the timeline.
func (r *run) note(actor, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = append(r.entries, entry{at: time.Since(r.began), actor: actor, text: fmt.Sprintf(format, args...)})
}

// unnote removes the last line of the timeline.
func (r *run) unnote() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = r.entries[:len(r.entries)-1]
}

func (r *run) newUID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.uids++
	return fmt.Sprintf("uid-%d", r.uids)
}

// at counts an operation of a process, and returns the fault of the plan that hits it, or nil.
func (r *run) at(p *process, pos position) *Fault {
	if p.system.Trusted {
		return nil
	}
	pos.system, pos.before, pos.step = p.system.Name, r.db.version(), r.begun
	pos.turn, pos.idle, pos.when = p.turn, r.idle, time.Since(r.began)
	same := position{op: pos.op, object: pos.object}
	r.mu.Lock()
	p.system.counts[same]++
	pos.nth = p.system.counts[same]
	r.positions = append(r.positions, pos)
	var hit *Fault
	var lags []string
	for i, f := range r.plan {
		if r.hits[i] || f.Op != pos.op || f.System != pos.system || f.Object != pos.object || f.Nth != pos.nth {
			continue
		}
		if f.Do == Lag {
			lags = append(lags, f.Kind)
		} else if hit == nil {
			hit = &r.plan[i]
		} else {
			continue
		}
		r.hits[i] = true
	}
	r.mu.Unlock()
	for _, kind := range lags {
		r.note(p.name, "FAULT its cache of %s lags from here on", kind)
		p.freeze(kind, pos.before)
	}
	switch {
	case hit == nil:
	case hit.Do == Down:
		p.system.down = true
	case hit.Do == Travel:
		p.system.travel = hit.N
	}
	return hit
}

// freeze stops the views of a kind at a version.
func (p *process) freeze(kind string, at informer.Version) {
	for _, v := range p.views {
		v.freeze(kind, at, false)
	}
}

// commit writes a record, and looks whether Always holds, and whether a gap begins or ends.
func (r *run) commit(actor, kind, key string, next backend.Record) backend.Record {
	c := r.db.commit(actor, kind, key, next)
	r.mu.Lock()
	r.quiet = time.Now()
	r.entries = append(r.entries, entry{at: time.Since(r.began), actor: actor, wrote: &c})
	r.events[c.object()]++
	r.commits++
	nth := r.events[c.object()]
	r.mu.Unlock()
	for i, f := range r.plan {
		if f.Do != Gap || f.Object != c.object() {
			continue
		}
		s := r.systemOf(f.System)
		switch {
		case s == nil || s.p == nil:
		case nth == f.Nth:
			r.mu.Lock()
			r.hits[i] = true
			r.mu.Unlock()
			r.note(s.p.name, "FAULT its watch of %s breaks", kind)
			for _, v := range s.p.views {
				v.freeze(kind, c.record.Version-1, true)
			}
		case nth == f.N:
			for _, v := range s.p.views {
				v.relist(kind)
			}
		}
	}
	if r.world.Always != nil && !r.failed() {
		if err := r.world.Always(r.view()); err != nil {
			p := problem{rule: ruleAlways, text: fmt.Sprintf("after this commit by %s: %v", actor, err)}
			if unfair := r.unfair(); unfair != "" {
				p.about, p.text = "unfair", p.text+"; "+unfair
				r.advise(p)
			} else {
				r.fail(p.rule, "%s", p.text)
			}
		}
	}
	return c.record
}

func (r *run) systemOf(name string) *system {
	for _, s := range r.systems {
		if s.Name == name {
			return s
		}
	}
	return nil
}

func (r *run) view() *View {
	return &View{&truth{database: r.db, actor: "a view", newUID: r.newUID}}
}

// userStep does a step of the user.
func (r *run) userStep(i int) {
	step := r.world.Steps[i]
	user := &User{&truth{database: r.db, actor: userName, newUID: r.newUID, commit: r.commit}}
	r.note(userName, "STEP %s", step.Name)
	r.calm()
	for began := time.Now(); ; {
		err := step.Do(context.Background(), user)
		if err == nil {
			break
		}
		if !errors.Is(err, ErrNotYet) || time.Since(began) > r.world.Horizon {
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
		if s := r.systemOf(f.System); f.Do == Restart && f.Nth == i+1 && !r.hits[j] && s != nil && s.p != nil {
			r.hits[j] = true
			restart = append(restart, s.p)
		}
	}
	r.mu.Unlock()
	for _, p := range restart {
		if p.life != nil {
			r.note(p.name, "FAULT it is told to stop")
			r.quit(p)
		} else {
			p.die("CRASH")
		}
	}
}

// bringBack ends the outages that last until the next step. It returns false if there was none.
func (r *run) bringBack() (did bool) {
	for _, s := range r.systems {
		did = did || s.down
		s.down = false
	}
	return did
}

// heal ends every fault that lasts. It returns false if there was none.
func (r *run) heal() bool {
	did := r.bringBack()
	for r.thaw(true) {
		did = true
	}
	did = r.notice(true) || did
	return r.arrive(true) || did
}

// settle runs the systems until nothing is left to do: no key is ready, every cache is up to date, and no key becomes ready
// until the horizon.
func (r *run) settle() {
	for !r.failed() {
		if r.turn() {
			continue
		}
		r.idle++
		if r.thaw(false) {
			continue
		}
		r.mu.Lock()
		end := r.quiet.Add(r.world.Horizon)
		r.mu.Unlock()
		next := r.next()
		if next.IsZero() || next.After(end) {
			if !r.unsettled() || !time.Now().Before(end) {
				return
			}
			next = end
		}
		r.sleep(next)
	}
}

// turn does one thing: it starts or ends a process, has caches read what there is, or reconciles the first key that is ready.
// It returns false if there is nothing to do. It leaves the controllers of a process alone that is in a call.
func (r *run) turn() bool {
	r.reap()
	if r.notice(false) {
		return true
	}
	for _, s := range r.systems {
		if s.replace() {
			return true
		}
	}
	if r.concurrent && r.release() {
		return true
	}
	for p := range r.processes() {
		if p.deliver() {
			return true
		}
	}
	if r.mode == runMode {
		return r.beginOne()
	}
	for p := range r.processes() {
		if p.inFlight.Load() || p.dead.Load() {
			continue
		}
		for _, l := range p.loops {
			for _, key := range l.ready() {
				if r.steps++; r.steps > r.world.MaxReconciles {
					return r.restless(p.system)
				}
				if r.reconcile(p, l, key) {
					return true
				}
			}
		}
	}
	return false
}

// deliver has every cache of the process read what it may hear, and calls the handlers. It returns false if there was nothing.
func (p *process) deliver() (did bool) {
	if p.life != nil && p.zombie {
		return false // as in step mode, where it is not delivered to
	}
	for _, v := range p.views {
		if p.life != nil {
			did = v.hear() || did
			p.sees(v.of())
			continue
		}
		for tries := 0; v.behind() && !p.dead.Load(); tries++ {
			if tries > 100+len(p.run.db.log) {
				p.run.fail(ruleWorld, "the cache of %s by %s cannot catch up: is its source a store of the Env?", v.of(), p.name)
				return false
			}
			v.steps.Read(p.ctx)
			p.sees(v.of())
			v.apply()
			did = true
		}
		did = v.apply() || did
	}
	return did
}

// sees notes that a cache of the process is of a kind, unless that is empty.
func (p *process) sees(kind string) {
	if kind != "" && !slices.Contains(p.system.kinds, kind) {
		p.system.kinds = append(p.system.kinds, kind)
	}
}

// apply applies what was read, and calls the handlers.
func (v *view) apply() (did bool) {
	for v.steps.Apply() {
		did = true
	}
	for _, h := range v.steps.Handlers() {
		for v.steps.Deliver(h) {
			did = true
		}
	}
	return did
}

// thaw ends a lag, and with all a gap too: the change that ends it has not come. It returns false if there was none.
func (r *run) thaw(all bool) bool {
	for p := range r.processes() {
		var did bool
		for _, v := range p.views {
			did = v.thaw(all) || did
		}
		if did {
			r.note(p.name, "its caches catch up")
			return true
		}
	}
	return false
}

// next returns when the first key becomes ready that is delayed, or zero.
func (r *run) next() (next time.Time) {
	for p := range r.processes() {
		for _, l := range p.loops {
			if t := l.next(); !t.IsZero() && (next.IsZero() || t.Before(next)) {
				next = t
			}
		}
	}
	return next
}

// reconcile has a controller reconcile a key in a goroutine of its own, and waits for it. It returns false if the key was not
// ready after all.
func (r *run) reconcile(p *process, l looper, key string) bool {
	r.note(p.name, "%s: reconcile %s%s", l.name(), key, p.seen())
	p.beginReading()
	r.turns++
	p.turn = r.turns
	var outcome string
	p.parked = make(chan *park)
	p.inFlight.Store(true)
	done := r.begin(func() { outcome = l.step(p.ctx, key) })
	for {
		select {
		case <-done:
			p.inFlight.Store(false)
			synctest.Wait()
			if p.zombie {
				p.die("ends")
				p.stop()
			}
			if p.dead.Load() {
				return true
			}
			if outcome == "" {
				r.unnote() // it had to wait
				return false
			}
			if outcome != "Succeeded" {
				r.note(p.name, "%s: %s %s", l.name(), key, outcome)
			}
			return true
		case waits := <-p.parked:
			r.park(p, waits)
		}
	}
}
