package vet

import (
	"go/ast"
	"go/types"
	"strings"
)

func leadercontext(p *pass) {
	for _, f := range p.reached(reconcile, step) {
		for _, s := range p.leaderless(f) {
			if s.what == "context.WithoutCancel" {
				p.report(s.at, "%s keeps this call of a reconcile running after its timeout, and delays the stop: pass the context of the reconcile", s.what)
				continue
			}
			p.report(s.at, "%s lets this call of a reconcile go on without its fence, its deadline, and the stop: pass the context of the reconcile", s.what)
		}
		for _, s := range p.callsWith(f, func(e *effects) string { return e.Context }) {
			p.report(s.at, "%s goes on without the fence, the deadline, and the stop of the reconcile: pass it the context of the reconcile", s.what)
		}
	}
}

// leaderless returns the places in f where a context that is not that of the caller is made and handed to a call.
func (p *program) leaderless(f *fn) (sites []site) {
	for _, call := range f.calls {
		n := p.callee(call)
		if n.in("context", "Background", "TODO", "WithoutCancel") && p.handed(f, call, n.name == "WithoutCancel", make(map[types.Object]bool)) {
			sites = append(sites, site{call, n.String()})
		}
	}
	return sites
}

// handed reports whether a context is an argument of a call, by itself, through a variable, or through a context that is made of it. A
// context without a cancellation that gets a timeout of its own is the way to clean up, and is left out. So is a context for a goroutine, or for a
// field: of an object that goes on after the reconcile, and has an end of its own.
func (p *program) handed(f *fn, e ast.Expr, uncanceled bool, seen map[types.Object]bool) bool {
	switch parent := p.parents[e].(type) {
	case *ast.ParenExpr:
		return p.handed(f, parent, uncanceled, seen)
	case *ast.CallExpr:
		switch {
		case p.callee(parent).in("os/exec", "CommandContext") && !p.waitsForProcess(f): // of a process that goes on
			return false
		case parent.Fun == e || p.apart(parent) || p.readsOnly(parent) || uncanceled && p.limits(parent):
			return false
		case p.callee(parent).pkg == "context":
			return p.handed(f, parent, uncanceled, seen)
		}
		return true
	case *ast.AssignStmt:
		for i, rhs := range parent.Rhs {
			if rhs == e { // if there is one value and two variables, the first one is the context
				if id, ok := parent.Lhs[i].(*ast.Ident); ok {
					return p.passed(f, p.info.ObjectOf(id), uncanceled, seen)
				}
			}
		}
	case *ast.ValueSpec:
		for i, value := range parent.Values {
			if value == e && i < len(parent.Names) {
				return p.passed(f, p.info.ObjectOf(parent.Names[i]), uncanceled, seen)
			}
		}
	}
	return false
}

// passed reports whether a variable is an argument of a call in f, or in a literal in it, that may do something with a context.
func (p *program) passed(f *fn, obj types.Object, uncanceled bool, seen map[types.Object]bool) bool {
	if seen[obj] {
		return false
	}
	seen[obj] = true
	passed, limited := false, false
	for _, call := range f.everyCall() {
		for _, arg := range call.Args {
			id, ok := ast.Unparen(arg).(*ast.Ident)
			if !ok || p.info.Uses[id] != obj || p.readsOnly(call) || p.apart(call) || p.inApart(call, f) {
				continue
			}
			limited = limited || p.limits(call)
			passed = passed || p.callee(call).pkg != "context" || p.handed(f, call, uncanceled, seen)
		}
	}
	return passed && !(uncanceled && limited)
}

// limits reports whether a call gives a context a deadline.
func (p *program) limits(call *ast.CallExpr) bool {
	return p.callee(call).in("context", "WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause")
}

// readsOnly reports whether a call takes a context for its values alone, as logs and metrics do.
func (p *program) readsOnly(call *ast.CallExpr) bool {
	n := p.callee(call)
	return p.isLog(call) || strings.HasPrefix(n.pkg, "go.opentelemetry.io/") || strings.HasSuffix(n.pkg, "/log") ||
		strings.HasPrefix(n.pkg, "go.opencensus.io/") || n.in("context", "WithValue", "AfterFunc") || n.pkg == "log/slog" ||
		strings.HasSuffix(n.name, "FromContext") || strings.HasSuffix(n.name, "IntoContext") || strings.HasPrefix(n.name, "LoggerFrom")
}
