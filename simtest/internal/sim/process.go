package sim

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
	"github.com/setpoint-go/setpoint/simtest/internal/part"
	"github.com/setpoint-go/setpoint/simtest/internal/rule"
	"github.com/setpoint-go/setpoint/simtest/internal/view"
)

// fairReconciles is how many reconciles a controller may begin later than the others. More is unfair: real controllers do begin.
const fairReconciles = 100

// Program is a [System] in one run, with its processes.
type Program struct {
	System
	Kinds []string // the kinds that its caches hold

	run     *Run
	p       *Process // nil while it is down
	first   *Process
	former  []*Process // processes that have lost their lease without knowing it, in that order
	started int        // how many processes
	terms   uint64     // how many terms have begun
	counts  map[call]int
	down    bool   // until the next step of the user
	travel  int    // how many commits the next process begins in the past
	cold    string // the kind whose controllers begin last in the next process
}

func newProgram(r *Run, s System) *Program {
	return &Program{System: s, run: r, counts: make(map[call]int)}
}

// Process is one incarnation of a system.
type Process struct {
	Run     *Run
	Program *Program
	Name    string          // of the system, and its number
	Context context.Context // ends with the process
	Loops   []part.Loop
	Views   []*view.View

	term     uint64
	cancel   context.CancelCauseFunc
	life     Life
	until    time.Time // of a process that has lost its lease: when it notices at the latest
	reading  reading   // of the reconcile in progress
	turn     int       // the reconcile in progress, or the last one
	dead     atomic.Bool
	inFlight atomic.Bool // a reconcile is in flight
	zombie   bool        // another process has taken over: it ends with the reconcile in flight
	standby  bool        // it has lost its lease, knows that, and will lead again
	stopping bool        // it was told to stop
	cold     string      // the kind whose controllers have not begun
	since    int         // of a process that is cold: Reconciles of the run when it started
	limit    *time.Timer // of the reconcile in flight; nil before the first
	held     chan *held  // calls of a reconcile in flight that a fault has hit, for the goroutine that waits for it
}

// NewProcess returns the next process of a program, without parts.
func (s *Program) NewProcess(live func(*Process) Life) *Process {
	s.started++
	s.terms++
	p := &Process{Run: s.run, Program: s, Name: fmt.Sprintf("%s.%d", s.Name, s.started), term: s.terms}
	p.Context, p.cancel = context.WithCancelCause(context.Background())
	p.life = live(p)
	if s.first == nil {
		s.first = p
	}
	return p
}

// start starts a process of a program.
func (r *Run) start(s *Program) {
	p := s.NewProcess(r.driver.Live)
	s.p = p
	parts, err := s.New(p)
	if err == nil {
		err = p.life.Join(parts)
	}
	if err != nil {
		r.Fail(rule.World, "%s cannot be made: %v", p.Name, err)
		return
	}
	synctest.Wait()
	if s.travel == 0 && s.cold == "" && s.started > 1 {
		p.Note("starts")
	}
	if s.travel > 0 {
		at := r.DB.Version() - min(informer.Version(s.travel), r.DB.Version())
		s.travel = 0
		p.Note("FAULT it starts, and its caches begin at version %d", at)
		p.freeze("", at)
	}
	if s.cold != "" {
		p.cold, s.cold, p.since = s.cold, "", r.reconciles
		p.Note("FAULT it starts, and its controllers of %s begin last", p.cold)
	}
	p.life.Begin()
}

// Note adds a line of the process to the timeline.
func (p *Process) Note(format string, args ...any) { p.Run.Timeline.Note(p.Name, format, args...) }

// Term is the term of the leadership of a process whose system has a lease. Later terms are greater.
func (p *Process) Term() uint64 { return p.term }

// View returns the view of an informer, and creates it if there is none.
func (p *Process) View(in any) (*view.View, error) {
	if i := slices.IndexFunc(p.Views, func(v *view.View) bool { return v.Of(in) }); i >= 0 {
		return p.Views[i], nil
	}
	v, err := view.New(in, p.Name, p.Run)
	if err == nil {
		p.Views = append(p.Views, v)
	}
	return v, err
}

