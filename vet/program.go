package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// program is a package as the analyzers see it: its functions, who calls whom, and which of them a controller calls. Test files and
// generated files are left out. It does not change after newProgram.
type program struct {
	pass       *analysis.Pass
	info       *types.Info
	files      []*ast.File
	funcs      []*fn // in the order of the source
	byNode     map[ast.Node]*fn
	byObj      map[*types.Func]*fn
	defs       map[types.Object][]ast.Expr // what is assigned to a variable
	fields     map[types.Object][]ast.Expr // what is assigned to a field of a type of this package
	runs       map[*ast.CallExpr][]target  // see runsOf
	others     map[*types.Func]*effects    // of functions of other packages
	impls      map[*types.Func]*types.Func // see implementation
	named      []*types.Named              // see moduleTypes
	followed   bool                        // nothing changes any more
	suppressed map[line][]string
	parents    map[ast.Node]ast.Node
	refs       map[types.Type]bool // see holdsRefs
}

// role is what a controller calls a function for.
type role int

const (
	reconcile role = 1 + iota // resolves the differences of one key
	handler                   // gets the events of an informer
	filter                    // selects events or objects, in the goroutine that applies them
	mapper                    // maps an object to keys; may fail and be retried
	step                      // a part of a reconcile, which a type of the library calls
)

func (r role) String() string {
	return [...]string{"function", "reconcile", "handler", "filter", "mapper", "step"}[r]
}

// fn is a function with a body: a declaration or a literal.
type fn struct {
	node  ast.Node // *ast.FuncDecl or *ast.FuncLit
	name  string   // of a declaration
	body  *ast.BlockStmt
	sig   *types.Signature
	obj   *types.Func // nil for a literal
	outer *fn         // the function in which a literal stands
	role  role
	made  *ast.CallExpr // the call of controller.New or Queue.Run that got it, if there is one
	works ast.Expr      // the number of workers that call sets, if it does
	apart bool          // a literal that runs in a goroutine of its own, or later
	inner []*fn         // the literals in it
	calls []*ast.CallExpr

	effects *effects // computed by effectsOf
	writes  *writes  // computed by writesOf
}

func newProgram(pass *analysis.Pass) *program {
	p := &program{
		pass:    pass,
		info:    pass.TypesInfo,
		byNode:  make(map[ast.Node]*fn),
		byObj:   make(map[*types.Func]*fn),
		defs:    make(map[types.Object][]ast.Expr),
		fields:  make(map[types.Object][]ast.Expr),
		runs:    make(map[*ast.CallExpr][]target),
		others:  make(map[*types.Func]*effects),
		impls:   make(map[*types.Func]*types.Func),
		parents: make(map[ast.Node]ast.Node),
		refs:    make(map[types.Type]bool),
	}
	if foreign(pass) {
		return p
	}
	for _, file := range pass.Files {
		if name := pass.Fset.Position(file.Pos()).Filename; !strings.HasSuffix(name, "_test.go") && !ast.IsGenerated(file) {
			p.files = append(p.files, file)
		}
	}
	p.suppressed = p.suppressions()
	for _, file := range p.files {
		p.collect(file)
	}
	for _, f := range p.funcs {
		for _, call := range f.calls {
			p.runs[call] = p.runsOf(call)
		}
	}
	p.assignRoles()
	p.follow()
	p.followed = true
	return p
}

// foreign reports whether a package belongs to the standard library or to a dependency: the analyzers follow no calls into these.
func foreign(pass *analysis.Pass) bool {
	if m := pass.Module; m != nil && m.Path != "" {
		return m.Version != "" || m.Path == "std"
	}
	first, _, _ := strings.Cut(pass.Pkg.Path(), "/")
	return !strings.Contains(first, ".")
}

