package vet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

const module = "github.com/setpoint-go/setpoint/"

// name names a function: the path of its package, the type of its receiver, and its own name.
type name struct{ pkg, recv, name string }

// of reports whether n is one of the functions or methods of a package of setpoint: "Informer.Get", "New".
func (n name) of(pkg string, names ...string) bool {
	return n.pkg == module+pkg && slices.Contains(names, n.short())
}

// in reports whether n is one of the functions or methods of a package.
func (n name) in(pkg string, names ...string) bool {
	return n.pkg == pkg && slices.Contains(names, n.short())
}

// builtin reports whether n is one of the functions of the language.
func (n name) builtin(names ...string) bool {
	return n.pkg == "" && n.recv == "" && slices.Contains(names, n.name)
}

func (n name) short() string {
	if n.recv == "" {
		return n.name
	}
	return n.recv + "." + n.name
}

// String is the name as the code writes it: "time.Sleep", "Informer.Get".
func (n name) String() string {
	if n.recv == "" && n.pkg != "" {
		return n.pkg[strings.LastIndex(n.pkg, "/")+1:] + "." + n.name
	}
	return n.short()
}

// static returns the function or method that a call names, if it is not a value. A method of an interface is one.
func (p *program) static(call *ast.CallExpr) *types.Func {
	f, _ := typeutil.Callee(p.info, call).(*types.Func)
	if f == nil {
		return nil
	}
	return f.Origin()
}

// callee names the function that a call calls. It returns no name for the value of a variable.
func (p *program) callee(call *ast.CallExpr) name {
	f := p.static(call)
	if f == nil {
		if b, ok := typeutil.Callee(p.info, call).(*types.Builtin); ok {
			return name{name: b.Name()}
		}
		return name{}
	}
	return nameOf(f)
}

func nameOf(f *types.Func) name {
	n := name{name: f.Name()}
	if f.Pkg() != nil {
		n.pkg = unversioned(f.Pkg().Path())
	}
	if recv := f.Signature().Recv(); recv != nil {
		_, n.recv = typeName(recv.Type())
	}
	return n
}

// unversioned removes what a vendor directory adds to a path.
func unversioned(path string) string {
	if _, after, ok := strings.Cut(path, "/vendor/"); ok {
		return after
	}
	return path
}

// typeName returns the package and the name of a named type, or of what a pointer to one points to.
func typeName(t types.Type) (pkg, name string) {
	if t == nil {
		return "", ""
	}
	if ptr, ok := types.Unalias(t).(*types.Pointer); ok {
		t = ptr.Elem()
	}
	named, ok := types.Unalias(t).(*types.Named)
	if !ok {
		return "", ""
	}
	if named.Obj().Pkg() != nil {
		pkg = unversioned(named.Obj().Pkg().Path())
	}
	return pkg, named.Obj().Name()
}

func isType(t types.Type, pkg string, names ...string) bool {
	p, n := typeName(t)
	return p == pkg && slices.Contains(names, n)
}

func isContext(t types.Type) bool {
	if _, ok := types.Unalias(t).(*types.Named); !ok {
		return false
	}
	return isType(t, "context", "Context")
}

func isError(t types.Type) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Pkg() == nil && named.Obj().Name() == "error"
}

// isResult reports whether t is the Result of a reconcile: of this library, or of controller-runtime.
func isResult(t types.Type) bool {
	if _, pointer := types.Unalias(t).(*types.Pointer); pointer {
		return false
	}
	return isType(t, module+"controller", "Result") || isType(t, controllerRuntime+"reconcile", "Result")
}

const controllerRuntime = "sigs.k8s.io/controller-runtime/pkg/"

// hasReconcileShape reports whether a signature is func(context.Context, K) (Result, error).
func hasReconcileShape(sig *types.Signature) bool {
	in, out := sig.Params(), sig.Results()
	return in.Len() == 2 && out.Len() == 2 && isContext(in.At(0).Type()) && isResult(out.At(0).Type()) && isError(out.At(1).Type())
}

// takesContext reports whether a call passes a context.
func (p *program) takesContext(call *ast.CallExpr) bool {
	return slices.ContainsFunc(call.Args, func(arg ast.Expr) bool { return isContext(p.info.TypeOf(arg)) })
}

