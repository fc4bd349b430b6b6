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
			p.importEffects(call)
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

// importEffects gets the fact about the function that a call calls.
func (p *program) importEffects(call *ast.CallExpr) {
	obj := p.static(call)
	if obj == nil || obj.Pkg() == nil || obj.Pkg() == p.pass.Pkg {
		return
	}
	if have := new(effects); p.others[obj] == nil && p.pass.ImportObjectFact(obj, have) {
		p.others[obj] = have
	}
}

// imported returns the effects of a function of another package of the module, or nil if it has none.
func (p *program) imported(call *ast.CallExpr) *effects {
	if obj := p.static(call); obj != nil {
		return p.others[obj]
	}
	return nil
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
	merge := func(of *effects, guarded bool) {
		e.Context = cmp.Or(e.Context, of.Context)
		e.Blocks = cmp.Or(e.Blocks, of.Blocks)
		e.IO = cmp.Or(e.IO, of.IO)
		if !guarded {
			e.SQL = cmp.Or(e.SQL, of.SQL)
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
		if of := p.imported(call); of != nil && !p.apart(call) {
			merge(of, p.guarded(f))
			e.Unguarded = cmp.Or(e.Unguarded, of.Unguarded)
		}
	}
	*f.effects = e
	return f.effects
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
		if e := p.imported(call); e != nil && !p.apart(call) && text(e) != "" && !p.reportedEffects[text(e)] && !p.ignored(call.Pos(), p.check.name) {
			p.reportedEffects[text(e)] = true
			sites = append(sites, site{call, p.callee(call).String() + " (" + text(e) + ")"})
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
