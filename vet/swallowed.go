package vet

import (
	"go/ast"
	"go/token"
	"go/types"
)

func swallowed(p *pass) {
	for _, f := range p.reached(reconcile) {
		results := f.sig.Results()
		if results.Len() == 0 || !isError(results.At(results.Len()-1).Type()) || returnsBool(f) {
			continue
		}
		f.walk(func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.IfStmt:
				p.swallowedIf(f, n)
			case *ast.ExprStmt:
				if call, ok := n.X.(*ast.CallExpr); ok && p.takesContext(call) && p.returnsError(call) && !p.isLog(call) && p.succeedsAfter(n) {
					p.report(n, "the error of %s is dropped, so the key is not tried again if it fails: return the error", p.callee(call))
				}
			case *ast.AssignStmt:
				p.swallowedAssign(n)
			}
			return true
		})
		p.collected(f)
	}
}

// returnsBool reports whether f returns a bool beside the error: "not yet", as the condition of a poll does.
func returnsBool(f *fn) bool {
	for v := range f.sig.Results().Variables() {
		if basic, ok := v.Type().Underlying().(*types.Basic); ok && basic.Info()&types.IsBoolean != 0 {
			return true
		}
	}
	return false
}

// swallowedIf finds
//
//	if err != nil {
//		log(err)
//		return Result{}, nil
//	}
//
// for an error of a call that takes a context, since only such a call can succeed later. It also finds the same without the return for the
// error of a write.
func (p *pass) swallowedIf(f *fn, n *ast.IfStmt) {
	err := p.failing(n.Cond)
	if err == nil || n.Else != nil {
		return
	}
	call := p.origin(f, n, err)
	if call == nil || !p.takesContext(call) || !p.returnsError(call) || p.examined(f, err, call, n) {
		return
	}
	for i, stmt := range n.Body.List {
		if ret, ok := stmt.(*ast.ReturnStmt); ok && i == len(n.Body.List)-1 {
			if p.succeeds(ret) {
				p.report(ret, "nil is returned although %s has failed, so the key is not tried again: return the error", p.callee(call))
			}
			return
		}
		expr, ok := stmt.(*ast.ExprStmt)
		if !ok {
			return
		}
		logs, ok := expr.X.(*ast.CallExpr)
		if !ok || !p.isLog(logs) {
			return
		}
	}
	if len(n.Body.List) > 0 && p.isWrite(call) && p.succeedsAfter(n) {
		p.report(n.Body.List[0], "the error of %s is only logged, so a failed write is not tried again: return the error", p.callee(call))
	}
}

// failing returns the variable err of a condition err != nil, also if more conditions must hold.
func (p *pass) failing(cond ast.Expr) types.Object {
	binary, ok := ast.Unparen(cond).(*ast.BinaryExpr)
	if !ok {
		return nil
	}
	switch binary.Op {
	case token.LAND:
		if err := p.failing(binary.X); err != nil {
			return err
		}
		return p.failing(binary.Y)
	case token.NEQ:
		if id, ok := ast.Unparen(binary.X).(*ast.Ident); ok && p.isNil(binary.Y) && isError(p.info.TypeOf(id)) {
			return p.info.ObjectOf(id)
		}
	}
	return nil
}

// origin returns the call that has last set an error variable before an if statement.
func (p *pass) origin(f *fn, before *ast.IfStmt, err types.Object) (call *ast.CallExpr) {
	f.walk(func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok || assign.Pos() > before.Cond.Pos() {
			return true
		}
		for _, lhs := range assign.Lhs {
			if id, ok := lhs.(*ast.Ident); ok && p.info.ObjectOf(id) == err {
				call, _ = ast.Unparen(assign.Rhs[len(assign.Rhs)-1]).(*ast.CallExpr)
			}
		}
		return true
	})
	return call
}

// examined reports whether an error is looked at between the call that has set it and an if statement: then the code knows which error it
// is.
func (p *pass) examined(f *fn, err types.Object, call *ast.CallExpr, n *ast.IfStmt) bool {
	found := false
	f.walk(func(m ast.Node) bool {
		id, ok := m.(*ast.Ident)
		found = found || ok && id.Pos() > call.End() && id.Pos() < n.Pos() && p.info.Uses[id] == err
		return !found
	})
	return found
}

