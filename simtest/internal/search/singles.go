package search

import (
	"slices"

	"github.com/setpoint-go/setpoint/simtest/internal/database"
	"github.com/setpoint-go/setpoint/simtest/internal/fault"
	"github.com/setpoint-go/setpoint/simtest/internal/sim"
)

// Single is a fault that can happen to the run without faults.
type Single struct {
	fault.Fault
	Like *fault.Fault // an earlier one whose run does not differ in anything that counts; nil if there is none
}

// Singles returns every fault that can happen to the run without faults.
func Singles(fair *sim.Run) (all []Single) {
	for i := range fair.Positions() {
		all = append(all, faultsAt(fair, i)...)
	}
	for _, s := range fair.Programs {
		if s.Trusted {
			continue
		}
		for step := 1; step <= len(fair.World.Steps); step++ {
			all = append(all, Single{Fault: fault.Fault{Do: fault.Restart, System: s.Name, Nth: step}})
		}
		for _, gap := range gaps(fair, s) {
			all = append(all, Single{Fault: gap})
		}
	}
	return all
}

// faultsAt returns the faults at position i of the run without faults.
func faultsAt(r *sim.Run, i int) (all []Single) {
	p := r.Positions()[i]
	f := fault.Fault{System: p.System, Op: p.Op, Object: p.Object, Nth: p.Nth}
	add := func(do string) *Single {
		c := Single{Fault: f}
		c.Do = do
		all = append(all, c)
		return &all[len(all)-1]
	}
	if !p.Write {
		add(fault.ReadFails)
		add(fault.Pause)
		return all
	}
	add(fault.CrashBefore).Like = crashLike(r, i)
	for _, do := range []string{fault.CrashAfter, fault.Down, fault.LoseRequest, fault.LoseReply, fault.Slow, fault.Pause, fault.Zombie} {
		add(do)
	}
	if p.Op == "update" || p.Op == "delete" {
		add(fault.Conflict)
	}
	s := r.Program(p.System)
	if s.Lease != "" {
		add(fault.LoseLease)
	}
	if s.Lease != "" && p.Op == "effect" {
		last := len(r.World.Steps) - p.Step + 1
		for n := 1; n <= last; n++ {
			if n <= 2 || n == last { // at once, after the next step, and at the end
				add(fault.Late).N = n
			}
		}
	}
	if s.Lease != "" {
		add(fault.Regain)
	}
	for _, kind := range s.Kinds {
		lag := add(fault.Lag)
		lag.Kind, lag.Like = kind, lagLike(r, i, kind)
	}
	for _, kind := range s.Partly() {
		add(fault.Cold).Kind = kind
	}
	// The past begins right before each change that the system can see, the last of which is the write itself.
	now := p.Before
	if p.Op != "effect" {
		now++
	}
	for v := now; v > 0; v-- {
		if slices.Contains(s.Kinds, r.DB.After(v-1, v)[0].Kind) {
			add(fault.Travel).N = int(now - (v - 1))
		}
	}
	return all
}

// crashLike returns the crash after the previous write, if that is the same as a crash before the write at position i: both are in one
// reconcile, and no other actor has done anything in between. The work of the process itself in between is lost with it.
func crashLike(r *sim.Run, i int) *fault.Fault {
	p := r.Positions()[i]
	if p.Turn == 0 { // in run mode, reconciles are not told apart
		return nil
	}
	for _, q := range slices.Backward(r.Positions()[:i]) {
		if q.Turn != p.Turn {
			return nil
		}
		if !q.Write {
			continue
		}
		after := q.Before
		if q.Op != "effect" {
			after++
		}
		if after != p.Before || q.When != p.When {
			return nil
		}
		return &fault.Fault{Do: fault.CrashAfter, System: q.System, Op: q.Op, Object: q.Object, Nth: q.Nth}
	}
	return nil
}

// lagLike returns the earliest lag of a kind that is the same as the one from position i on: in between, nothing of the kind has changed,
// and nothing has ended a lag.
func lagLike(r *sim.Run, i int, kind string) (like *fault.Fault) {
	p := r.Positions()[i]
	if p.Turn == 0 {
		return nil
	}
	for _, q := range slices.Backward(r.Positions()[:i]) {
		if q.Idle != p.Idle {
			break
		}
		if q.System != p.System || !q.Write {
			continue
		}
		if slices.ContainsFunc(r.DB.After(q.Before, p.Before), func(c *database.Change) bool { return c.Kind == kind }) {
			break
		}
		like = &fault.Fault{Do: fault.Lag, System: q.System, Op: q.Op, Object: q.Object, Nth: q.Nth, Kind: kind}
	}
	return like
}

// gaps returns the gaps of a system: each pair of changes of an object, where the second follows the first, or is the last.
func gaps(fair *sim.Run, s *sim.Program) (faults []fault.Fault) {
	last := make(map[string]int)
	var order []string
	for _, c := range fair.DB.After(0, fair.Version()) {
		if !slices.Contains(s.Kinds, c.Kind) {
			continue
		}
		if last[c.Object] == 0 {
			order = append(order, c.Object)
		}
		last[c.Object]++
	}
	for _, object := range order {
		for n := 1; n < last[object]; n++ {
			gap := fault.Fault{Do: fault.Gap, System: s.Name, Object: object, Nth: n, N: n + 1}
			faults = append(faults, gap)
			if n+1 < last[object] {
				gap.N = last[object]
				faults = append(faults, gap)
			}
		}
	}
	return faults
}
