package vet

import (
	"cmp"
	"go/ast"
	"go/types"
	"strings"
)

// effects is the fact about a function of the module under analysis: what it does to the one that calls it, by itself or through others.
// Each text says what and where, for people: "time.Sleep at poll.go:12".
type effects struct {
	Context string // hands a context without the leader to a call
	Blocks  string // sleeps or waits
	IO      string // does I/O
	SQL     string // writes by SQL without a guard
	Saves   string // writes an object, and returns the error

	// Unguarded is where a reconcile writes by SQL without a guard, whose controller the function makes.
	Unguarded string

	Writes uint64 // one bit for each parameter through which it writes; the lowest one is the receiver, if there is one
}

func (*effects) AFact() {}

func (e *effects) String() string {
	return "context: " + e.Context + ", blocks: " + e.Blocks + ", I/O: " + e.IO + ", SQL: " + e.SQL
}

// site is a place in a function that has an effect.
type site struct {
	at   ast.Node
	what string // "time.Sleep"
}

// follow computes what the functions of this package do, and makes facts of it. Afterward, the program does not change, since the analyzers
// run concurrently.
func (p *program) follow() {
	for _, f := range p.funcs {
		for _, call := range f.calls {
			if obj := p.static(call); obj != nil {
				p.importEffects(obj)
			}
			for _, t := range p.runs[call] {
				p.importEffects(t.other)
			}
		}
	}
	for _, f := range p.funcs {
		p.writesOf(f)
		if e := p.effectsOf(f); f.obj != nil && *e != (effects{}) && !library(p.pass.Pkg.Path()) { // whose documentation says what it does
			p.pass.ExportObjectFact(f.obj, e)
		}
	}
}

// library reports whether a package belongs to setpoint itself, and is not an example.
func library(path string) bool {
	return strings.HasPrefix(path, module) && !strings.HasPrefix(path, module+"examples/")
}

// importEffects gets the fact about a function of another package.
func (p *program) importEffects(obj *types.Func) {
	if obj == nil || obj.Pkg() == nil || obj.Pkg() == p.pass.Pkg {
		return
	}
	if have := new(effects); p.others[obj] == nil && p.pass.ImportObjectFact(obj, have) {
		p.others[obj] = have
	}
}

// imported returns the effects of the function of another package of the module that a call names, or nil if it has none.
func (p *program) imported(call *ast.CallExpr) *effects {
	if obj := p.static(call); obj != nil {
		return p.others[p.implementation(obj)]
	}
	return nil
}

// importedBy returns the effects of the functions of other packages of the module that run when a call does.
func (p *program) importedBy(call *ast.CallExpr) (all []*effects) {
	for _, t := range p.runs[call] {
		if e := p.others[t.other]; e != nil {
			all = append(all, e)
		}
	}
	return all
}

// saves reports whether a call writes an object and returns the error, by itself or through others.
func (p *program) saves(call *ast.CallExpr) bool {
	if p.isWrite(call) {
		return true
	}
	if !p.returnsError(call) {
		return false
	}
	if own := p.own(call); own != nil {
		return p.effectsOf(own).Saves != ""
	}
	e := p.imported(call)
	return e != nil && e.Saves != ""
}

// effectsOf returns the effects of a function of this package.
func (p *program) effectsOf(f *fn) *effects {
	if f.effects != nil {
		return f.effects // without those of a cycle, which it is a part of
	}
	f.effects = new(effects)
	e := effects{Writes: p.writesOf(f).params}
	first := func(text *string, analyzer string, sites []site) {
		for _, s := range sites {
			if *text == "" && !p.ignored(s.at.Pos(), analyzer) {
				*text = s.what + " at " + p.place(s.at.Pos())
			}
		}
	}
	first(&e.Context, "leadercontext", p.leaderless(f))
	first(&e.Blocks, "blocking", p.blocks(f))
	first(&e.IO, "blocking", p.io(f))
	first(&e.SQL, "unguarded", p.sqlWrites(f))
	fails := f.returnsError()
	if fails {
		first(&e.Saves, "swallowed", p.saving(f))
	}
	merge := func(of *effects, guarded bool) {
		e.Context = cmp.Or(e.Context, of.Context)
		e.Blocks = cmp.Or(e.Blocks, of.Blocks)
		e.IO = cmp.Or(e.IO, of.IO)
		if !guarded {
			e.SQL = cmp.Or(e.SQL, of.SQL)
		}
		if fails {
			e.Saves = cmp.Or(e.Saves, of.Saves)
		}
	}
	for _, next := range p.next(f) {
		merge(p.effectsOf(next), p.guarded(f) || p.guarded(next))
		e.Unguarded = cmp.Or(e.Unguarded, p.effectsOf(next).Unguarded)
	}
	for _, call := range f.calls {
		if p.callee(call).of("controller", "New") && len(call.Args) > 1 {
			if made := p.function(call.Args[1]); made != nil {
				e.Unguarded = cmp.Or(e.Unguarded, p.effectsOf(made).SQL)
			}
		}
		for _, of := range p.importedBy(call) {
			merge(of, p.guarded(f))
			e.Unguarded = cmp.Or(e.Unguarded, of.Unguarded)
		}
	}
	*f.effects = e
	return f.effects
}

// returnsError reports whether the last result of f is an error.
func (f *fn) returnsError() bool {
	results := f.sig.Results()
	return results.Len() > 0 && isError(results.At(results.Len()-1).Type())
}

// saving returns the calls in f that write objects.
func (p *program) saving(f *fn) (sites []site) {
	for _, call := range f.calls {
		if p.isWrite(call) {
			sites = append(sites, site{call, p.callee(call).String()})
		}
	}
	return sites
}

// apart reports whether a call is the one of a go statement.
func (p *program) apart(call *ast.CallExpr) bool {
	_, ok := p.parents[call].(*ast.GoStmt)
	return ok
}

// callsWith returns the calls in f of functions of other packages of the module that have an effect, one for each place of an effect: it is
// one mistake, however often it is called.
func (p *pass) callsWith(f *fn, text func(*effects) string) (sites []site) {
	for _, call := range f.calls {
		for _, t := range p.runs[call] {
			e := p.others[t.other]
			if e == nil || text(e) == "" || p.reportedEffects[text(e)] || p.ignored(call.Pos(), p.check.name) {
				continue
			}
			p.reportedEffects[text(e)] = true
			sites = append(sites, site{call, nameOf(t.other).String() + " (" + text(e) + ")"})
		}
	}
	return sites
}

// asksAPIServer reports whether a call reads: by the types of its parameters, a method of a typed client of Kubernetes sends a request.
func (p *program) asksAPIServer(call *ast.CallExpr) bool {
	sig, _ := p.info.TypeOf(call.Fun).(*types.Signature)
	if sig == nil || !p.takesContext(call) {
		return false
	}
	for v := range sig.Params().Variables() {
		if isType(v.Type(), "k8s.io/apimachinery/pkg/apis/meta/v1", "GetOptions", "ListOptions") {
			return true
		}
	}
	return false
}