// swallowedAssign finds writes whose error is assigned to _, and errors that are not read before nil is returned.
func (p *pass) swallowedAssign(n *ast.AssignStmt) {
	call, ok := ast.Unparen(n.Rhs[0]).(*ast.CallExpr)
	if !ok || len(n.Rhs) != 1 || !p.returnsError(call) || !p.takesContext(call) {
		return
	}
	id, ok := n.Lhs[len(n.Lhs)-1].(*ast.Ident)
	if !ok {
		return
	}
	if id.Name == "_" {
		if p.isWrite(call) && p.succeedsAfter(n) {
			p.report(n, "the error of %s is dropped, so a failed write is not tried again: return the error", p.callee(call))
		}
		return
	}
	if ret, ok := p.after(n).(*ast.ReturnStmt); ok && p.succeeds(ret) {
		p.report(ret, "nil is returned whether or not %s has failed, so the key is not tried again: return the error", p.callee(call))
	}
}

// collected finds errors that are appended to a slice, which is never read.
func (p *pass) collected(f *fn) {
	appends := make(map[types.Object]ast.Node)
	read := make(map[types.Object]bool)
	ast.Inspect(f.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if len(n.Lhs) == 1 && len(n.Rhs) == 1 {
				call, ok := n.Rhs[0].(*ast.CallExpr)
				id, isVar := n.Lhs[0].(*ast.Ident)
				if ok && isVar && p.callee(call).builtin("append") && len(call.Args) > 1 {
					if first, ok := call.Args[0].(*ast.Ident); ok && p.info.ObjectOf(first) == p.info.ObjectOf(id) {
						if obj := p.info.ObjectOf(id); p.ofErrors(obj) && f.node.Pos() < obj.Pos() && obj.Pos() < f.node.End() {
							appends[obj] = n
						}
						for _, arg := range call.Args[1:] {
							ast.Inspect(arg, func(n ast.Node) bool {
								if id, ok := n.(*ast.Ident); ok {
									read[p.info.ObjectOf(id)] = true
								}
								return true
							})
						}
						return false
					}
				}
			}
		case *ast.Ident:
			if obj := p.info.Uses[n]; obj != nil {
				read[obj] = true
			}
		}
		return true
	})
	for obj, at := range appends {
		if !read[obj] && f.sig.Results().At(0) != obj {
			p.report(at, "the errors in %s are never returned, so a failed key is not tried again: return errors.Join of them", obj.Name())
		}
	}
}

func (p *pass) ofErrors(obj types.Object) bool {
	if obj == nil {
		return false
	}
	slice, ok := obj.Type().Underlying().(*types.Slice)
	return ok && isError(slice.Elem())
}

// succeeds reports whether a return says that all is done: its error is nil, and it asks for no other reconcile.
func (p *pass) succeeds(ret *ast.ReturnStmt) bool {
	n := len(ret.Results)
	if n == 0 || !p.isNil(ret.Results[n-1]) {
		return false
	}
	for _, result := range ret.Results[:n-1] {
		if lit, ok := ast.Unparen(result).(*ast.CompositeLit); (!ok || len(lit.Elts) > 0) && !p.isNil(result) {
			return false
		}
	}
	return true
}

// succeedsAfter reports whether the next return after a statement says that all is done.
func (p *pass) succeedsAfter(stmt ast.Stmt) bool {
	var n ast.Node = stmt
	for ; n != nil; n = p.parents[n] {
		list := statements(p.parents[n])
		passed := false
		for _, s := range list {
			if passed {
				if ret, ok := s.(*ast.ReturnStmt); ok {
					return p.succeeds(ret)
				}
			}
			passed = passed || ast.Node(s) == n
		}
		if _, ok := p.parents[n].(*ast.FuncLit); ok {
			return false
		}
	}
	return false
}

// after returns the statement that follows another one in its block, or nil.
func (p *pass) after(stmt ast.Stmt) ast.Stmt {
	list := statements(p.parents[stmt])
	for i, s := range list {
		if s == stmt && i+1 < len(list) {
			return list[i+1]
		}
	}
	return nil
}

func statements(n ast.Node) []ast.Stmt {
	switch n := n.(type) {
	case *ast.BlockStmt:
		return n.List
	case *ast.CaseClause:
		return n.Body
	case *ast.CommClause:
		return n.Body
	}
	return nil
}
