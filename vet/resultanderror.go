package vet

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
	"time"
)

func resultanderror(p *pass) {
	for _, f := range p.funcs {
		results := f.sig.Results()
		if results.Len() != 2 || !isResult(results.At(0).Type()) || !isError(results.At(1).Type()) {
			continue
		}
		var spins []ast.Node
		ends := false
		f.walk(func(n ast.Node) bool {
			ret, ok := n.(*ast.ReturnStmt)
			if !ok || len(ret.Results) != 2 {
				ends = ends || ok
				return true
			}
			lit, ok := ast.Unparen(ret.Results[0]).(*ast.CompositeLit)
			switch {
			case p.isNil(ret.Results[1]) && ok && p.requeues(lit):
				spins = append(spins, ret)
			case p.isNil(ret.Results[1]):
				ends = ends || !p.ofAbsent(ret)
			case ok && asks(lit) && p.failed(ret, ret.Results[1]):
				p.report(ret.Results[0], "this delay is ignored, because an error is returned beside it: return the delay alone, or an error that carries it (retry.After)")
			}
			return true
		})
		if f.role == reconcile && (f.name == "Reconcile" || f.made != nil) && !ends && len(spins) > 0 {
			p.report(spins[0], "each success requests the next reconcile at once, so the reconcile runs in a loop even if nothing changes: return an empty result when nothing is left to do")
		}
	}
}

// asks reports whether a Result requests something.
func asks(lit *ast.CompositeLit) bool {
	for _, name := range []string{"RequeueAfter", "Requeue"} {
		value := field(lit, name)
		if value == nil {
			continue
		}
		if text := types.ExprString(value); text != "0" && text != "false" {
			return true
		}
	}
	return false
}

// requeues reports whether a Result says that the key is ready again at once. One such return among others may be right, such as after a
// conflict.
func (p *pass) requeues(lit *ast.CompositeLit) bool {
	if delay := field(lit, "RequeueAfter"); delay != nil {
		d, constant := p.number(delay)
		return constant && d != 0 && d < int64(time.Millisecond)
	}
	value := field(lit, "Requeue")
	return value != nil && types.ExprString(value) == "true"
}

// ofAbsent reports whether a return is the one for an object that is not there.
func (p *pass) ofAbsent(ret *ast.ReturnStmt) bool {
	switch branch := p.branch(ret).(type) {
	case *ast.IfStmt:
		return p.isAbsence(branch.Cond) && p.parents[ret] == branch.Body
	case *ast.CaseClause:
		return len(branch.List) == 1 && p.isAbsence(branch.List[0])
	}
	return false
}

// failed reports whether an error that is returned cannot be nil: it is made here, or the return stands in "if err != nil".
func (p *pass) failed(ret *ast.ReturnStmt, err ast.Expr) bool {
	switch err := ast.Unparen(err).(type) {
	case *ast.CallExpr:
		n := p.callee(err)
		if n.in("errors", "Join") { // of several errors, one of which cannot be nil
			return slices.ContainsFunc(err.Args, func(arg ast.Expr) bool { return p.failed(ret, arg) })
		}
		return n.in("fmt", "Errorf") || n.in("errors", "New") || n.in(controllerRuntime+"reconcile", "TerminalError") ||
			n.of("retry", "NotYet", "After", "Permanent")
	case *ast.Ident:
		obj := p.info.ObjectOf(err)
		if obj.Parent() == p.Pkg.Scope() && strings.HasPrefix(strings.ToLower(obj.Name()), "err") {
			return true
		}
		var inside ast.Node = ret
		for n := p.parents[inside]; n != nil; inside, n = n, p.parents[n] {
			if cond, ok := n.(*ast.IfStmt); ok && cond.Body == inside && p.failing(cond.Cond) == obj {
				return !p.assigned(cond.Body, obj)
			}
			if _, ok := n.(*ast.FuncLit); ok {
				return false
			}
		}
	}
	return false
}

// assigned reports whether a block assigns to a variable.
func (p *pass) assigned(block *ast.BlockStmt, obj types.Object) bool {
	found := false
	ast.Inspect(block, func(n ast.Node) bool {
		if assign, ok := n.(*ast.AssignStmt); ok {
			for _, lhs := range assign.Lhs {
				if id, ok := lhs.(*ast.Ident); ok && p.info.ObjectOf(id) == obj {
					found = true
				}
			}
		}
		return !found
	})
	return found
}
