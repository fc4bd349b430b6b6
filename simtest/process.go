package simtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
)

// program is a [System] in one run, with its processes.
type program struct {
	System
	kinds []string // the kinds that its caches hold

	run     *run
	fleet   *fleet   // nil without Slots
	p       *process // nil while it is down
	first   *process
	former  []*process // processes that have lost their lease without noticing, in that order
	started int        // how many processes
	terms   uint64     // how many terms have begun
	counts  map[callKey]int
	down    bool   // until the next step of the user
	travel  int    // how many commits the next process begins in the past
	cold    string // the kind whose controllers begin last in the next process
	chose   bool   // several keys were ready at once
}

// process is one process of a system.
type process struct {
	run     *run
	program *program
	name    string          // of the system, and its number
	ctx     context.Context // ends with the process
	loops   []loop
	inputs  []*input

	share    *share // nil without Slots
	term     uint64
	cancel   context.CancelCauseFunc
	driver   processDriver
	until    time.Time // of a process that has lost its lease: when it notices at the latest
	reads    reads     // of the reconcile in progress
	turn     int       // the reconcile in progress, or the last one
	dead     atomic.Bool
	inFlight atomic.Bool // the process does nothing else: a reconcile is in flight, or one of its calls
	zombie   bool        // another process has taken over: it ends with the reconcile in flight
	standby  bool        // it has lost its lease, has noticed that, and will lead again
	stopping bool        // its context has ended, because it has to stop
	cold     string      // the kind whose controllers have not begun
	since    int         // of a process that is cold: reconciles of the run when it started
	held     chan *held  // calls of a reconcile in flight that a fault has hit, for the goroutine that waits for it
}

// start starts the next process of a program.
func (r *run) start(s *program) {
	s.started++
	s.terms++
	p := &process{run: r, program: s, name: fmt.Sprintf("%s.%d", s.Name, s.started), term: s.terms}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	if s.fleet != nil {
		p.share = &share{fleet: s.fleet, p: p}
	}
	s.p = p
	if s.first == nil {
		s.first = p
	}
	if err := p.make(); err != nil {
		r.fail(ruleWorld, "%s cannot be made: %v", p.name, err)
		return
	}
	synctest.Wait()
	if s.travel == 0 && s.cold == "" && s.started > 1 {
		p.note("starts")
	}
	if s.travel > 0 {
		at := r.db.version() - min(informer.Version(s.travel), r.db.version())
		s.travel = 0
		p.note("FAULT it starts, and its caches begin at version %d", at)
		p.freeze("", at)
	}
	if s.cold != "" {
		p.cold, s.cold, p.since = s.cold, "", r.reconciles
		p.note("FAULT it starts, and its controllers of %s begin last", p.cold)
	}
	p.driver.begin()
}

// make makes the parts of the process.
func (p *process) make() (err error) {
	if p.driver, err = p.run.driver.start(p); err != nil {
		return err
	}
	var parts []Part
	err, ok := p.run.limit("New of system "+p.program.Name, func() (err error) {
		parts, err = p.program.New(&Env{p, p.run.stores(processBackend{p})})
		return err
	})
	if !ok {
		return nil // the run has failed
	}
	for _, part := range parts { // before any informer runs
		if l, ok := part.(loopPart); ok && p.share != nil {
			l.Share(p.share)
		}
	}
	for _, part := range parts {
		if err == nil {
			err = part.join(p.driver)
		}
	}
	return err
}

// note adds a line of the process to the timeline.
func (p *process) note(format string, args ...any) { p.run.timeline.note(p.name, format, args...) }

// inputOf returns the input of an informer, and creates it if there is none.
func (p *process) inputOf(src controller.Informer) (*input, error) {
	if i := slices.IndexFunc(p.inputs, func(in *input) bool { return in.informer == src }); i >= 0 {
		return p.inputs[i], nil
	}
	in, err := newInput(p, src)
	if err == nil {
		p.inputs = append(p.inputs, in)
	}
	return in, err
}

