package vet

import (
	"go/ast"
	"go/types"
	"strings"
)

func nowdecides(p *pass) {
	for _, root := range p.funcs {
		if root.role != reconcile || root.made != nil && field(p.config(root.made), "Resync") != nil {
			continue
		}
		reached := p.reachedFrom(root)
		if p.asksForMore(reached) {
			continue
		}
		for _, f := range reached {
			f.walk(func(n ast.Node) bool {
				if cond, ok := n.(*ast.IfStmt); ok && p.comparesNow(cond.Cond) && p.deletes(f, cond) {
					p.report(cond, "this deletion is due when the time has come, but is made at the next event, which may never come: return the time that is left as RequeueAfter")
				}
				return true
			})
		}
	}
}

// asksForMore reports whether one of the functions can ask for another reconcile, or gets a Result from a function that is not known.
func (p *pass) asksForMore(fs []*fn) bool {
	found := false
	for _, f := range fs {
		f.walk(func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				key, ok := n.Key.(*ast.Ident)
				found = found || ok && (key.Name == "RequeueAfter" || key.Name == "Requeue")
			case *ast.AssignStmt:
				for _, lhs := range n.Lhs {
					sel, ok := lhs.(*ast.SelectorExpr)
					found = found || ok && (sel.Sel.Name == "RequeueAfter" || sel.Sel.Name == "Requeue")
				}
			case *ast.CallExpr:
				name := p.callee(n)
				found = found || name.of("retry", "NotYet", "After") || strings.HasPrefix(name.name, "Add") && name.recv != "" ||
					strings.Contains(strings.ToLower(name.name), "requeue") || strings.Contains(strings.ToLower(name.name), "enqueue") ||
					name.name == "AfterFunc" || p.own(n) == nil && p.returnsResult(n)
			}
			return !found
		})
	}
	return found
}

func (p *pass) returnsResult(call *ast.CallExpr) bool {
	t := p.info.TypeOf(call)
	if tuple, ok := t.(*types.Tuple); ok && tuple.Len() > 0 {
		t = tuple.At(0).Type()
	}
	return t != nil && isResult(t)
}

// comparesNow reports whether a condition compares the present time with another time.
func (p *pass) comparesNow(cond ast.Expr) bool {
	found := false
	ast.Inspect(cond, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			switch c := p.callee(n); {
			case c.in("time", "Since", "Until"), c.in("time", "Time.After", "Time.Before", "Time.Compare") && p.mentionsNow(n):
				found = true
			}
		case *ast.Ident:
			if defs := p.defs[p.info.ObjectOf(n)]; len(defs) == 1 && p.isBoolOrDuration(n) && defs[0] != cond {
				found = found || p.comparesNow(defs[0])
			}
		}
		return !found
	})
	return found
}

func (p *pass) isBoolOrDuration(id *ast.Ident) bool {
	t := p.info.TypeOf(id)
	if t == nil {
		return false
	}
	basic, ok := t.Underlying().(*types.Basic)
	return ok && (basic.Info()&types.IsBoolean != 0 || isType(t, "time", "Duration"))
}

// mentionsNow reports whether a call has time.Now in it, or a variable with its value.
func (p *pass) mentionsNow(call *ast.CallExpr) bool {
	found := false
	ast.Inspect(call, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			found = found || p.callee(n).in("time", "Now")
		case *ast.Ident:
			if defs := p.defs[p.info.ObjectOf(n)]; len(defs) == 1 {
				def, ok := ast.Unparen(defs[0]).(*ast.CallExpr)
				found = found || ok && p.callee(def).in("time", "Now")
			}
		}
		return !found
	})
	return found
}

// deletes reports whether an if statement decides a deletion: the deletion stands in it, or it returns success and the deletion follows.
func (p *pass) deletes(f *fn, cond *ast.IfStmt) bool {
	inside, after := false, false
	f.walk(func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && p.isDeletion(call) {
			inside = inside || within(call, cond.Body)
			after = after || call.Pos() > cond.End()
		}
		return true
	})
	if inside {
		return true
	}
	last := len(cond.Body.List) - 1
	if last < 0 || !after {
		return false
	}
	ret, ok := cond.Body.List[last].(*ast.ReturnStmt)
	return ok && p.succeeds(ret)
}

func (p *pass) isDeletion(call *ast.CallExpr) bool {
	n := p.callee(call)
	return p.isWrite(call) && strings.HasPrefix(n.name, "Delete") ||
		p.own(call) != nil && p.takesContext(call) && (strings.HasPrefix(strings.ToLower(n.name), "delete") || strings.HasPrefix(strings.ToLower(n.name), "remove"))
}
