package vet

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

// finalizer finds a reconcile that cleans up when its cache has no object with the key, in a controller that nothing but events of that
// cache wakes. If another informer wakes it too, that may show what is left.
func finalizer(p *pass) {
	for _, f := range p.funcs {
		if f.role != reconcile || f.made == nil {
			continue
		}
		cache := p.onlyInput(f.made)
		if cache == "" {
			continue
		}
		f.walk(func(n ast.Node) bool {
			get, ok := n.(*ast.AssignStmt)
			if !ok || len(get.Lhs) != 2 || len(get.Rhs) != 1 || !p.gets(get.Rhs[0], cache) {
				return true
			}
			there, ok := get.Lhs[1].(*ast.Ident)
			if !ok || there.Name == "_" {
				return true
			}
			for _, stmt := range p.ifAbsent(get, p.info.ObjectOf(there)) {
				if call := p.cleanup(stmt); call != nil {
					p.report(call, "%s cleans up after an object only if its deletion is seen, and a process that is down does not see it: add a finalizer before you make what has to be removed", p.callee(call))
				}
			}
			return true
		})
	}
}

// onlyInput returns the text of the informer of controller.For, if a call of controller.New has no other inputs.
func (p *pass) onlyInput(made *ast.CallExpr) string {
	if !p.callee(made).of("controller", "New") || made.Ellipsis.IsValid() || len(made.Args) < 4 {
		return ""
	}
	only := ""
	for _, input := range made.Args[3:] {
		call, ok := ast.Unparen(input).(*ast.CallExpr)
		for ok && strings.HasPrefix(p.callee(call).short(), "Watch.") { // When, Where
			sel, isMethod := ast.Unparen(call.Fun).(*ast.SelectorExpr)
			if !isMethod {
				return ""
			}
			call, ok = ast.Unparen(sel.X).(*ast.CallExpr)
		}
		if !ok || !p.callee(call).of("controller", "For") || len(call.Args) != 1 {
			return ""
		}
		of := types.ExprString(call.Args[0])
		if only != "" && of != only {
			return ""
		}
		only = of
	}
	return only
}

// gets reports whether an expression reads an object of a cache, which is named by its text.
func (p *pass) gets(e ast.Expr, cache string) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok || !p.callee(call).of("informer", "Informer.Get") {
		return false
	}
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	return ok && types.ExprString(sel.X) == cache
}

// ifAbsent returns the statements after a statement that run only if a variable is false: in "if !ok", or after an "if ok" that returns.
func (p *pass) ifAbsent(get ast.Stmt, ok types.Object) []ast.Stmt {
	list := statements(p.parents[get])
	i := slices.Index(list, get)
	if i < 0 {
		return nil
	}
	for j, stmt := range list[i+1:] {
		branch, isIf := stmt.(*ast.IfStmt)
		if !isIf || len(branch.Body.List) == 0 {
			continue
		}
		_, returns := branch.Body.List[len(branch.Body.List)-1].(*ast.ReturnStmt)
		switch cond := ast.Unparen(branch.Cond).(type) {
		case *ast.UnaryExpr:
			if id, isVar := ast.Unparen(cond.X).(*ast.Ident); isVar && p.info.Uses[id] == ok {
				return branch.Body.List
			}
		case *ast.Ident:
			if p.info.Uses[cond] == ok && returns && branch.Else == nil {
				return list[i+1+j+1:]
			}
		}
	}
	return nil
}

// cleanup returns a call in a statement that deletes something and may fail, or nil.
func (p *pass) cleanup(stmt ast.Stmt) (found *ast.CallExpr) {
	ast.Inspect(stmt, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && found == nil && p.takesContext(call) && p.returnsError(call) {
			name := strings.ToLower(p.callee(call).name)
			if slices.ContainsFunc([]string{"delete", "remove", "destroy", "cleanup"}, func(verb string) bool { return strings.HasPrefix(name, verb) }) {
				found = call
			}
		}
		return found == nil
	})
	return found
}
