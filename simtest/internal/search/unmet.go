package search

import (
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-go/setpoint/simtest/internal/fault"
	"github.com/setpoint-go/setpoint/simtest/internal/sim"
)

// unmet returns why faults of the plan of a run have not happened. gone is true if the reason is a name that is not in the world.
func unmet(r *sim.Run) (why []string, gone bool) {
	for i, f := range r.Plan {
		if r.Hit(i) && f.Kind == "" { // no cache may hold the kind
			continue
		}
		text, g := unmetFault(r, f)
		if text != "" {
			why, gone = append(why, fmt.Sprintf("%s: %s", f, text)), gone || g
		}
	}
	return why, gone
}

func unmetFault(r *sim.Run, f fault.Fault) (why string, gone bool) {
	if f.Do == fault.Skip || f.Do == fault.Restart {
		if f.Nth > len(r.World.Steps) {
			return fmt.Sprintf("the user takes only %d steps", len(r.World.Steps)), true
		}
		if f.Do == fault.Skip {
			return "", false
		}
	}
	s := r.Program(f.System)
	switch {
	case s == nil:
		var names []string
		for _, s := range r.Programs {
			names = append(names, s.Name)
		}
		return fmt.Sprintf("there is no system %q, only %s", f.System, strings.Join(names, ", ")), true
	case f.Do == fault.Restart:
		return "the system was down", false
	case f.Kind != "" && !slices.Contains(s.Kinds, f.Kind):
		return fmt.Sprintf("%s has no cache of the kind %q", s.Name, f.Kind), true
	case f.Kind != "" && r.Hit(slices.Index(r.Plan, f)):
		return "", false
	case f.Do == fault.Gap:
		kind, _, _ := strings.Cut(f.Object, "/")
		return fmt.Sprintf("%s has only %d changes", f.Object, r.Changes(f.Object)), !slices.Contains(s.Kinds, kind)
	}
	ops := make(map[string]bool)
	n := 0
	for _, p := range r.Positions() {
		if p.System == s.Name && kindOf(p.Object, p.Op) == kindOf(f.Object, f.Op) {
			ops[p.Op+" "+p.Object] = true
			if p.Op == f.Op && p.Object == f.Object {
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