// Sees records that a cache of the process holds a kind, unless kind is empty.
func (p *Process) Sees(kind string) {
	if kind != "" && !slices.Contains(p.Program.Kinds, kind) {
		p.Program.Kinds = append(p.Program.Kinds, kind)
	}
}

// freeze stops the views of a kind at a version.
func (p *Process) freeze(kind string, at informer.Version) {
	for _, v := range p.Views {
		v.Freeze(kind, at, false)
	}
}

// Dead reports whether the process has ended.
func (p *Process) Dead() bool { return p.dead.Load() }

// Busy reports whether the process does nothing else at the moment: a reconcile is in flight, or one of its calls.
func (p *Process) Busy() bool { return p.inFlight.Load() }

// Zombie reports whether another process has taken over: this one ends with the reconcile in flight.
func (p *Process) Zombie() bool { return p.zombie }

// Works reports whether a controller of the process has a reconcile in flight.
func (p *Process) Works() bool {
	return slices.ContainsFunc(p.Loops, func(l part.Loop) bool { return l.Works() })
}

// Die ends the process at once. The goroutine ends at its next call of the environment.
func (p *Process) Die(why string) {
	if !p.dead.Swap(true) {
		p.Note("%s", why)
	}
}

// Stop ends the context of the process, which continues until it has stopped.
func (p *Process) Stop() {
	p.stopping = true
	p.cancel(errStopped)
}

// Stopping reports whether the process was told to stop.
func (p *Process) Stopping() bool { return p.stopping }

// Kill ends the process at once: it has no effect any more.
func (p *Process) Kill() {
	p.dead.Store(true)
	p.life.Kill()
	p.cancel(ErrEnded)
	p.Run.releaseAll(p)
}

// bury ends a dead process, or one without calls.
func (p *Process) bury() {
	p.Kill()
	p.life.End()
	synctest.Wait()
}

// HasStopped records that the process has stopped gracefully.
func (p *Process) HasStopped() { p.dead.Store(true) }

// The causes of the end of the context of a process.
var (
	ErrEnded   = errors.New("simtest: the process has ended")
	errStopped = errors.New("simtest: the process was told to stop")
)

// replace ends a dead process of the system, or starts one if there is none. It returns false if there was nothing to do.
func (s *Program) replace() bool {
	for i, p := range s.former {
		if p.dead.Load() && !p.inFlight.Load() {
			p.bury()
			s.former = slices.Delete(s.former, i, i+1)
			return true
		}
	}
	if s.p != nil && s.p.dead.Load() && !s.p.inFlight.Load() {
		s.p.bury()
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

// IsCold reports whether a fault keeps a controller of the process from beginning before all others.
func (p *Process) IsCold(l part.Loop) bool { return p.cold != "" && p.watches(l, p.cold) }

// watches reports whether a cache of a kind is an input of a controller.
func (p *Process) watches(l part.Loop, kind string) bool {
	informers := l.Informers()
	return slices.ContainsFunc(p.Views, func(v *view.View) bool {
		return v.Kind() == kind && slices.ContainsFunc(informers, func(s controller.Informer) bool { return v.Of(s) })
	})
}

// warm starts all controllers that have not begun. It returns false if there was none.
func (r *Run) warm() (did bool) {
	for p := range r.Processes() {
		if p.cold == "" {
			continue
		}
		p.Note("its controllers of %s begin", p.cold)
		p.cold, did = "", true
	}
	return did
}

// unfair returns why other controllers of the process go first for longer than real ones would, or "".
func (p *Process) unfair() string {
	if n := p.Run.reconciles - p.since; p.cold != "" && n > fairReconciles {
		return fmt.Sprintf("only while the controllers of %s by %s have not begun, by then for %d reconciles", p.cold, p.Name, n)
	}
	return ""
}

// Partly returns the kinds of which a cache is an input of some controllers of the system, and not of others.
func (s *Program) Partly() (kinds []string) {
	for _, kind := range s.Kinds {
		watch := 0
		for _, l := range s.first.Loops {
			if s.first.watches(l, kind) {
				watch++
			}
		}
		if 0 < watch && watch < len(s.first.Loops) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}