// collect records the functions of a file, their calls, and their variables.
func (p *program) collect(file *ast.File) {
	var stack []ast.Node
	var current []*fn
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil {
			if top := stack[len(stack)-1]; p.byNode[top] != nil {
				current = current[:len(current)-1]
			}
			stack = stack[:len(stack)-1]
			return true
		}
		if len(stack) > 0 {
			p.parents[n] = stack[len(stack)-1]
		}
		stack = append(stack, n)
		switch n := n.(type) {
		case *ast.FuncDecl:
			f := &fn{node: n, name: n.Name.Name, body: n.Body}
			f.obj, _ = p.info.Defs[n.Name].(*types.Func)
			if f.obj != nil {
				f.sig = f.obj.Signature()
				p.byObj[f.obj] = f
			}
			p.add(f)
			current = append(current, f)
		case *ast.FuncLit:
			f := &fn{node: n, body: n.Body, apart: p.startedApart(n)}
			f.sig, _ = p.info.TypeOf(n).(*types.Signature)
			if len(current) > 0 {
				f.outer = current[len(current)-1]
				f.outer.inner = append(f.outer.inner, f)
			}
			p.add(f)
			current = append(current, f)
		case *ast.CallExpr:
			if len(current) > 0 {
				current[len(current)-1].calls = append(current[len(current)-1].calls, n)
			}
		case *ast.AssignStmt:
			for i, lhs := range n.Lhs {
				value := n.Rhs[0]
				if len(n.Lhs) == len(n.Rhs) {
					value = n.Rhs[i]
				}
				switch lhs := lhs.(type) {
				case *ast.Ident:
					p.define(lhs, value)
				case *ast.SelectorExpr:
					p.defineField(p.info.Uses[lhs.Sel], value)
				}
			}
		case *ast.CompositeLit:
			p.defineFields(n)
		case *ast.ValueSpec:
			for i, id := range n.Names {
				if i < len(n.Values) {
					p.define(id, n.Values[i])
				}
			}
		}
		return true
	})
}

func (p *program) add(f *fn) {
	p.funcs = append(p.funcs, f)
	p.byNode[f.node] = f
	if f.sig == nil {
		f.sig = new(types.Signature)
	}
	if f.body == nil {
		f.body = new(ast.BlockStmt)
	}
}

func (p *program) define(id *ast.Ident, value ast.Expr) {
	if obj := p.info.ObjectOf(id); obj != nil {
		p.defs[obj] = append(p.defs[obj], value)
	}
}

// defineField records what is assigned to a field, if it can be a function.
func (p *program) defineField(field types.Object, value ast.Expr) {
	v, ok := field.(*types.Var)
	if !ok || !v.IsField() || v.Pkg() != p.pass.Pkg {
		return
	}
	if _, ok := v.Type().Underlying().(*types.Signature); ok {
		p.fields[v.Origin()] = append(p.fields[v.Origin()], value)
	}
}

func (p *program) defineFields(lit *ast.CompositeLit) {
	typ := p.info.TypeOf(lit)
	if typ == nil {
		return
	}
	if ptr, ok := typ.Underlying().(*types.Pointer); ok { // an element of a slice of pointers
		typ = ptr.Elem()
	}
	fields, ok := typ.Underlying().(*types.Struct)
	if !ok {
		return
	}
	for i, elt := range lit.Elts {
		if pair, ok := elt.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok {
				p.defineField(p.info.Uses[key], pair.Value)
			}
		} else {
			p.defineField(fields.Field(i), elt)
		}
	}
}

// startedApart reports whether a literal does not run where it stands: after go, in a group of goroutines, or after a time.
func (p *program) startedApart(lit *ast.FuncLit) bool {
	call, ok := p.parents[lit].(*ast.CallExpr)
	if !ok {
		return false
	}
	name := p.callee(call).name
	return p.apart(call) || name == "Go" || name == "TryGo" || name == "AfterFunc" || name == "GoWithContext"
}

// around returns the function in which a node stands.
func (p *program) around(n ast.Node) *fn {
	for ; n != nil; n = p.parents[n] {
		if f := p.byNode[n]; f != nil {
			return f
		}
	}
	return nil
}

// walk visits the nodes of the body of f. It leaves out the literals in it.
func (f *fn) walk(visit func(ast.Node) bool) {
	ast.Inspect(f.body, func(n ast.Node) bool {
		if _, ok := n.(*ast.FuncLit); ok || n == nil {
			return false
		}
		return visit(n)
	})
}

// own returns the function of this package that a call names, if it names one: a declaration, or a literal in a variable.
func (p *program) own(call *ast.CallExpr) *fn {
	if obj := p.static(call); obj != nil {
		return p.byObj[p.implementation(obj)]
	}
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.FuncLit:
		return p.byNode[fun]
	case *ast.Ident:
		return p.function(fun)
	}
	return nil
}

// function returns the function of this package that an expression is: see target.
func (p *program) function(e ast.Expr) *fn { return p.target(e, 0).own }

// target is a function: one of this package, or one of another package.
type target struct {
	own   *fn
	other *types.Func
}

