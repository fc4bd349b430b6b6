package orchestrator

import (
	"cmp"
	"slices"

	"github.com/setpoint-go/setpoint/examples/webapp/machine"
)

// plan is the next step of a deployment toward its spec.
type plan struct {
	start int      // replicas of the spec's revision to start
	stop  []string // replicas to stop gracefully, by ID
	kill  []string // replicas that hang, and would not react to a milder signal
}

// planFor compares the desired state with the actual one. No step leaves fewer than N-1 replicas ready, or none if one
// is ready. While an older revision is replaced, there is at most one replica above N.
func planFor(spec DeploymentSpec, replicas []machine.Replica) plan {
	var p plan
	var current, old []machine.Replica
	ready := 0
	for _, r := range replicas {
		switch {
		case r.State == machine.Draining || r.State == machine.Stopping:
			// It is ending and counts as gone.
		case r.State == machine.Unhealthy:
			p.kill = append(p.kill, r.ID)
		case r.Revision == spec.Revision():
			current = append(current, r)
		default:
			old = append(old, r)
		}
		if r.State == machine.Ready {
			ready++
		}
	}
	// The most dispensable first: those that are not ready, then the youngest.
	for _, rs := range [][]machine.Replica{current, old} {
		slices.SortFunc(rs, func(a, b machine.Replica) int {
			return cmp.Or(
				cmp.Compare(count(a.State == machine.Ready), count(b.State == machine.Ready)),
				b.Created.Compare(a.Created),
				cmp.Compare(a.ID, b.ID),
			)
		})
	}

	surge := 0
	if len(old) > 0 {
		surge = 1
	}
	p.start = max(0, min(spec.Replicas-len(current), spec.Replicas+surge-len(current)-len(old)))

	floor := 0 // the number of ready replicas below which an old one stays until a new one has replaced it
	if spec.Replicas > 0 {
		floor = max(1, spec.Replicas-1)
	}
	for _, r := range old {
		if r.State == machine.Ready {
			if ready <= floor {
				continue
			}
			ready--
		}
		p.stop = append(p.stop, r.ID)
	}
	for _, r := range current[:max(0, len(current)-spec.Replicas)] {
		if r.State == machine.Ready {
			if ready <= floor {
				continue
			}
			ready--
		}
		p.stop = append(p.stop, r.ID)
	}
	return p
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
