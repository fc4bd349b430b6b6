package vet

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

// expected are the calls in a function about expectations of one kind: of creations, or of deletions.
type expected struct {
	kind            string // "Creation" or "Deletion"
	raised, lowered []*ast.CallExpr
	failed          []*ast.CallExpr // of lowered, those that follow an error
}

func expectation(p *pass) {
	for _, f := range p.funcs {
		calls := f.everyCall()
		acts := slices.DeleteFunc(slices.Clone(calls), func(call *ast.CallExpr) bool { return !p.acts(call) })
		if len(acts) == 0 {
			continue
		}
		begun := slices.ContainsFunc(calls, func(call *ast.CallExpr) bool { return p.expects(call) && p.callee(call).name == "Begin" })
		for _, kind := range []string{"Creation", "Deletion"} {
			e := p.expected(calls, kind)
			if len(e.raised) == 0 {
				continue
			}
			raise := e.raised[0]
			if act := p.comesLate(f, acts, e); act != nil {
				if !begun { // or else events in between are remembered
					p.report(raise, "the event of %s can arrive before this expectation, which then waits for it until its TTL: expect first, then write", p.callee(act))
				}
			} else if f.sig.Results().Len() > 0 && acts[len(acts)-1].Pos() > raise.Pos() && !p.lowers(f, kind) {
				p.report(raise, "if the write fails, no event comes, and the reconcile waits until the TTL of this expectation: lower it when the write returns an error")
			}
		}
	}
}

// expected returns which of the calls are about expectations of a kind.
func (p *pass) expected(calls []*ast.CallExpr, kind string) expected {
	e := expected{kind: kind}
	for _, call := range calls {
		if !p.expects(call) {
			continue
		}
		switch p.callee(call).name {
		case "Expect" + kind + "s", "SetExpectations", "RaiseExpectations":
			e.raised = append(e.raised, call)
		case kind + "Observed", "LowerExpectations":
			if p.afterError(call) {
				e.failed = append(e.failed, call)
			}
			e.lowered = append(e.lowered, call)
		case "DeleteExpectations":
			e.lowered = append(e.lowered, call)
		}
	}
	return e
}

// lowers reports whether f, or a function of this package that it calls, lowers expectations of a kind.
func (p *pass) lowers(f *fn, kind string) bool {
	return slices.ContainsFunc(p.reachedFrom(f), func(f *fn) bool { return len(p.expected(f.everyCall(), kind).lowered) > 0 })
}

// comesLate returns an act that comes before its expectation, or nil. It does in four cases: it creates or deletes an object, its failure lowers
// an expectation that is raised later, the expectation stands between the act and the check of its error, or nothing that could be expected follows.
func (p *pass) comesLate(f *fn, acts []*ast.CallExpr, e expected) (act *ast.CallExpr) {
	raise := e.raised[0]
	for i, a := range acts {
		isWrite := p.isWrite(a) && strings.HasPrefix(p.callee(a).name, map[string]string{"Creation": "Create", "Deletion": "Delete"}[e.kind])
		isLast := i == len(acts)-1 && len(e.lowered) == 0
		if a.Pos() < raise.Pos() && (isWrite || isLast) && p.sameLoop(a, raise) {
			return a
		}
	}
	for _, lower := range e.failed {
		before := slices.DeleteFunc(slices.Clone(acts), func(a *ast.CallExpr) bool { return a.Pos() > lower.Pos() })
		if lower.Pos() < raise.Pos() && len(before) > 0 && p.inLoopsOf(raise, lower) {
			return before[len(before)-1]
		}
		if branch := p.errorBranch(lower); branch != nil {
			act := p.origin(f, branch, p.failing(branch.Cond))
			if act != nil && p.acts(act) && act.Pos() < raise.Pos() && raise.End() < branch.Pos() && p.sameLoop(act, raise) {
				return act
			}
		}
	}
	return nil
}

// acts reports whether a call may do something of which an event tells: it may fail, takes a context, and does not read.
func (p *pass) acts(call *ast.CallExpr) bool {
	if !p.takesContext(call) || !p.returnsError(call) || p.expects(call) {
		return false
	}
	name := strings.ToLower(p.callee(call).name)
	return !slices.ContainsFunc([]string{"get", "list", "read", "find", "fetch", "load", "wait", "patch", "update"}, func(verb string) bool {
		return strings.HasPrefix(name, verb)
	})
}

// afterError reports whether a node is in the branch of an error.
func (p *pass) afterError(n ast.Node) bool { return p.errorBranch(n) != nil }

// errorBranch returns the innermost if statement around a node whose condition is that of an error, or nil.
func (p *pass) errorBranch(n ast.Node) *ast.IfStmt {
	for at := n; at != nil; at = p.parents[at] {
		if branch, ok := at.(*ast.IfStmt); ok && p.failing(branch.Cond) != nil && within(n, branch.Body) {
			return branch
		}
	}
	return nil
}

// everyCall returns the calls in f and in the literals in it, in the order of the source.
func (f *fn) everyCall() []*ast.CallExpr {
	calls := slices.Clone(f.calls)
	for _, lit := range f.inner {
		calls = append(calls, lit.everyCall()...)
	}
	slices.SortFunc(calls, func(a, b *ast.CallExpr) int { return int(a.Pos() - b.Pos()) })
	return calls
}

// expects reports whether a call is one of a method of counted or tracked expectations: those of this library, or of a type with the
// method names of client-go's controllers.
func (p *pass) expects(call *ast.CallExpr) bool {
	f := p.static(call)
	if f == nil || f.Signature().Recv() == nil {
		return false
	}
	recv := f.Signature().Recv().Type()
	creations, _, _ := types.LookupFieldOrMethod(recv, true, f.Pkg(), "ExpectCreations")
	observed, _, _ := types.LookupFieldOrMethod(recv, true, f.Pkg(), "CreationObserved")
	return creations != nil && observed != nil
}

// sameLoop reports whether two nodes stand in the same loops, so that the order in the source is the order in time.
func (p *pass) sameLoop(a, b ast.Node) bool { return slices.Equal(p.loops(a), p.loops(b)) }

// inLoopsOf reports whether all loops of outer are also those of inner: so inner has come first if it stands first.
func (p *pass) inLoopsOf(outer, inner ast.Node) bool {
	around, all := p.loops(outer), p.loops(inner)
	return len(around) <= len(all) && slices.Equal(around, all[len(all)-len(around):])
}

// loops returns the loops and the literals around a node, from the inside.
func (p *pass) loops(n ast.Node) (loops []ast.Node) {
	for ; n != nil; n = p.parents[n] {
		switch n.(type) {
		case *ast.ForStmt, *ast.RangeStmt, *ast.FuncLit:
			loops = append(loops, n)
		}
	}
	return loops
}