// target returns the function that an expression is: a literal, the name of a function or of a method, a variable or a field that holds
// one, or a call that returns a literal. A variable or a field that gets several values is not followed.
func (p *program) target(e ast.Expr, depth int) target {
	if depth > 8 { // a cycle
		return target{}
	}
	named := func(f *types.Func) target {
		f = p.implementation(f.Origin())
		if own := p.byObj[f]; own != nil || f.Pkg() == p.pass.Pkg {
			return target{own: own}
		}
		return target{other: f}
	}
	switch e := ast.Unparen(e).(type) {
	case *ast.FuncLit:
		return target{own: p.byNode[e]}
	case *ast.Ident:
		switch obj := p.info.ObjectOf(e).(type) {
		case *types.Func:
			return named(obj)
		case *types.Var:
			if defs := p.defs[obj]; len(defs) == 1 && !obj.IsField() {
				return p.target(defs[0], depth+1)
			}
		}
	case *ast.SelectorExpr:
		switch obj := p.info.Uses[e.Sel].(type) {
		case *types.Func:
			return named(obj)
		case *types.Var:
			if defs := p.fields[obj.Origin()]; len(defs) == 1 {
				return p.target(defs[0], depth+1)
			}
		}
	case *ast.IndexExpr:
		return p.target(e.X, depth+1)
	case *ast.CallExpr:
		if tv := p.info.Types[e.Fun]; tv.IsType() && len(e.Args) == 1 { // a conversion
			return p.target(e.Args[0], depth+1)
		}
		maker := p.own(e)
		if maker == nil {
			return target{}
		}
		var made target
		maker.walk(func(n ast.Node) bool {
			if ret, ok := n.(*ast.ReturnStmt); ok && len(ret.Results) > 0 {
				if lit, ok := ast.Unparen(ret.Results[0]).(*ast.FuncLit); ok {
					made.own = p.byNode[lit]
				}
			}
			return true
		})
		return made
	}
	return target{}
}

// implementation returns the method that a call of a method of an interface calls, if this package sees only one type that has it: in
// itself, or in the packages of the module that it imports. Otherwise, it returns f. A type for tests does not count.
func (p *program) implementation(f *types.Func) *types.Func {
	recv := f.Signature().Recv()
	if recv == nil || f.Pkg() == nil || !types.IsInterface(recv.Type()) || !p.inModule(f.Pkg()) {
		return f
	}
	if have, ok := p.impls[f]; ok {
		return have
	}
	if p.followed {
		return f
	}
	p.impls[f] = f
	iface, ok := recv.Type().Underlying().(*types.Interface)
	if named, isNamed := types.Unalias(recv.Type()).(*types.Named); !ok || !isNamed || named.TypeParams().Len() > 0 {
		return f
	}
	var found []*types.Func
	for _, named := range p.moduleTypes() {
		obj, _, _ := types.LookupFieldOrMethod(named, true, f.Pkg(), f.Name())
		method, ok := obj.(*types.Func)
		if !ok || types.IsInterface(method.Signature().Recv().Type()) { // only embedded
			continue
		}
		if types.Implements(types.NewPointer(named), iface) {
			found = append(found, method.Origin())
		}
	}
	if len(found) == 1 {
		p.impls[f] = found[0]
	}
	return p.impls[f]
}

// moduleTypes returns the types of this package, and of the packages of the module that it imports, that can implement an interface.
func (p *program) moduleTypes() []*types.Named {
	if p.named != nil {
		return p.named
	}
	p.named = []*types.Named{}
	for _, pkg := range append(slices.Clone(p.pass.Pkg.Imports()), p.pass.Pkg) {
		if !p.inModule(pkg) || forTests(pkg.Name()) {
			continue
		}
		for _, name := range pkg.Scope().Names() {
			typ, ok := pkg.Scope().Lookup(name).(*types.TypeName)
			if !ok || typ.IsAlias() || types.IsInterface(typ.Type()) || forTests(name) || p.inTestFile(typ) {
				continue
			}
			if named, ok := typ.Type().(*types.Named); ok && named.TypeParams().Len() == 0 {
				p.named = append(p.named, named)
			}
		}
	}
	return p.named
}

// forTests reports whether a package or a type stands in for another one in tests, by its name.
func forTests(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{"fake", "mock", "stub"} {
		if strings.HasPrefix(name, word) || strings.HasSuffix(name, word) || strings.HasSuffix(name, word+"s") {
			return true
		}
	}
	return false
}

