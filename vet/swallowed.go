package vet

import (
	"go/ast"
	"go/token"
	"go/types"
)

func swallowed(p *pass) {
	for _, f := range p.reached(reconcile, step) {
		if !f.returnsError() || returnsBool(f) {
			continue
		}
		f.walk(func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.IfStmt:
				p.swallowedIf(f, n)
				p.swallowedUnless(f, n)
				p.swallowedUnlessNil(f, n)
			case *ast.ExprStmt:
				if call, ok := n.X.(*ast.CallExpr); ok && p.takesContext(call) && p.returnsError(call) && !p.isLog(call) && p.succeedsAfter(n) {
					p.report(n, "the error of %s is dropped, so no retry follows if it fails, and the key waits for its next event or resync: return the error", p.callee(call))
				}
			case *ast.AssignStmt:
				p.swallowedAssign(f, n)
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
// for an error of a call that takes a context, since only such a call can succeed later. An event is like a log if a read or a write has
// failed: of another failure, such as an invalid object, it may be the right end. swallowedIf also finds the same with a continue, or without the
// return, for the error of a write.
func (p *pass) swallowedIf(f *fn, n *ast.IfStmt) {
	err := p.failing(n.Cond)
	if err == nil || n.Else != nil {
		return
	}
	call := p.origin(f, n, err)
	if call == nil || !p.takesContext(call) || !p.returnsError(call) || p.examined(f, err, call, n) {
		return
	}
	var from ast.Stmt = n
	for i, stmt := range n.Body.List {
		last := i == len(n.Body.List)-1
		switch stmt := stmt.(type) {
		case *ast.ReturnStmt:
			if last && p.succeeds(stmt) {
				p.report(stmt, "nil is returned although %s has failed, so no retry follows, and the key waits for its next event or resync: return the error", p.callee(call))
			}
			return
		case *ast.BranchStmt:
			if from = p.loop(n); !last || stmt.Tok != token.CONTINUE || stmt.Label != nil || i == 0 || from == nil {
				return
			}
		case *ast.ExprStmt:
			tells, ok := stmt.X.(*ast.CallExpr)
			if !ok || !p.isLog(tells) && !(p.isEvent(tells) && (p.isRead(call) || p.saves(call))) {
				return
			}
		default:
			return
		}
	}
	if len(n.Body.List) > 0 && p.saves(call) && p.succeedsAfter(from) {
		p.report(n.Body.List[0], "the error of %s is only logged, so no retry follows, and a failed write waits for the next event or resync of the key: return the error", p.callee(call))
	}
}

// loop returns the innermost loop around a statement in the same function, or nil.
func (p *pass) loop(stmt ast.Stmt) ast.Stmt {
	for n := p.parents[stmt]; n != nil; n = p.parents[n] {
		switch n := n.(type) {
		case *ast.ForStmt:
			return n
		case *ast.RangeStmt:
			return n
		case *ast.FuncLit:
			return nil
		}
	}
	return nil
}

// swallowedUnless finds
//
//	if !errors.Is(err, ErrNotFound) {
//		return Result{}, nil
//	}
//
// which is meant for a success, and returns nil for each other error too.
func (p *pass) swallowedUnless(f *fn, n *ast.IfStmt) {
	not, ok := ast.Unparen(n.Cond).(*ast.UnaryExpr)
	if !ok || not.Op != token.NOT || n.Else != nil || len(n.Body.List) != 1 || !p.isAbsence(not.X) {
		return
	}
	ret, ok := n.Body.List[0].(*ast.ReturnStmt)
	if !ok || !p.succeeds(ret) {
		return
	}
	id, ok := ast.Unparen(not.X.(*ast.CallExpr).Args[0]).(*ast.Ident)
	if !ok {
		return
	}
	err := p.info.ObjectOf(id)
	if call := p.origin(f, n, err); call != nil && p.takesContext(call) && p.returnsError(call) && !p.examined(f, err, call, n) {
		p.report(ret, "nil is returned also if %s has failed with another error, so no retry follows, and the key waits for its next event or resync: return the error", p.callee(call))
	}
}

// swallowedUnlessNil finds
//
//	if err == nil {
//		record()
//	}
//	return Result{}, nil
//
// for the error of a write that nothing else reads.
func (p *pass) swallowedUnlessNil(f *fn, n *ast.IfStmt) {
	err := p.compared(n.Cond, token.EQL)
	if err == nil || n.Else != nil {
		return
	}
	call := p.origin(f, n, err)
	if call == nil || !p.saves(call) || p.examined(f, err, call, n) || p.usedAfter(f, err, n.Cond) {
		return
	}
	if ret := p.nextReturn(n); ret != nil && p.succeeds(ret) {
		p.report(ret, "nil is returned whether or not %s has failed, so no retry follows, and a failed write waits for the next event or resync of the key: return the error", p.callee(call))
	}
}

// usedAfter reports whether f reads or sets a variable after a node.
func (p *pass) usedAfter(f *fn, obj types.Object, n ast.Node) bool {
	found := false
	ast.Inspect(f.body, func(m ast.Node) bool {
		id, ok := m.(*ast.Ident)
		found = found || ok && id.Pos() > n.End() && p.info.Uses[id] == obj
		return !found
	})
	return found || p.isResultOf(f, obj)
}

// isResultOf reports whether a variable is one of the named results of f.
func (p *pass) isResultOf(f *fn, obj types.Object) bool {
	for v := range f.sig.Results().Variables() {
		if v == obj {
			return true
		}
	}
	return false
}

// failing returns the variable err of a condition err != nil, also if more conditions must hold.
func (p *pass) failing(cond ast.Expr) types.Object { return p.compared(cond, token.NEQ) }

// compared returns the variable err of a condition that compares it with nil, also if more conditions must hold.
func (p *pass) compared(cond ast.Expr, op token.Token) types.Object {
	binary, ok := ast.Unparen(cond).(*ast.BinaryExpr)
	if !ok {
		return nil
	}
	switch binary.Op {
	case token.LAND:
		if err := p.compared(binary.X, op); err != nil {
			return err
		}
		return p.compared(binary.Y, op)
	case op:
		if id, ok := ast.Unparen(binary.X).(*ast.Ident); ok && p.isNil(binary.Y) && isError(p.info.TypeOf(id)) {
			return p.info.ObjectOf(id)
		}
	}
	return nil
}

// origin returns the call that has last set an error variable before an if statement is decided, or before another statement.
func (p *pass) origin(f *fn, before ast.Stmt, err types.Object) (call *ast.CallExpr) {
	end := before.Pos()
	if branch, ok := before.(*ast.IfStmt); ok {
		end = branch.Cond.Pos()
	}
	f.walk(func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok || assign.Pos() > end {
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
func (p *pass) swallowedAssign(f *fn, n *ast.AssignStmt) {
	call, ok := ast.Unparen(n.Rhs[0]).(*ast.CallExpr)
	if !ok || len(n.Rhs) != 1 || !p.returnsError(call) || !p.takesContext(call) {
		return
	}
	id, ok := n.Lhs[len(n.Lhs)-1].(*ast.Ident)
	if !ok {
		return
	}
	if id.Name == "_" {
		if ret := p.nextReturn(n); ret != nil && p.saves(call) && (p.succeeds(ret) || p.omits(f, ret, n)) {
			p.report(n, "the error of %s is dropped, so no retry follows, and a failed write waits for the next event or resync of the key: return the error", p.callee(call))
		}
		return
	}
	if ret, ok := p.after(n).(*ast.ReturnStmt); ok && p.succeeds(ret) {
		p.report(ret, "nil is returned whether or not %s has failed, so no retry follows, and the key waits for its next event or resync: return the error", p.callee(call))
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
			p.report(at, "the errors in %s are never returned, so no retry follows, and the key waits for its next event or resync: return errors.Join of them", obj.Name())
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
	return n > 0 && p.isNil(ret.Results[n-1]) && p.asksNothing(ret)
}

// omits reports whether a return joins errors that have been collected, or has the error of a call that follows a statement, and asks for no
// other reconcile: an error that the statement drops is not among them.
func (p *pass) omits(f *fn, ret *ast.ReturnStmt, stmt ast.Stmt) bool {
	n := len(ret.Results)
	if n == 0 || !p.asksNothing(ret) {
		return false
	}
	switch e := ast.Unparen(ret.Results[n-1]).(type) {
	case *ast.CallExpr:
		return p.callee(e).in("errors", "Join") || p.callee(e).name == "NewAggregate"
	case *ast.Ident:
		call := p.origin(f, ret, p.info.ObjectOf(e))
		return call != nil && call.Pos() > stmt.End() && p.nextReturn(p.statement(call)) == ret
	}
	return false
}

// statement returns the statement around an expression.
func (p *pass) statement(e ast.Expr) ast.Stmt {
	var n ast.Node = e
	for n != nil {
		if stmt, ok := n.(ast.Stmt); ok {
			return stmt
		}
		n = p.parents[n]
	}
	return nil
}

// asksNothing reports whether the results of a return, without the error, can be empty.
func (p *pass) asksNothing(ret *ast.ReturnStmt) bool {
	for _, result := range ret.Results[:len(ret.Results)-1] {
		switch e := ast.Unparen(result).(type) {
		case *ast.CompositeLit:
			if len(e.Elts) > 0 {
				return false
			}
		case *ast.Ident:
			if !p.isNil(e) && !p.mayBeEmpty(e, ret) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// mayBeEmpty reports whether a variable holds an empty Result at a return, on one of the paths: it begins empty, and its fields are set only in
// branches that do not contain the return.
func (p *pass) mayBeEmpty(id *ast.Ident, ret *ast.ReturnStmt) bool {
	obj, ok := p.info.ObjectOf(id).(*types.Var)
	if !ok || !isResult(obj.Type()) {
		return false
	}
	for _, def := range p.defs[obj] {
		if lit, ok := ast.Unparen(def).(*ast.CompositeLit); !ok || len(lit.Elts) > 0 {
			return false
		}
	}
	f := p.around(ret)
	if f == nil || obj.Pos() < f.body.Pos() { // a parameter, or of an outer function
		return false
	}
	empty := true
	ast.Inspect(f.body, func(n ast.Node) bool {
		use, ok := n.(*ast.Ident)
		if !ok || p.info.Uses[use] != obj {
			return true
		}
		switch parent := p.parents[use].(type) {
		case *ast.ReturnStmt:
		case *ast.SelectorExpr:
			if assign, ok := p.parents[parent].(*ast.AssignStmt); ok {
				branch := p.branch(assign)
				empty = empty && branch != nil && !within(ret, branch)
			}
		case *ast.AssignStmt:
			branch := p.branch(parent)
			empty = empty && branch != nil && !within(ret, branch)
		default: // its address, for example
			empty = false
		}
		return empty
	})
	return empty
}

// branch returns the innermost branch or loop around a statement, which may not run.
func (p *pass) branch(stmt ast.Node) ast.Node {
	for n := p.parents[stmt]; n != nil; n = p.parents[n] {
		switch n.(type) {
		case *ast.IfStmt, *ast.CaseClause, *ast.CommClause, *ast.ForStmt, *ast.RangeStmt:
			return n
		case *ast.FuncLit, *ast.FuncDecl:
			return nil
		}
	}
	return nil
}

// succeedsAfter reports whether the next return after a statement says that all is done.
func (p *pass) succeedsAfter(stmt ast.Stmt) bool {
	ret := p.nextReturn(stmt)
	return ret != nil && p.succeeds(ret)
}

// nextReturn returns the next return after a statement that does not stand in a branch, or nil.
func (p *pass) nextReturn(stmt ast.Stmt) *ast.ReturnStmt {
	var n ast.Node = stmt
	for ; n != nil; n = p.parents[n] {
		list := statements(p.parents[n])
		passed := false
		for _, s := range list {
			if passed {
				if ret, ok := s.(*ast.ReturnStmt); ok {
					return ret
				}
			}
			passed = passed || ast.Node(s) == n
		}
		if _, ok := p.parents[n].(*ast.FuncLit); ok {
			return nil
		}
	}
	return nil
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
