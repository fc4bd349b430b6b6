package sim

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/simtest/internal/database"
	"github.com/setpoint-go/setpoint/simtest/internal/rule"
	"github.com/setpoint-go/setpoint/store/backend"
)

// callsPerReconcile is how many calls may be made for each reconcile that may, if no time passes.
const callsPerReconcile = 100

// reading is the state of the stores that a reconcile knows when it begins, and that it reads itself.
type reading struct {
	// behind are the kinds of which a cache of the process does not show the last change. It is made when a reconcile begins, and then
	// only read.
	behind []staleKind

	mu sync.Mutex
	// mu guards the following.
	live []string // the objects, and kinds, read from the store itself
}

// staleKind is a kind of which a cache is stale.
type staleKind struct {
	kind      string
	seen, now informer.Version
	own       bool // a write that the cache does not show is, or is followed by, one of the same system
}

// beginReading begins a reconcile.
func (p *Process) beginReading(loop, key string) {
	p.Note("%s: reconcile %s%s", loop, key, p.seen())
	p.reading.behind = p.reading.behind[:0]
	p.reading.mu.Lock()
	p.reading.live = p.reading.live[:0]
	p.reading.mu.Unlock()
	for _, v := range p.Views {
		kind := v.Kind()
		seen, now := v.Seen(), p.Run.DB.Last(kind)
		if seen < now {
			own := p.Run.lastWrite(p.Program.Name, kind)
			p.reading.behind = append(p.reading.behind, staleKind{kind, seen, now, seen < own})
		}
	}
}

// seen returns the versions that the caches of a process have reached, if they are behind.
func (p *Process) seen() (text string) {
	now := p.Run.DB.Version()
	for _, v := range p.Views {
		if seen := v.Seen(); seen < now {
			text += fmt.Sprintf(" %s@%d", v.Kind(), seen)
		}
	}
	if text != "" {
		text = fmt.Sprintf(", seeing%s of %d", text, now)
	}
	return text
}

// sees records that the reconcile reads an object, or all of a kind, from the store itself.
func (g *reading) sees(name string) {
	if len(g.behind) == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.live = append(g.live, name)
}

// saw reports whether the reconcile has read one of these from the store itself.
func (g *reading) saw(names ...string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, have := range g.live {
		if slices.Contains(names, have) {
			return true
		}
	}
	return false
}

// lastWrite returns the version of the last write of a kind by a system.
func (r *Run) lastWrite(system, kind string) informer.Version {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wrote[system+" "+kind]
}

// judgeWrite checks whether a write that is about to be made was decided on a stale view.
func (p *Process) judgeWrite(kind, key string, have, next backend.Record, decide backend.Decide) {
	r := p.Run
	if p.Program.Trusted {
		return
	}
	name, op := database.Name(kind, key), database.OpOf(have, next)
	for _, b := range p.reading.behind {
		suspect := op == "delete" || op == "create" && b.own && b.kind == kind
		if !suspect || p.reading.saw(name, kind) || guarded(have, decide) {
			continue
		}
		about := fmt.Sprintf("%s %s by %s, of %s", op, kind, p.Program.Name, b.kind)
		if op == "delete" {
			text := fmt.Sprintf("%s deletes %s, and its cache of %s shows version %d of %d", p.Name, name, b.kind, b.seen, b.now)
			r.advise(rule.Problem{Rule: rule.StaleDelete, About: about, Text: text})
			p.Note("DOUBT it deletes on a view of %s at version %d of %d", b.kind, b.seen, b.now)
			break
		}
		text := fmt.Sprintf("%s creates %s, and its cache of %s shows version %d, before a write of %s itself",
			p.Name, name, b.kind, b.seen, p.Program.Name)
		r.advise(rule.Problem{Rule: rule.StaleWrite, About: about, Text: text})
		p.Note("DOUBT it creates on a view of %s at version %d, before its own last write", b.kind, b.seen)
		break
	}
	r.mu.Lock()
	r.wrote[p.Program.Name+" "+kind] = r.DB.Version() + 1
	r.mu.Unlock()
}

// guarded reports whether a write would be refused if the object had changed: it names the version or the UID.
func guarded(have backend.Record, decide backend.Decide) bool {
	if have.Version == 0 || have.Deleted {
		return false
	}
	other := have
	other.Version++
	if uid := database.EnvelopeOf(have).UID; uid != "" {
		other.Meta = bytes.Replace(bytes.Clone(have.Meta), []byte(`"`+uid+`"`), []byte(`"another"`), 1)
	}
	_, err := decide(other)
	return err != nil
}

// unfair returns why the current state needs a fault that lasts longer than real ones, or "" if it does not.
func (r *Run) unfair() string {
	for p := range r.Processes() {
		if text := p.unfair(); text != "" {
			return text
		}
		for _, v := range p.Views {
			if text := v.Unfair(); text != "" {
				return text
			}
		}
	}
	return ""
}

// calm restarts the count of how long the systems are busy.
func (r *Run) calm() {
	r.mu.Lock()
	r.reconciles, r.commits = 0, 0
	r.mu.Unlock()
	r.made.Store(0)
	for p := range r.Processes() {
		for _, v := range p.Views {
			v.Calm()
		}
	}
}

// Count counts the reconciles that a process begins. If they are too many, it judges that the system does not become quiet, and over is
// true. If that needs a lasting lag of a cache, or a process that is down, Count ends that fault, returns again, and the run continues.
func (r *Run) Count(p *Process, n int) (over, again bool) {
	if r.reconciles += n; r.reconciles <= r.World.MaxReconciles {
		return false, false
	}
	problem := r.neverQuiet(p, "reconciles", r.World.MaxReconciles)
	if unfair := r.unfair(); unfair != "" && r.heal() {
		problem.About, problem.Text = "unfair", problem.Text+"; "+unfair
		r.advise(problem)
		r.calm()
		return true, true
	}
	r.Fail(problem.Rule, "%s", problem.Text)
	return true, false
}

// neverQuiet returns what is wrong with a process that has done something n times and goes on.
func (r *Run) neverQuiet(p *Process, what string, n int) rule.Problem {
	r.mu.Lock()
	commits := r.commits
	r.mu.Unlock()
	broken := rule.Churn
	if commits < n/100 {
		broken = rule.HotLoop
	}
	return rule.Problem{Rule: broken, Text: fmt.Sprintf(
		"%s does not become quiet: %d %s with %d writes, and there is still work", p.Program.Name, n, what, commits)}
}

// countCall counts a call. If a process makes call after call, it judges the system and ends the process: neither the reconcile nor the
// part in the background ends otherwise, and no fault with it.
func (p *Process) countCall() {
	most := callsPerReconcile * p.Run.World.MaxReconciles
	if p.Run.made.Add(1) <= int64(most) {
		return
	}
	problem := p.Run.neverQuiet(p, "calls", most)
	p.Run.Fail(problem.Rule, "%s", problem.Text)
	p.Die("ends: it makes call after call")
	p.enter()
}

// Reconciles is how many reconciles there were since the last step of the user, or since the end of a fault.
func (r *Run) Reconciles() int { return r.reconciles }

// advise records a doubtful action of a run, once for each sort.
func (r *Run) advise(p rule.Problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.advice, func(q rule.Problem) bool { return q.Sort() == p.Sort() }) {
		return
	}
	r.advice = append(r.advice, p)
}