func (p *program) inTestFile(obj types.Object) bool {
	return strings.HasSuffix(p.pass.Fset.Position(obj.Pos()).Filename, "_test.go")
}

// inModule reports whether a package belongs to the module under analysis.
func (p *program) inModule(pkg *types.Package) bool {
	module := ""
	if m := p.pass.Module; m != nil {
		module = m.Path
	}
	if module == "" {
		module, _, _ = strings.Cut(p.pass.Pkg.Path(), "/")
	}
	return pkg == p.pass.Pkg || pkg.Path() == module || strings.HasPrefix(pkg.Path(), module+"/")
}

// runsOf returns the functions that run when a call does: what it calls, and the functions among its arguments, if what it calls is known
// to call them. Literals are left out, which belong to the function in which they stand.
func (p *program) runsOf(call *ast.CallExpr) (all []target) {
	if p.apart(call) {
		return nil
	}
	callee := target{own: p.own(call)}
	if callee.own == nil {
		callee = p.target(call.Fun, 0)
	}
	if callee != (target{}) {
		all = append(all, callee)
	}
	for i, arg := range call.Args {
		if _, ok := p.info.TypeOf(arg).(*types.Signature); !ok {
			continue
		}
		if _, literal := ast.Unparen(arg).(*ast.FuncLit); literal || !p.callsArgument(call, callee.own, i) {
			continue
		}
		if passed := p.target(arg, 0); passed != (target{}) {
			all = append(all, passed)
		}
	}
	return all
}

// callsArgument reports whether a call calls one of its arguments before it returns.
func (p *program) callsArgument(call *ast.CallExpr, callee *fn, i int) bool {
	if callee == nil {
		n := p.callee(call)
		return n.pkg == module+"retry" || n.pkg == module+"wait" || n.of("store", "Patch", "PatchStatus", "CreateOrUpdate") ||
			n.pkg == "k8s.io/client-go/util/retry" || n.pkg == "k8s.io/apimachinery/pkg/util/wait" && strings.HasPrefix(n.name, "Poll") ||
			n.in(controllerRuntime+"controller/controllerutil", "CreateOrUpdate", "CreateOrPatch")
	}
	params := callee.sig.Params()
	if i >= params.Len() {
		return false
	}
	for _, inner := range callee.everyCall() {
		if id, ok := ast.Unparen(inner.Fun).(*ast.Ident); ok && p.info.Uses[id] == params.At(i) && !p.apart(inner) && !p.inApart(inner, callee) {
			return true
		}
	}
	return false
}

// inApart reports whether a node of f stands in a literal that runs in a goroutine of its own, or later.
func (p *program) inApart(n ast.Node, f *fn) bool {
	for ; n != nil && n != f.node; n = p.parents[n] {
		if lit := p.byNode[n]; lit != nil && lit.apart {
			return true
		}
	}
	return false
}

// reached returns the functions that run when a function with one of the roles runs: see reachedFrom.
func (p *program) reached(roles ...role) []*fn {
	return p.reachedFrom(slices.DeleteFunc(slices.Clone(p.funcs), func(f *fn) bool { return !slices.Contains(roles, f.role) })...)
}

// reachedFrom returns the functions that run when one of the roots runs: itself, the literals in it, and the functions of this package that
// it calls, but nothing that runs in another goroutine.
func (p *program) reachedFrom(roots ...*fn) (found []*fn) {
	seen := make(map[*fn]bool)
	var visit func(*fn)
	visit = func(f *fn) {
		if seen[f] {
			return
		}
		seen[f] = true
		found = append(found, f)
		for _, next := range p.next(f) {
			visit(next)
		}
	}
	for _, f := range roots {
		visit(f)
	}
	return found
}

// next returns the functions of this package that run when f does: the literals in it and those that it calls.
func (p *program) next(f *fn) (next []*fn) {
	for _, lit := range f.inner {
		if !lit.apart && lit.role == 0 {
			next = append(next, lit)
		}
	}
	for _, call := range f.calls {
		for _, t := range p.runs[call] {
			if t.own != nil && (t.own.role == 0 || t.own.role == reconcile) {
				next = append(next, t.own)
			}
		}
	}
	return next
}

// place words a position for people: "clients.go:12".
func (p *program) place(pos token.Pos) string {
	at := p.pass.Fset.Position(pos)
	at.Filename = filepath.Base(at.Filename)
	at.Column = 0
	return at.String()
}
