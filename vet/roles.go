package vet

import (
	"go/ast"
	"strings"
)

// assignRoles finds out for which functions a controller calls what. A function is a reconcile if it has the shape of one, or if a call of
// controller.New or Queue.Run gets it.
func (p *program) assignRoles() {
	for _, f := range p.funcs {
		if hasReconcileShape(f.sig) {
			f.role = reconcile
		}
	}
	for _, f := range p.funcs {
		for _, call := range f.calls {
			p.rolesOfCall(call)
		}
	}
	for _, file := range p.files {
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.CompositeLit); ok {
				p.rolesOfFields(lit)
			}
			return true
		})
	}
}

// rolesOfCall gives a role to the functions that a call gets.
func (p *program) rolesOfCall(call *ast.CallExpr) {
	n := p.callee(call)
	give := func(i int, r role) {
		if i < len(call.Args) {
			if f := p.function(call.Args[i]); f != nil {
				f.role, f.made = r, call
			}
		}
	}
	switch {
	case n.of("controller", "New") && len(call.Args) > 1:
		p.giveReconcile(call, call.Args[1], field(p.config(call), "Workers"), 0)
	case n.of("workqueue", "Queue.Run") && len(call.Args) > 2:
		p.giveReconcile(call, call.Args[2], call.Args[1], 0)
	case n.of("controller", "Watches"), n.in(controllerRuntime+"handler", "EnqueueRequestsFromMapFunc", "TypedEnqueueRequestsFromMapFunc"):
		give(1, mapper)
		give(0, mapper)
	case n.of("controller", "Watch.Where", "Watch.When", "Watch.Lane", "Watch.ChangedBy"),
		n.in(controllerRuntime+"predicate", "NewPredicateFuncs", "NewTypedPredicateFuncs"):
		give(0, filter)
	}
}

// giveReconcile makes a reconcile of the function that a call of controller.New or Queue.Run gets. If that is a parameter of the function
// around the call, it makes one of what each caller passes.
func (p *program) giveReconcile(made *ast.CallExpr, reconciler, workers ast.Expr, depth int) {
	helper, i := p.parameter(reconciler)
	if helper == nil {
		if f := p.function(reconciler); f != nil {
			f.role, f.made, f.works = reconcile, made, workers
		}
		return
	}
	of, j := p.parameter(workers)
	for _, f := range p.funcs {
		for _, call := range f.calls {
			if p.own(call) != helper || len(call.Args) <= i || len(call.Args) <= j || depth > 8 {
				continue
			}
			passed := workers
			if of == helper {
				passed = call.Args[j]
			}
			p.giveReconcile(made, call.Args[i], passed, depth+1)
		}
	}
}

// parameter returns the declared function whose parameter an expression is, and which one.
func (p *program) parameter(e ast.Expr) (*fn, int) {
	id, ok := e.(*ast.Ident)
	if !ok {
		return nil, 0
	}
	for f := p.around(id); f != nil; f = f.outer {
		for i := range f.sig.Params().Len() {
			if f.obj != nil && f.sig.Params().At(i) == p.info.Uses[id] {
				return f, i
			}
		}
	}
	return nil, 0
}

// rolesOfFields gives a role to the functions in a set of handlers.
func (p *program) rolesOfFields(lit *ast.CompositeLit) {
	pkg, typ := typeName(p.info.TypeOf(lit))
	var r role
	switch {
	case pkg == module+"informer" && typ == "Handler",
		pkg == "k8s.io/client-go/tools/cache" && strings.HasPrefix(typ, "ResourceEventHandler"),
		pkg == controllerRuntime+"handler" && strings.HasSuffix(typ, "Funcs"):
		r = handler
	case pkg == controllerRuntime+"predicate" && strings.HasSuffix(typ, "Funcs"), pkg == "k8s.io/client-go/tools/cache" && typ == "FilteringResourceEventHandler":
		r = filter
	case pkg == module+"owner" && typ == "Finalizer":
		r = step
	default:
		return
	}
	for _, elt := range lit.Elts {
		pair, ok := elt.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		if f := p.function(pair.Value); f != nil {
			f.role = r
			if key, ok := pair.Key.(*ast.Ident); ok && key.Name == "Filter" {
				f.role = filter
			}
		}
	}
}

// config returns the literal of the Config that a call of controller.New gets, if it stands in the call or in a variable.
func (p *program) config(call *ast.CallExpr) *ast.CompositeLit {
	for _, arg := range call.Args {
		if isType(p.info.TypeOf(arg), module+"controller", "Config") {
			return p.literal(arg)
		}
	}
	return nil
}

// literal returns the composite literal that an expression is, or that is assigned to a variable once.
func (p *program) literal(e ast.Expr) *ast.CompositeLit {
	switch e := ast.Unparen(e).(type) {
	case *ast.CompositeLit:
		return e
	case *ast.UnaryExpr:
		return p.literal(e.X)
	case *ast.Ident:
		if defs := p.defs[p.info.ObjectOf(e)]; len(defs) == 1 {
			if lit, ok := ast.Unparen(defs[0]).(*ast.CompositeLit); ok {
				return lit
			}
		}
	}
	return nil
}

// field returns the value of a field in a composite literal.
func field(lit *ast.CompositeLit, name string) ast.Expr {
	if lit == nil {
		return nil
	}
	for _, e := range lit.Elts {
		if pair, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok && key.Name == name {
				return pair.Value
			}
		}
	}
	return nil
}
