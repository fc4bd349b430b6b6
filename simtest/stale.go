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

const (
	// fairReconciles and fairTime are how long a cache may lag while a rule is broken. Longer is unfair: real caches catch up.
	fairReconciles = 100
	fairTime       = time.Minute
)

// reading is what a reconcile knows of the stores when it begins, and what it reads itself.
type reading struct {
	// behind are the kinds of which a cache of the process does not show the last change. It is made when a reconcile begins, and then
	// only read.
	behind []staleKind

	mu sync.Mutex
	// mu guards the following.
	live []string // the objects, and kinds, that were read from the store itself
}

// staleKind is a kind of which a cache shows the past.
type staleKind struct {
	kind      string
	seen, now informer.Version
	own       bool // what the cache does not show is, or is followed by, a write of the same system
}

// beginReading begins a reconcile.
func (p *process) beginReading() {
	p.reading.behind = p.reading.behind[:0]
	p.reading.mu.Lock()
	p.reading.live = p.reading.live[:0]
	p.reading.mu.Unlock()
	for _, v := range p.views {
		kind := v.of()
		seen, now := v.version(), p.run.db.last(kind)
		if seen < now {
			own := p.run.lastWrite(p.system.Name, kind)
			p.reading.behind = append(p.reading.behind, staleKind{kind, seen, now, seen < own})
		}
	}
}

// sees notes that the reconcile reads an object, or all of a kind, from the store itself.
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
func (r *run) lastWrite(system, kind string) informer.Version {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wrote[system+" "+kind]
}

// judgeWrite looks whether a write that is about to be made was decided on a view of the past.
func (p *process) judgeWrite(kind, key string, have, next backend.Record, decide backend.Decide) {
	r := p.run
	if p.system.Trusted {
		return
	}
	name, op := nameOf(kind, key), opOf(have, next)
	for _, b := range p.reading.behind {
		suspect := op == "delete" || op == "create" && b.own && b.kind == kind
		if !suspect || p.reading.saw(name, kind) || guarded(have, decide) {
			continue
		}
		about := fmt.Sprintf("%s %s by %s, of %s", op, kind, p.system.Name, b.kind)
		if op == "delete" {
			text := fmt.Sprintf("%s deletes %s, and its cache of %s shows version %d of %d", p.name, name, b.kind, b.seen, b.now)
			r.advise(problem{rule: ruleStaleDelete, about: about, text: text})
			r.note(p.name, "DOUBT it deletes on a view of %s at version %d of %d", b.kind, b.seen, b.now)
			break
		}
		text := fmt.Sprintf("%s creates %s, and its cache of %s shows version %d, before a write of %s itself",
			p.name, name, b.kind, b.seen, p.system.Name)
		r.advise(problem{rule: ruleStaleWrite, about: about, text: text})
		r.note(p.name, "DOUBT it creates on a view of %s at version %d, before its own last write", b.kind, b.seen)
		break
	}
	r.mu.Lock()
	r.wrote[p.system.Name+" "+kind] = r.db.version() + 1
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

// unfair returns why what happens now needs a fault that lasts longer than real ones do. It is empty if that is not so.
func (r *run) unfair() string {
	for p := range r.processes() {
		for _, v := range p.views {
			if text := v.unfair(); text != "" {
				return text
			}
		}
	}
	return ""
}

// unfair returns why the view lags for longer than real caches do, or empty.
func (v *view) unfair() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.frozen {
		return ""
	}
	if n := v.p.run.steps - v.steps0; n > fairReconciles {
		return fmt.Sprintf("only while the cache of %s by %s lags, by then for %d reconciles", v.kind, v.p.name, n)
	}
	if d := time.Since(v.since); d > fairTime {
		return fmt.Sprintf("only while the cache of %s by %s lags, by then for %v", v.kind, v.p.name, d.Round(time.Second))
	}
	return ""
}

// calm begins to count anew how long the systems are busy.
func (r *run) calm() {
	r.mu.Lock()
	r.steps, r.commits = 0, 0
	r.mu.Unlock()
	for p := range r.processes() {
		for _, v := range p.views {
			v.mu.Lock()
			v.steps0 = 0
			v.mu.Unlock()
		}
	}
}

// restless judges a system that does not become quiet. If that needs a cache that lags all the time, or a process that is down, it
// ends that, returns true, and the run goes on.
func (r *run) restless(s *system) bool {
	r.mu.Lock()
	commits := r.commits
	r.mu.Unlock()
	p := problem{rule: ruleChurn, text: fmt.Sprintf("%s does not become quiet: %d reconciles with %d writes, and there is still work",
		s.Name, r.world.MaxReconciles, commits)}
	if commits < r.world.MaxReconciles/100 {
		p.rule = ruleHotLoop
	}
	if unfair := r.unfair(); unfair != "" && r.heal() {
		p.about, p.text = "unfair", p.text+"; "+unfair
		r.advise(p)
		r.calm()
		return true
	}
	r.fail(p.rule, "%s", p.text)
	return false
}
