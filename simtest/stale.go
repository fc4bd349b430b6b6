package simtest

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// While no time passes, this many calls may be made without a write, and this many writes in all, for each reconcile of World.MaxReconciles.
const (
	callsPerReconcile  = 100
	writesPerReconcile = 10
)

// reconcilesToRepair is how many reconciles may follow for each of World.MaxReconciles that went wrong because a cache lagged, or a process was
// down: each may have created an object that several reconciles remove.
const reconcilesToRepair = 5

// reads is what a reconcile could read: the versions of its caches when it began, and what it has read from the store itself.
type reads struct {
	// behind are the kinds of which a cache of the process does not show the last change. It is made when a reconcile begins, and then
	// only read.
	behind []staleKind

	mu sync.Mutex
	// mu guards the following.
	fromStore []string // the objects, and kinds, read from the store itself
}

// staleKind is a kind of which a cache is stale.
type staleKind struct {
	kind      string
	seen, now informer.Version
	own       bool // a write that the cache does not show is, or is followed by, one of the same system
}

// beginReads begins a reconcile.
func (p *process) beginReads(loop, key string) {
	p.note("%s: reconcile %s%s", loop, key, p.staleInputs())
	p.reads.behind = p.reads.behind[:0]
	p.reads.mu.Lock()
	p.reads.fromStore = p.reads.fromStore[:0]
	p.reads.mu.Unlock()
	for _, in := range p.inputs {
		kind := in.kind()
		seen, now := in.version(), p.run.db.lastOf(kind)
		if seen < now {
			own := p.run.lastWrite(p.program.Name, kind)
			p.reads.behind = append(p.reads.behind, staleKind{kind, seen, now, seen < own})
		}
	}
}

// staleInputs returns the versions that the caches of a process have reached, if they are behind.
func (p *process) staleInputs() (text string) {
	now := p.run.db.version()
	for _, in := range p.inputs {
		if seen := in.version(); seen < now {
			text += fmt.Sprintf(" %s@%d", in.kind(), seen)
		}
	}
	if text != "" {
		text = fmt.Sprintf(", seeing%s of %d", text, now)
	}
	return text
}

// note records that the reconcile reads an object, or all of a kind, from the store itself.
func (g *reads) note(name string) {
	if len(g.behind) == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fromStore = append(g.fromStore, name)
}

// has reports whether the reconcile has read one of these from the store itself.
func (g *reads) has(names ...string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, have := range g.fromStore {
		if slices.Contains(names, have) {
			return true
		}
	}
	return false
}

// lastWrite returns the version of the last write of a kind by a system.
func (r *run) lastWrite(system, kind string) informer.Version {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wrote[system+" "+kind]
}

// checkWrite checks whether a write that is about to be made was decided on a stale cache.
func (p *process) checkWrite(kind, key string, have, next backend.Record, decide backend.Decide) {
	r := p.run
	if p.program.Trusted {
		return
	}
	name, op := objectName(kind, key), opOf(have, next)
	for _, b := range p.reads.behind {
		suspect := op == "delete" || op == "create" && b.own && b.kind == kind
		if !suspect || p.reads.has(name, kind) || guarded(have, decide) {
			continue
		}
		about := fmt.Sprintf("%s %s by %s, of %s", op, kind, p.program.Name, b.kind)
		if op == "delete" {
			text := fmt.Sprintf("%s deletes %s, and its cache of %s shows version %d of %d", p.name, name, b.kind, b.seen, b.now)
			r.advise(problem{rule: ruleStaleDelete, about: about, text: text})
			p.note("DOUBT it deletes, and its cache of %s is at version %d of %d", b.kind, b.seen, b.now)
			break
		}
		text := fmt.Sprintf("%s creates %s, and its cache of %s shows version %d, before a write of %s itself",
			p.name, name, b.kind, b.seen, p.program.Name)
		r.advise(problem{rule: ruleStaleWrite, about: about, text: text, creates: name})
		p.note("DOUBT it creates, and its cache of %s is at version %d, before its own last write", b.kind, b.seen)
		break
	}
	r.mu.Lock()
	r.wrote[p.program.Name+" "+kind] = r.db.version() + 1
	r.mu.Unlock()
}

