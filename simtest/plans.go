package simtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-go/setpoint/informer"
)

// candidate is a fault that can happen to the run without faults.
type candidate struct {
	Fault
	like *Fault // an earlier one, of which the run cannot differ in what counts; nil if there is none
}

// singles returns every fault that can happen to the run without faults.
func singles(fair *run) (all []candidate) {
	for i, p := range fair.positions {
		all = append(all, fair.faultsAt(i, p)...)
	}
	for _, s := range fair.systems {
		if s.Trusted {
			continue
		}
		for step := 1; step <= len(fair.world.Steps); step++ {
			all = append(all, candidate{Fault: Fault{Do: Restart, System: s.Name, Nth: step}})
		}
		for _, gap := range gaps(fair, s) {
			all = append(all, candidate{Fault: gap})
		}
	}
	return all
}

// faultsAt returns the faults at position i of the run without faults.
func (r *run) faultsAt(i int, p position) (all []candidate) {
	f := Fault{System: p.system, Op: p.op, Object: p.object, Nth: p.nth}
	add := func(do Do) *candidate {
		c := candidate{Fault: f}
		c.Do = do
		all = append(all, c)
		return &all[len(all)-1]
	}
	if !p.write {
		add(ReadFails)
		add(Pause)
		return all
	}
	add(CrashBefore).like = r.crashLike(i)
	for _, do := range []Do{CrashAfter, Down, LoseRequest, LoseReply, Slow, Pause, Zombie} {
		add(do)
	}
	if p.op == "update" || p.op == "delete" {
		add(Conflict)
	}
	s := r.systemOf(p.system)
	if s.Lease != "" {
		add(LoseLease)
	}
	if s.Lease != "" && p.op == "effect" {
		last := len(r.world.Steps) - p.step + 1
		for n := 1; n <= last; n++ {
			if n <= 2 || n == last { // at once, after the next step, and at the end
				add(Late).N = n
			}
		}
	}
	for _, kind := range s.kinds {
		lag := add(Lag)
		lag.Kind, lag.like = kind, r.lagLike(i, kind)
	}
	// The past begins right before each change that the system can see, the last of which is the write itself.
	now := p.before
	if p.op != "effect" {
		now++
	}
	for v := now; v > 0; v-- {
		if slices.Contains(s.kinds, r.db.log[v-1].kind) {
			add(Travel).N = int(now - (v - 1))
		}
	}
	return all
}

// crashLike returns the crash after the write before, if that is the same as a crash before the write at position i: both are in one
// reconcile, and nobody else has done anything in between. What the process itself did in between dies with it.
func (r *run) crashLike(i int) *Fault {
	p := r.positions[i]
	if p.turn == 0 { // in run mode, reconciles are not told apart
		return nil
	}
	for _, q := range slices.Backward(r.positions[:i]) {
		if q.turn != p.turn {
			return nil
		}
		if !q.write {
			continue
		}
		after := q.before
		if q.op != "effect" {
			after++
		}
		if after != p.before || q.when != p.when {
			return nil
		}
		return &Fault{Do: CrashAfter, System: q.system, Op: q.op, Object: q.object, Nth: q.nth}
	}
	return nil
}

// lagLike returns the earliest lag of a kind that is the same as that from position i on: since then nothing of the kind has
// changed, and nothing has ended a lag.
func (r *run) lagLike(i int, kind string) (like *Fault) {
	p := r.positions[i]
	if p.turn == 0 {
		return nil
	}
	for _, q := range slices.Backward(r.positions[:i]) {
		if q.idle != p.idle {
			break
		}
		if q.system != p.system || !q.write {
			continue
		}
		if slices.ContainsFunc(r.db.log[q.before:p.before], func(c change) bool { return c.kind == kind }) {
			break
		}
		like = &Fault{Do: Lag, System: q.system, Op: q.op, Object: q.object, Nth: q.nth, Kind: kind}
	}
	return like
}

// gaps returns the gaps of a system: each pair of changes of an object, where the second follows the first, or is the last.
func gaps(fair *run, s *system) (faults []Fault) {
	last := make(map[string]int)
	var order []string
	for _, c := range fair.db.after(0, informer.Version(len(fair.db.log))) {
		if !slices.Contains(s.kinds, c.kind) {
			continue
		}
		if last[c.object()] == 0 {
			order = append(order, c.object())
		}
		last[c.object()]++
	}
	for _, object := range order {
		for n := 1; n < last[object]; n++ {
			gap := Fault{Do: Gap, System: s.Name, Object: object, Nth: n, N: n + 1}
			faults = append(faults, gap)
			if n+1 < last[object] {
				gap.N = last[object]
				faults = append(faults, gap)
			}
		}
	}
	return faults
}

// unmet returns why faults of the plan have not happened. With gone, it is because of a name that the world does not have.
func (r *run) unmet() (why []string, gone bool) {
	for i, f := range r.plan {
		if r.hits[i] && f.Do != Lag { // of a kind that no cache holds
			continue
		}
		text, g := r.unmetFault(f)
		if text != "" {
			why, gone = append(why, fmt.Sprintf("%s: %s", f, text)), gone || g
		}
	}
	return why, gone
}

func (r *run) unmetFault(f Fault) (why string, gone bool) {
	if f.Do == Skip || f.Do == Restart {
		if f.Nth > len(r.world.Steps) {
			return fmt.Sprintf("the user takes only %d steps", len(r.world.Steps)), true
		}
		if f.Do == Skip {
			return "", false
		}
	}
	s := r.systemOf(f.System)
	switch {
	case s == nil:
		var names []string
		for _, s := range r.systems {
			names = append(names, s.Name)
		}
		return fmt.Sprintf("there is no system %q, only %s", f.System, strings.Join(names, ", ")), true
	case f.Do == Restart:
		return "the system was down", false
	case f.Do == Lag && !slices.Contains(s.kinds, f.Kind):
		return fmt.Sprintf("%s has no cache of the kind %q", s.Name, f.Kind), true
	case f.Do == Lag && r.hits[slices.Index(r.plan, f)]:
		return "", false
	case f.Do == Gap:
		kind, _, _ := strings.Cut(f.Object, "/")
		return fmt.Sprintf("%s has only %d changes", f.Object, r.events[f.Object]), !slices.Contains(s.kinds, kind)
	}
	ops := make(map[string]bool)
	n := 0
	for _, p := range r.positions {
		if p.system == s.Name && kindOf(p.object, p.op) == kindOf(f.Object, f.Op) {
			ops[p.op+" "+p.object] = true
			if p.op == f.Op && p.object == f.Object {
				n++
			}
		}
	}
	switch {
	case n > 0:
		return fmt.Sprintf("%s does it only %d times", s.Name, n), false
	case len(ops) == 0:
		return fmt.Sprintf("%s never does this, or anything to the kind %q", s.Name, kindOf(f.Object, f.Op)), true
	default:
		names := make([]string, 0, len(ops))
		for name := range ops {
			names = append(names, name)
		}
		slices.Sort(names)
		return fmt.Sprintf("%s never does this, but %s", s.Name, strings.Join(names[:min(len(names), 5)], ", ")), false
	}
}

// kindOf returns the kind of an object at a position: for an effect, its name.
func kindOf(object, op string) string {
	if op == "effect" {
		return object
	}
	kind, _, _ := strings.Cut(object, "/")
	return kind
}
