package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

func sharedstate(p *pass) {
	for _, f := range p.funcs {
		if f.role != reconcile {
			continue
		}
		concurrent := f.sig.Recv() != nil && f.name == "Reconcile" && p.setsConcurrency(f.sig.Recv().Type()) // of controller-runtime
		if f.made != nil {
			concurrent = p.mayHaveWorkers(f)
		}
		if !concurrent {
			continue
		}
		shared := map[types.Object]bool{}
		if recv := f.sig.Recv(); recv != nil {
			shared[recv] = true
		}
		(&sharing{p, f, make(map[*fn]bool)}).visit(f, shared)
	}
}

// setsConcurrency reports whether a function that sets a reconciler up gives its controller of controller-runtime more than one worker, or lets
// its caller do so. It is a method of the reconciler, or makes one.
func (p *pass) setsConcurrency(reconciler types.Type) bool {
	found := false
	for _, f := range p.funcs {
		if !p.setsUp(f, reconciler) {
			continue
		}
		f.walk(func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if isType(p.info.TypeOf(n), controllerRuntime+"controller", "Options", "TypedOptions") {
					if max := field(n, "MaxConcurrentReconciles"); max != nil {
						if k, constant := p.number(max); !constant || k > 1 {
							found = true
						}
					}
				}
			case *ast.CallExpr:
				if p.callee(n).name == "WithOptions" && len(n.Args) == 1 && p.literal(n.Args[0]) == nil {
					found = true
				}
			}
			return true
		})
	}
	return found
}

// setsUp reports whether a function is a method of a type, or makes a value of it.
func (p *pass) setsUp(f *fn, typ types.Type) bool {
	pkg, name := typeName(typ)
	if recv := f.sig.Recv(); recv != nil && isType(recv.Type(), pkg, name) {
		return true
	}
	made := false
	f.walk(func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		made = made || ok && isType(p.info.TypeOf(lit), pkg, name)
		return !made
	})
	return made
}

// mayHaveWorkers reports whether the controller or the queue that got a reconcile can have more than one worker.
func (p *pass) mayHaveWorkers(f *fn) bool {
	if p.callee(f.made).name != "Run" && p.config(f.made) == nil {
		return true
	}
	if f.works == nil {
		return p.setsWorkers()
	}
	n, constant := p.number(f.works)
	return !constant || n > 1
}

// setsWorkers reports whether the package changes the number of workers of a controller that runs.
func (p *pass) setsWorkers() bool {
	for _, f := range p.funcs {
		for _, call := range f.calls {
			if p.callee(call).of("controller", "Controller.SetWorkers") {
				return true
			}
		}
	}
	return false
}

// sharing follows what one reconcile shares with those of other keys.
type sharing struct {
	*pass
	root *fn
	seen map[*fn]bool
}

// visit reports the writes of f, which runs as a part of the root, to variables that are shared.
func (s *sharing) visit(f *fn, shared map[types.Object]bool) {
	if s.seen[f] {
		return
	}
	s.seen[f] = true
	isShared := func(e ast.Expr) (types.Object, bool) {
		obj, indirect := s.rootOf(e)
		v, ok := obj.(*types.Var)
		switch {
		case !ok || v.IsField():
			return nil, false
		case v.Parent() == s.Pkg.Scope():
			return v, v.Pkg() == s.Pkg
		case shared[v]:
			return v, indirect
		}
		_, literal := s.root.node.(*ast.FuncLit)
		captured := literal && within(f.node, s.root.node) && !(s.root.node.Pos() <= v.Pos() && v.Pos() < s.root.node.End())
		return v, captured
	}
	check := func(at ast.Node, e ast.Expr) {
		if _, ok := isShared(e); ok && !s.locked(f, at.Pos()) {
			if index, ok := ast.Unparen(e).(*ast.IndexExpr); ok {
				e = index.X
			}
			s.report(at, "%s is shared by the reconciles of all keys, which write it concurrently without a lock, and a restart loses it: derive it in each reconcile, or use a lock", types.ExprString(e))
		}
	}
	f.walk(func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				return true
			}
			for _, lhs := range n.Lhs {
				check(n, lhs)
			}
		case *ast.IncDecStmt:
			check(n, n.X)
		case *ast.CallExpr:
			if s.callee(n).builtin("delete", "clear") && len(n.Args) > 0 {
				check(n, n.Args[0])
			}
		}
		return true
	})
	for _, lit := range f.inner {
		if !lit.apart && lit.role == 0 {
			s.visit(lit, shared)
		}
	}
	for _, call := range f.calls {
		callee := s.own(call)
		if callee == nil || s.apart(call) || callee.obj == nil {
			continue
		}
		passed := map[types.Object]bool{}
		if sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok && callee.sig.Recv() != nil {
			if _, ok := isShared(sel.X); ok || s.isReceiver(sel.X, shared) {
				passed[callee.sig.Recv()] = true
			}
		}
		s.visit(callee, passed)
	}
}

// isReceiver reports whether an expression is one of the shared variables itself.
func (s *sharing) isReceiver(e ast.Expr, shared map[types.Object]bool) bool {
	id, ok := ast.Unparen(e).(*ast.Ident)
	return ok && shared[s.info.ObjectOf(id)]
}

// rootOf returns the variable in which the path of an expression begins, and whether the path leaves its memory.
func (p *program) rootOf(e ast.Expr) (obj types.Object, indirect bool) {
	for {
		switch x := ast.Unparen(e).(type) {
		case *ast.Ident:
			return p.info.ObjectOf(x), indirect
		case *ast.SelectorExpr:
			sel := p.info.Selections[x]
			if sel == nil { // of a package
				return nil, false
			}
			indirect = indirect || sel.Indirect()
			e = x.X
		case *ast.IndexExpr:
			if _, array := p.info.TypeOf(x.X).Underlying().(*types.Array); !array {
				indirect = true
			}
			e = x.X
		case *ast.StarExpr:
			indirect = true
			e = x.X
		default:
			return nil, false
		}
	}
}

// locked reports whether a lock is taken before a place in f, or in one of the functions around it.
func (s *sharing) locked(f *fn, before token.Pos) bool {
	for g := f; g != nil; g = g.outer {
		if strings.HasSuffix(g.name, "Locked") {
			return true
		}
		for _, call := range g.calls {
			if n := s.callee(call); call.Pos() < before && (n.name == "Lock" || n.name == "TryLock") {
				return true
			}
		}
		if call, ok := s.parents[g.node].(*ast.CallExpr); ok && (s.callee(call).in("sync", "Once.Do", "OnceFunc")) {
			return true
		}
		if g == s.root {
			return false
		}
	}
	return false
}

func within(n, outer ast.Node) bool { return outer.Pos() <= n.Pos() && n.End() <= outer.End() }
