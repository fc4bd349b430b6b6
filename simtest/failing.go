package simtest

import (
	"fmt"
	"slices"
	"time"
)

// failing is a key that fails at the end of a run.
type failing struct {
	name   string // of the program, the controller, and the key
	parked bool
	text   string
}

// checkPanics fails the run if a reconcile of the process has panicked. The process must not have ended: the kit ends the reconcile in flight by a
// runtime.Goexit, which counts as a panic.
func (p *process) checkPanics() {
	if p.program.Trusted {
		return
	}
	for _, l := range p.loops {
		if n := l.panics(); n > 0 {
			p.run.failWith(problem{rule: rulePanic, about: p.program.Name + " " + l.Name(), text: fmt.Sprintf(
				"%d reconciles of %s by %s have panicked", n, l.Name(), p.name)})
		}
	}
}

// checkFailures notes the keys that fail at the end. In the run without faults, a key that waits for its next attempt is a problem; one that is
// parked is not, because the program has decided to give it up.
func (r *run) checkFailures() {
	for p := range r.processes() {
		if p.dead.Load() || p.program.Trusted {
			continue
		}
		if r.concurrent { // step mode checks after each reconcile
			p.checkPanics()
		}
		for _, l := range p.loops {
			for _, k := range l.failed() {
				if k.failures == 0 && !k.next.IsZero() || !p.share.has(l, k.key) {
					continue // it is not finished, which is no failure, or another replica has it
				}
				what := fmt.Sprintf("fails, after %d failures, and is tried again in %v", k.failures, time.Until(k.next).Round(time.Second))
				if k.next.IsZero() {
					what = "is parked"
				}
				if k.reason != "" {
					what += ": " + k.reason
				}
				r.final.failing = append(r.final.failing, failing{
					name: fmt.Sprintf("%s %s %s", p.program.programName(), l.Name(), k.key), parked: k.next.IsZero(),
					text: fmt.Sprintf("the key %s of %s by %s %s", k.key, l.Name(), p.program.Name, what),
				})
			}
		}
	}
	if f := r.final.failing; len(r.plan.faults()) == 0 {
		if i := slices.IndexFunc(f, func(f failing) bool { return !f.parked }); i >= 0 {
			r.failWith(problem{rule: ruleFailing, about: f[i].name, text: f[i].text})
		}
	}
}

// oneMoreAttempt lets time pass until a key that has failed, or that is not finished, is tried again, because the last fault may be why. Each key gets
// one attempt, and another one after each fault that has hit the systems since then. It returns false if there was none.
func (r *run) oneMoreAttempt() bool {
	hits := r.countHits() + 1
	for p := range r.processes() {
		if p.dead.Load() || p.program.Trusted {
			continue
		}
		for _, l := range p.loops {
			for _, k := range l.failed() {
				name := p.name + " " + l.Name() + " " + k.key
				if k.next.IsZero() || r.retried[name] == hits {
					continue
				}
				if r.retried == nil {
					r.retried = make(map[string]int)
				}
				r.retried[name] = hits
				for time.Now().Before(k.next) && !r.failed() {
					for r.turn() {
						if r.failed() {
							return true
						}
					}
					r.sleep(k.next)
				}
				r.touch()
				return true
			}
		}
	}
	return false
}

// countHits returns how many faults of the plan have hit the systems.
func (r *run) countHits() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, hit := range r.hits {
		if hit {
			n++
		}
	}
	return n
}