// guarded reports whether a write would be refused if the object had changed: it names the version or the UID.
func guarded(have backend.Record, decide backend.Decide) bool {
	if have.Version == 0 || have.Deleted {
		return false
	}
	other := have
	other.Version++
	if uid := envelopeOf(have).UID; uid != "" {
		other.Meta = bytes.Replace(bytes.Clone(have.Meta), []byte(`"`+uid+`"`), []byte(`"another"`), 1)
	}
	_, err := decide(other)
	return err != nil
}

// unfair returns why the current state needs a fault that lasts longer than real ones, or "" if it does not.
func (r *run) unfair() string {
	for p := range r.processes() {
		if text := p.unfair(); text != "" {
			return text
		}
		for _, in := range p.inputs {
			if text := in.unfair(); text != "" {
				return text
			}
		}
	}
	return ""
}

// calm restarts the count of how long the systems are busy.
func (r *run) calm() {
	r.healed = false
	r.mu.Lock()
	r.reconciles, r.commits = 0, 0
	r.mu.Unlock()
	r.timePasses()
	for p := range r.processes() {
		for _, in := range p.inputs {
			in.calm()
		}
	}
}

// timePasses restarts the counts of what happens while no time passes.
func (r *run) timePasses() {
	r.made.Store(0)
	r.writes.Store(0)
}

// countReconciles counts the reconciles that a process begins. It returns true if they are too many: the system does not become quiet. If
// that needs a lasting lag of a cache, or a process that is down, it ends that fault. Otherwise, the run has failed.
func (r *run) countReconciles(p *process, n int) (tooMany bool) {
	most := r.world.MaxReconciles
	if r.healed {
		most *= reconcilesToRepair
	}
	if r.reconciles += n; r.reconciles <= most {
		return false
	}
	problem := r.neverQuiet(p, most)
	if unfair := r.unfair(); unfair != "" && r.heal() {
		problem.about, problem.text = "unfair", problem.text+"; "+unfair
		r.advise(problem)
		r.catchUp()
		r.calm()
		r.healed = true
	} else {
		r.fail(problem.rule, "%s", problem.text)
	}
	return true
}

// catchUp lets time pass until the caches have everything, for at most fairTime: in run mode, a watch that a fault has broken begins again after a
// while, and systems that are always busy would let no time pass.
func (r *run) catchUp() {
	for end := time.Now().Add(fairTime); time.Now().Before(end); {
		behind := false
		for p := range r.processes() {
			p.driver.deliver()
			behind = behind || slices.ContainsFunc(p.inputs, func(in *input) bool { return in.steps == nil && !in.upToDate() })
		}
		if !behind {
			return
		}
		r.sleep(time.Now().Add(time.Second))
	}
}

// neverQuiet returns what is wrong with a process that has begun too many reconciles and goes on.
func (r *run) neverQuiet(p *process, most int) problem {
	r.mu.Lock()
	commits := r.commits
	r.mu.Unlock()
	broken := ruleChurn
	if commits < most/100 {
		broken = ruleHotLoop
	}
	return problem{rule: broken, text: fmt.Sprintf(
		"%s does not become quiet: %d reconciles with %d writes, and there is still work", p.program.Name, most, commits)}
}

// countCall counts a call. If a process makes call after call, it fails the run and ends the process: neither the reconcile nor the
// part in the background ends otherwise, and no fault with it.
func (p *process) countCall() {
	calls := callsPerReconcile * p.run.world.MaxReconciles
	writes := writesPerReconcile * p.run.world.MaxReconciles
	switch {
	case p.run.made.Add(1) > int64(calls):
		p.run.fail(ruleHotLoop, "%s does not become quiet: %d calls without a write, and there is still work", p.program.Name, calls)
	case p.run.writes.Load() > int64(writes):
		p.run.fail(ruleChurn, "%s does not become quiet: %d writes while no time passes, and there is still work", p.program.Name, writes)
	default:
		return
	}
	p.die("ends: it makes call after call")
	p.enter()
}

// advise records a doubtful action of a run, once for each sort and object that it creates.
func (r *run) advise(p problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.advice, func(q problem) bool { return q.sort() == p.sort() && q.creates == p.creates }) {
		return
	}
	r.advice = append(r.advice, p)
}