// addKind records that a cache of the process holds a kind, unless kind is empty.
func (p *process) addKind(kind string) {
	if kind != "" && !slices.Contains(p.program.kinds, kind) {
		p.program.kinds = append(p.program.kinds, kind)
	}
}

// freeze stops the inputs of a kind at a version.
func (p *process) freeze(kind string, at informer.Version) {
	for _, in := range p.inputs {
		in.freeze(kind, at, false)
	}
}

// ask makes the inputs read even if there is nothing new: their informers may have been asked to list, or to drop something.
func (p *process) ask() {
	for _, in := range p.inputs {
		in.ask()
	}
}

// reconciling reports whether a controller of the process has a reconcile in flight.
func (p *process) reconciling() bool {
	return slices.ContainsFunc(p.loops, func(l loop) bool {
		_, inFlight := l.outlook()
		return inFlight
	})
}

// die ends the process at once. The goroutine ends at its next call of the environment.
func (p *process) die(why string) {
	if !p.dead.Swap(true) {
		p.note("%s", why)
	}
}

// kill ends the process at once: it has no effect any more.
func (p *process) kill() {
	p.dead.Store(true)
	p.driver.kill()
	p.cancel(errEnded)
	p.run.releaseAll(p)
}

// remove ends a dead process, or one without calls.
func (p *process) remove() {
	p.kill()
	p.driver.end()
	synctest.Wait()
}

// The causes of the end of the context of a process.
var (
	errEnded   = errors.New("simtest: the process has ended")
	errStopped = errors.New("simtest: the process has to stop")
)

// replace ends a dead process of the system, or starts one if there is none. It returns false if there was nothing to do.
func (s *program) replace() bool {
	for i, p := range s.former {
		if p.dead.Load() && !p.inFlight.Load() {
			p.remove()
			s.former = slices.Delete(s.former, i, i+1)
			return true
		}
	}
	if s.p != nil && s.p.dead.Load() && !s.p.inFlight.Load() {
		s.p.remove()
		s.p = nil
		return true
	}
	if s.regain() {
		return true
	}
	if s.p == nil && !s.down && !s.run.over {
		s.run.start(s)
		return true
	}
	return false
}

// choose records that several keys are ready. It reports whether a fault lets the last one go first.
func (p *process) choose() (last bool) {
	p.run.mu.Lock()
	defer p.run.mu.Unlock()
	return p.chooseLocked()
}

// chooseLocked is choose, with the mutex of the run held.
func (p *process) chooseLocked() (last bool) {
	p.program.chose = true
	i := slices.IndexFunc(p.run.plan, func(f Fault) bool { return f.Do == faultReorder && f.System == p.program.Name })
	if i >= 0 {
		p.run.hits[i] = true
	}
	return i >= 0
}

// isCold reports whether a fault keeps a controller of the process from beginning before all others.
func (p *process) isCold(l loop) bool { return p.cold != "" && p.watches(l, p.cold) }

// watches reports whether a cache of a kind is an input of a controller.
func (p *process) watches(l loop, kind string) bool {
	informers := l.Informers()
	return slices.ContainsFunc(p.inputs, func(in *input) bool { return in.kind() == kind && slices.Contains(informers, in.informer) })
}

// warm starts all controllers that have not begun. It returns false if there was none.
func (r *run) warm() (did bool) {
	for p := range r.processes() {
		if p.cold == "" {
			continue
		}
		p.note("its controllers of %s begin", p.cold)
		p.cold, did = "", true
	}
	return did
}

// unfair returns why other controllers of the process go first for longer than real ones would, or "".
func (p *process) unfair() string {
	if n := p.run.reconciles - p.since; p.cold != "" && n > fairReconciles {
		return fmt.Sprintf("only while the controllers of %s by %s have not begun, by then for %d reconciles", p.cold, p.name, n)
	}
	return ""
}

// partlyWatched returns the kinds of which a cache is an input of some controllers of the system, and not of others.
func (s *program) partlyWatched() (kinds []string) {
	for _, kind := range s.kinds {
		watch := 0
		for _, l := range s.first.loops {
			if s.first.watches(l, kind) {
				watch++
			}
		}
		if 0 < watch && watch < len(s.first.loops) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}
