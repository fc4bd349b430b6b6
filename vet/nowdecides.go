package vet

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

func nowdecides(p *pass) {
	for _, root := range p.funcs {
		if root.role != reconcile || root.made != nil && field(p.config(root.made), "Resync") != nil {
			continue
		}
		reached := p.reachedFrom(root)
		for _, f := range reached {
			f.walk(func(n ast.Node) bool {
				if cond, ok := n.(*ast.IfStmt); ok && p.comparesNow(cond.Cond) && p.deletes(f, cond) && !p.comesBack(reached, cond.Cond) {
					p.report(cond, "this deletion is due when the time has come, but is made at the next event, which may never come: return the time that is left as RequeueAfter")
				}
				return true
			})
		}
	}
}

// comesBack reports whether one of the functions can ask for a reconcile at the time of a condition, or gets a Result from a function that
// is not known. A request in the branch of an error does not count, since there is none if all goes well. Nor does one for another time.
func (p *pass) comesBack(fs []*fn, cond ast.Expr) bool {
	found := false
	times, _ := p.timesOf(cond)
	asks := func(n ast.Node, delay ast.Expr) {
		if p.afterError(n) {
			return
		}
		if delay != nil {
			others, known := p.timesOf(delay)
			if known && len(others) > 0 && !slices.ContainsFunc(others, func(t types.Object) bool { return slices.Contains(times, t) }) {
				return
			}
		}
		found = true
	}
	for _, f := range fs {
		f.walk(func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && (key.Name == "RequeueAfter" || key.Name == "Requeue") {
					asks(n, n.Value)
				}
			case *ast.AssignStmt:
				for i, lhs := range n.Lhs {
					if sel, ok := lhs.(*ast.SelectorExpr); ok && (sel.Sel.Name == "RequeueAfter" || sel.Sel.Name == "Requeue") && len(n.Lhs) == len(n.Rhs) {
						asks(n, n.Rhs[i])
					}
				}
			case *ast.CallExpr:
				name := p.callee(n)
				switch {
				case name.of("retry", "NotYet", "After") && len(n.Args) == 2:
					asks(n, n.Args[1])
				case slices.Contains([]string{"Add", "AddAfter", "AddRateLimited", "AddWith"}, name.name) && name.recv != "" && name.pkg != "time",
					strings.Contains(strings.ToLower(name.name), "requeue"), strings.Contains(strings.ToLower(name.name), "enqueue"),
					name.name == "AfterFunc", p.own(n) == nil && p.returnsResult(n):
					found = true
				}
			}
			return !found
		})
	}
	return found
}

// timesOf returns the fields with a time from which an expression is computed, and whether nothing else that is not known goes into it.
func (p *pass) timesOf(e ast.Expr) (times []types.Object, known bool) {
	known = true
	var visit func(e ast.Expr, depth int)
	visit = func(e ast.Expr, depth int) {
		ast.Inspect(e, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				name := p.callee(n)
				known = known && (name.pkg == "time" || name.builtin("min", "max") || name.pkg == metav1 || p.info.Types[n.Fun].IsType())
			case *ast.SelectorExpr:
				if v, ok := p.info.Uses[n.Sel].(*types.Var); ok && v.IsField() && isTime(v.Type()) {
					if !v.Embedded() {
						times = append(times, v.Origin())
						return false
					}
				}
			case *ast.Ident:
				v, ok := p.info.Uses[n].(*types.Var)
				if !ok || v.IsField() || !isTime(v.Type()) && !isType(v.Type(), "time", "Duration") {
					return true
				}
				if defs := p.defs[v]; len(defs) == 1 && depth < 8 {
					visit(defs[0], depth+1)
				} else {
					known = false
				}
			}
			return true
		})
	}
	visit(e, 0)
	return times, known
}

const metav1 = "k8s.io/apimachinery/pkg/apis/meta/v1"

func isTime(t types.Type) bool {
	return isType(t, "time", "Time") || isType(t, metav1, "Time", "MicroTime")
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
