package simtest

import (
	"context"
	"runtime"
	"slices"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
)

const (
	slowTime  = time.Minute + 7*time.Second
	pauseTime = 11*time.Minute + 13*time.Second // longer than the lifetime of expectations
)

// longest is how long the run waits for a reconcile, with all faults of a plan, and for a poll.
const longest = 3 * time.Hour

// waiting is a call that waits for its turn.
type waiting struct {
	p      *process
	by     string // controller and key, or empty
	resume chan struct{}
}

// held is a call that a fault has hit, and that waits until resume is closed.
type held struct {
	p      *process
	fault  Fault
	late   *lateCall // the rest of the call, if it arrives later; or nil
	resume chan struct{}
}

// enter ends the goroutine of a process that is dead: it has no effect after its end.
func (p *process) enter() {
	if p.dead.Load() {
		runtime.Goexit()
	}
}

// await makes a call wait for its turn, if several goroutines make calls.
func (p *process) await(ctx context.Context) {
	p.enter()
	p.countCall()
	if p.driver.takesTurns(ctx) {
		p.awaitTurn(ctx)
	}
}

// awaitTurn waits until the run lets the call, or the reconcile, of a context go on.
func (p *process) awaitTurn(ctx context.Context) {
	info, ok := controller.FromContext(ctx)
	w := &waiting{p: p, resume: make(chan struct{})}
	if ok {
		w.by = info.Controller + "\x00" + info.Key
	}
	r := p.run
	r.mu.Lock()
	r.calls = append(r.calls, w)
	r.mu.Unlock()
	r.wakeUp()
	<-w.resume
	p.enter()
}

// awaitReconcile has a reconcile that the driver does not begin itself wait for its turn, as a call does. The reconciles of a key that
// comes back at once have no other place to wait if they make no call.
func (p *process) awaitReconcile(ctx context.Context) {
	p.awaitTurn(ctx)
	if info, ok := controller.FromContext(ctx); ok {
		p.beginReads(info.Controller, info.Key)
	}
}

// hold makes a call that a fault hits wait until the run has applied the fault. late may be nil.
func (p *process) hold(ctx context.Context, f *Fault, late *lateCall) {
	h := &held{p, *f, late, make(chan struct{})}
	switch {
	case p.driver.takesTurns(ctx):
		p.run.mu.Lock()
		p.run.held = append(p.run.held, h)
		p.run.mu.Unlock()
		p.run.wakeUp()
	case p.inFlight.Load():
		p.held <- h
	default:
		return
	}
	<-h.resume
}

// park runs everything else while a call waits, and then resumes the call.
func (r *run) park(h *held) {
	p := h.p
	switch h.fault.Do {
	case faultZombie:
		p.note("FAULT it hangs, and another process takes over")
		if p.program.p == p {
			p.program.p = nil
		}
		p.driver.depose(true)
		r.turnAll()
		p.note("continues where it hung")
		p.zombie = true
		p.driver.unhang()
		if !p.inFlight.Load() && !slices.Contains(p.program.former, p) {
			p.program.former = append(p.program.former, p) // no goroutine waits for the call
		}
		close(h.resume)
		return
	case faultEarly:
		r.earlyStep()
		close(h.resume)
		return
	case faultMove:
		p.program.fleet.move(p, h.fault.Kind)
		defer p.beginCall()()
		for !r.failed() && r.turn() {
		}
		p.note("its call continues")
		close(h.resume)
		return
	case faultLoseLease:
		r.loseLease(p)
		defer p.beginCall()()
		r.turnAll()
		p.note("its call continues")
		close(h.resume)
		return
	case faultRegain:
		r.late = append(r.late, h.late)
		if !p.zombie {
			r.loseLease(p)
			done := p.beginCall()
			r.turnAll()
			done()
			p.standBy()
		}
		close(h.resume)
		synctest.Wait() // its reconcile ends
		return
	}
	defer p.beginCall()()
	takes := slowTime
	if h.fault.Do == faultPause {
		takes = pauseTime
		p.note("FAULT it hangs for %v", takes)
	} else {
		p.note("FAULT the call takes %v", takes)
	}
	for end := time.Now().Add(takes); !r.failed(); {
		for !r.failed() && (r.turn() || r.warm() || r.thawLate()) {
		}
		next, _ := r.outlook()
		if next.IsZero() || !next.Before(end) || !next.After(time.Now()) {
			next = end
		}
		next = earliest(next, r.nextLate())
		if !time.Now().Before(end) {
			break
		}
		r.sleep(next)
	}
	r.touch()
	r.resumed = time.Now()
	close(h.resume)
}

// beginCall records that a call is in flight, until done is called.
func (p *process) beginCall() (done func()) {
	was := p.inFlight.Swap(true)
	return func() { p.inFlight.Store(was) }
}

// turnAll runs everything that can happen without the passage of time.
func (r *run) turnAll() {
	for !r.failed() && (r.turn() || r.thaw(false)) {
	}
}

// release resumes one call that waits for its turn, or applies a fault to one. It returns false if there is none.
func (r *run) release() bool {
	synctest.Wait()
	r.mu.Lock()
	if n := len(r.held); n > 0 {
		h := r.held[n-1]
		r.held = r.held[:n-1]
		r.mu.Unlock()
		if h.p.dead.Load() {
			close(h.resume)
			synctest.Wait()
		} else {
			r.park(h)
		}
		return true
	}
	first := -1
	for p := range r.processes() {
		if first = r.firstCallLocked(p); first >= 0 {
			break
		}
	}
	if first < 0 {
		r.mu.Unlock()
		return false
	}
	w := r.calls[first]
	r.calls = slices.Delete(r.calls, first, first+1)
	r.mu.Unlock()
	close(w.resume)
	synctest.Wait()
	return true
}

// firstCallLocked returns the index of the call of a process that goes on next, or -1: that of the first key.
func (r *run) firstCallLocked(p *process) int {
	first, last := -1, -1
	for i, w := range r.calls {
		if w.p != p {
			continue
		}
		if first < 0 || w.by < r.calls[first].by {
			first = i
		}
		if last < 0 || w.by > r.calls[last].by {
			last = i
		}
	}
	if first >= 0 && r.calls[first].by != r.calls[last].by && p.chooseLocked() {
		return last
	}
	return first
}

// releaseAll lets every call of a dead process run to its end.
func (r *run) releaseAll(p *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = slices.DeleteFunc(r.calls, func(w *waiting) bool {
		if w.p == p {
			close(w.resume)
		}
		return w.p == p
	})
	r.held = slices.DeleteFunc(r.held, func(h *held) bool {
		if h.p == p {
			close(h.resume)
		}
		return h.p == p
	})
}