// returnsError reports whether the last result of a call is an error.
func (p *program) returnsError(call *ast.CallExpr) bool {
	switch t := p.info.TypeOf(call).(type) {
	case *types.Tuple:
		return t.Len() > 0 && isError(t.At(t.Len()-1).Type())
	case types.Type:
		return isError(t)
	}
	return false
}

// isWrite reports whether a call writes an object to a store or to an API server.
func (p *program) isWrite(call *ast.CallExpr) bool {
	n := p.callee(call)
	verb := slices.Contains([]string{"Create", "Update", "UpdateStatus", "Patch", "PatchStatus", "Delete", "DeleteAllOf", "Apply", "ApplyStatus"}, n.name)
	switch {
	case n.pkg == module+"store":
		return n.recv == "Store" && verb || n.recv == "" && (n.name == "Patch" || n.name == "PatchStatus" || n.name == "CreateOrUpdate")
	case n.pkg == module+"owner":
		return n.of("owner", "Children.Apply", "Children.Claim", "Finalizer.Reconcile", "Cascade", "Delete")
	case n.pkg == controllerRuntime+"client":
		return verb
	case n.pkg == controllerRuntime+"controller/controllerutil":
		return n.name == "CreateOrUpdate" || n.name == "CreateOrPatch"
	case verb: // a typed client of Kubernetes
		sig, _ := p.info.TypeOf(call.Fun).(*types.Signature)
		for i := 0; sig != nil && i < sig.Params().Len(); i++ {
			if isType(sig.Params().At(i).Type(), "k8s.io/apimachinery/pkg/apis/meta/v1", "CreateOptions", "UpdateOptions", "PatchOptions", "DeleteOptions", "ApplyOptions") {
				return true
			}
		}
	}
	return false
}

// isLog reports whether a call only writes to a log.
func (p *program) isLog(call *ast.CallExpr) bool {
	n := p.callee(call)
	for _, pkg := range []string{"log", "k8s.io/klog", "github.com/go-logr/logr", "go.uber.org/zap", "github.com/sirupsen/logrus", "github.com/rs/zerolog"} {
		if n.pkg == pkg || strings.HasPrefix(n.pkg, pkg+"/") {
			return true
		}
	}
	return n.pkg == "fmt" && strings.Contains(n.name, "rint") && !strings.HasPrefix(n.name, "S")
}

// isEvent reports whether a call only records an event for people.
func (p *program) isEvent(call *ast.CallExpr) bool {
	n := p.callee(call)
	return n.pkg == module+"events" && n.recv == "Recorder" ||
		(n.pkg == "k8s.io/client-go/tools/record" || n.pkg == "k8s.io/client-go/tools/events") && strings.HasSuffix(n.recv, "Recorder")
}

// isRead reports whether a call reads an object from a store or from an API server.
func (p *program) isRead(call *ast.CallExpr) bool {
	n := p.callee(call)
	return (n.pkg == module+"store" && n.recv == "Store" || n.pkg == controllerRuntime+"client") && (n.name == "Get" || n.name == "List" || n.name == "Select") ||
		p.asksAPIServer(call)
}

// isAbsence reports whether an expression is true only if an object is not there.
func (p *program) isAbsence(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.UnaryExpr:
		id, ok := ast.Unparen(e.X).(*ast.Ident)
		if !ok || e.Op != token.NOT {
			return false
		}
		defs := p.defs[p.info.ObjectOf(id)]
		if len(defs) != 1 {
			return false
		}
		call, ok := ast.Unparen(defs[0]).(*ast.CallExpr)
		return ok && strings.HasPrefix(p.callee(call).name, "Get")
	case *ast.CallExpr:
		if p.callee(e).in("errors", "Is") && len(e.Args) == 2 {
			return strings.HasSuffix(types.ExprString(e.Args[1]), "NotFound")
		}
		return p.callee(e).name == "IsNotFound"
	}
	return false
}

// text returns the value of a constant string.
func (p *program) text(e ast.Expr) (string, bool) {
	if v := p.info.Types[e].Value; v != nil && v.Kind() == constant.String {
		return constant.StringVal(v), true
	}
	return "", false
}

// number returns the value of a constant number.
func (p *program) number(e ast.Expr) (int64, bool) {
	if v := p.info.Types[e].Value; v != nil {
		return constant.Int64Val(constant.ToInt(v))
	}
	return 0, false
}

// isNil reports whether an expression is the word nil.
func (p *program) isNil(e ast.Expr) bool { return p.info.Types[e].IsNil() }
