package sim

import (
	"context"
	"runtime"
	"slices"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/simtest/internal/fault"
	"github.com/setpoint-go/setpoint/simtest/internal/part"
	"github.com/setpoint-go/setpoint/simtest/internal/rule"
)

const (
	slowness = time.Minute + 7*time.Second
	pause    = 11*time.Minute + 13*time.Second // longer than the lifetime of expectations
)

// Longest is how long the run waits for a reconcile, with all faults of a plan, and for a poll.
const Longest = 3 * time.Hour

// waiting is a call that waits for its turn.
type waiting struct {
	p      *Process
	by     string // controller and key, or empty
	resume chan struct{}
}

// held is a call that a fault has hit, and that waits until resume is closed.
type held struct {
	p      *Process
	fault  fault.Fault
	late   *lateCall // the rest of the call, if it arrives later; or nil
	resume chan struct{}
}

// enter ends the goroutine of a process that is dead: it has no effect after its end.
func (p *Process) enter() {
	if p.dead.Load() {
		runtime.Goexit()
	}
}

// await makes a call wait for its turn, if several goroutines make calls.
func (p *Process) await(ctx context.Context) {
	p.enter()
	p.countCall()
	if p.life.TakesTurns(ctx) {
		p.awaitTurn(ctx)
	}
}

// awaitTurn waits until the run lets the call, or the reconcile, of a context go on.
func (p *Process) awaitTurn(ctx context.Context) {
	info, ok := controller.FromContext(ctx)
	w := &waiting{p: p, resume: make(chan struct{})}
	if ok {
		w.by = info.Controller + "\x00" + info.Key
	}
	r := p.Run
	r.mu.Lock()
	r.calls = append(r.calls, w)
	r.mu.Unlock()
	r.WakeUp()
	<-w.resume
	p.enter()
}

// AwaitReconcile has a reconcile that the driver does not begin itself wait for its turn, as a call does. The reconciles of a key that
// comes back at once have no other place to wait if they make no call.
func (p *Process) AwaitReconcile(ctx context.Context) {
	p.awaitTurn(ctx)
	if info, ok := controller.FromContext(ctx); ok {
		p.beginReading(info.Controller, info.Key)
	}
}

// hold makes a call that a fault hits wait until the run has applied the fault. late may be nil.
func (p *Process) hold(ctx context.Context, f *fault.Fault, late *lateCall) {
	h := &held{p, *f, late, make(chan struct{})}
	switch {
	case p.life.TakesTurns(ctx):
		p.Run.mu.Lock()
		p.Run.held = append(p.Run.held, h)
		p.Run.mu.Unlock()
		p.Run.WakeUp()
	case p.inFlight.Load():
		p.held <- h
	default:
		return
	}
	<-h.resume
}

// park runs everything else while a call waits, and then resumes the call.
func (r *Run) park(h *held) {
	p := h.p
	switch h.fault.Do {
	case fault.Zombie:
		p.Note("FAULT it hangs, and another process takes over")
		if p.Program.p == p {
			p.Program.p = nil
		}
		p.life.Depose(true)
		r.turnAll()
		p.Note("continues where it hung")
		p.zombie = true
		p.life.GoOn()
		if !p.inFlight.Load() && !slices.Contains(p.Program.former, p) {
			p.Program.former = append(p.Program.former, p) // no goroutine waits for the call
		}
		close(h.resume)
		return
	case fault.LoseLease:
		r.loseLease(p)
		defer p.busy()()
		r.turnAll()
		p.Note("its call continues")
		close(h.resume)
		return
	case fault.Regain:
		r.late = append(r.late, h.late)
		if !p.zombie {
			r.loseLease(p)
			done := p.busy()
			r.turnAll()
			done()
			p.standBy()
		}
		close(h.resume)
		synctest.Wait() // its reconcile ends
		return
	}
	defer p.busy()()
	takes := slowness
	if h.fault.Do == fault.Pause {
		takes = pause
		p.Note("FAULT it hangs for %v", takes)
	} else {
		p.Note("FAULT the call takes %v", takes)
	}
	for end := time.Now().Add(takes); !r.Failed(); {
		for !r.Failed() && (r.Turn() || r.warm()) {
		}
		next := r.next()
		if next.IsZero() || !next.Before(end) || !next.After(time.Now()) {
			next = end
		}
		if !time.Now().Before(end) {
			break
		}
		r.Sleep(next)
	}
	r.Touch()
	close(h.resume)
}

// busy records that a call is in flight until done is called.
func (p *Process) busy() (done func()) {
	was := p.inFlight.Swap(true)
	return func() { p.inFlight.Store(was) }
}

// turnAll runs everything that can happen without the passage of time.
func (r *Run) turnAll() {
	for !r.Failed() && (r.Turn() || r.thaw(false)) {
	}
}

// release resumes one call that waits for its turn, or applies a fault to one. It returns false if there is none.
func (r *Run) release() bool {
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
	for p := range r.Processes() {
		for i, w := range r.calls {
			if w.p == p && (first < 0 || r.calls[first].p == p && w.by < r.calls[first].by) {
				first = i
			}
		}
		if first >= 0 {
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

// releaseAll lets every call of a dead process run to its end.
func (r *Run) releaseAll(p *Process) {
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

// startLimit returns a channel that tells when a reconcile that begins now takes too long.
func (p *Process) startLimit() <-chan time.Time {
	if p.limit == nil {
		p.limit = time.NewTimer(Longest)
	} else {
		p.limit.Reset(Longest)
	}
	return p.limit.C
}

// Reconcile makes a controller reconcile a key, and waits for it. begin calls its argument in another goroutine, and returns a channel that
// receives a value when the call has ended. Reconcile returns false if the key was not ready.
func (p *Process) Reconcile(l part.Loop, key string, begin func(func()) <-chan struct{}) bool {
	p.beginReading(l.Name(), key)
	p.Run.turns++
	p.turn = p.Run.turns
	var outcome string
	p.held = make(chan *held)
	p.inFlight.Store(true)
	endless := p.startLimit()
	done := begin(func() { outcome = l.Step(p.Context, key) })
	for ended := false; !ended; {
		select {
		case h := <-p.held:
			p.Run.park(h)
		case <-done:
			ended = true
		case <-endless:
			p.Run.Fail(rule.Stop, "%s: the reconcile of %s by %s has not returned after %v", p.Name, key, l.Name(), Longest)
			p.Kill()
		}
	}
	p.limit.Stop()
	p.inFlight.Store(false)
	synctest.Wait()
	if p.zombie {
		p.Die("ends")
		p.bury()
	}
	switch {
	case p.dead.Load():
	case outcome == "":
		p.Run.Timeline.Unnote() // it had to wait
		return false
	case outcome != "Succeeded":
		p.Note("%s: %s %s", l.Name(), key, outcome)
	}
	return true
}
