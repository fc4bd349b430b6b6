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
	defs       map[types.Object][]ast.Expr // what is assigned to a variable, if one expression is
	others     map[*types.Func]*effects    // of functions of other packages
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
)

func (r role) String() string {
	return [...]string{"function", "reconcile", "handler", "filter", "mapper"}[r]
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
		others:  make(map[*types.Func]*effects),
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
	p.assignRoles()
	p.follow()
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
				if id, ok := lhs.(*ast.Ident); ok && len(n.Lhs) == len(n.Rhs) {
					p.define(id, n.Rhs[i])
				} else if ok {
					p.define(id, n.Rhs[0])
				}
			}
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

// startedApart reports whether a literal does not run where it stands: after go, in a group of goroutines, or after a time.
func (p *program) startedApart(lit *ast.FuncLit) bool {
	call, ok := p.parents[lit].(*ast.CallExpr)
	if !ok {
		return false
	}
	name := p.callee(call).name
	return p.apart(call) || name == "Go" || name == "TryGo" || name == "AfterFunc" || name == "GoWithContext"
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

// own returns the function of this package that a call calls, if that is known: a declaration, or a literal in a variable.
func (p *program) own(call *ast.CallExpr) *fn {
	if obj := p.static(call); obj != nil {
		return p.byObj[obj]
	}
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.FuncLit:
		return p.byNode[fun]
	case *ast.Ident:
		return p.function(fun)
	}
	return nil
}

// function returns the function that an expression is: a literal, the name of a function or of a method, a variable that holds one, or a
// call that returns a literal.
func (p *program) function(e ast.Expr) *fn {
	switch e := ast.Unparen(e).(type) {
	case *ast.FuncLit:
		return p.byNode[e]
	case *ast.Ident:
		switch obj := p.info.ObjectOf(e).(type) {
		case *types.Func:
			return p.byObj[obj.Origin()]
		case *types.Var:
			if defs := p.defs[obj]; len(defs) == 1 && !obj.IsField() {
				if _, ok := ast.Unparen(defs[0]).(*ast.Ident); !ok { // no cycles
					return p.function(defs[0])
				}
			}
		}
	case *ast.SelectorExpr:
		if obj, ok := p.info.Uses[e.Sel].(*types.Func); ok {
			return p.byObj[obj.Origin()]
		}
	case *ast.IndexExpr:
		return p.function(e.X)
	case *ast.CallExpr:
		if tv := p.info.Types[e.Fun]; tv.IsType() && len(e.Args) == 1 { // a conversion
			return p.function(e.Args[0])
		}
		maker := p.own(e)
		if maker == nil {
			return nil
		}
		var made *fn
		maker.walk(func(n ast.Node) bool {
			if ret, ok := n.(*ast.ReturnStmt); ok && len(ret.Results) > 0 {
				if lit, ok := ast.Unparen(ret.Results[0]).(*ast.FuncLit); ok {
					made = p.byNode[lit]
				}
			}
			return true
		})
		return made
	}
	return nil
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
		if callee := p.own(call); callee != nil && !p.apart(call) && (callee.role == 0 || callee.role == reconcile) {
			next = append(next, callee)
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
