package house_test

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

func globals(t *tree) (problems []string) {
	for _, f := range t.code {
		if !f.library() {
			continue
		}
		for _, decl := range f.ast.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Recv == nil && decl.Name.Name == "init" {
					problems = append(problems, t.at(decl.Pos(), "func init"))
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					if spec, ok := spec.(*ast.ValueSpec); ok && decl.Tok == token.VAR && !fixed(spec) {
						problems = append(problems, t.at(spec.Pos(), "package variable %s may change", spec.Names[0].Name))
					}
				}
			}
		}
	}
	return problems
}

// fixed reports whether a package variable is one of those that are there to be read: an assertion that a type has an
// interface, a sentinel, a table, the description of a type, a flag of go test, embedded files.
func fixed(spec *ast.ValueSpec) bool {
	name := spec.Names[0]
	switch {
	case len(spec.Names) != 1:
		return false
	case name.Name == "_":
		return true
	case spec.Type != nil && types.ExprString(spec.Type) == "embed.FS": // which cannot be written to
		return !name.IsExported()
	case len(spec.Values) != 1:
		return false
	}
	switch value := spec.Values[0].(type) {
	case *ast.SelectorExpr: // a sentinel of another package
		return strings.HasPrefix(value.Sel.Name, "Err")
	case *ast.CallExpr:
		made := callee(value)
		sentinel := strings.HasPrefix(strings.ToLower(name.Name), "err") && (made == "errors.New" || made == "fmt.Errorf")
		return sentinel || made == "reflect.TypeFor" || made == "flag.String" && strings.HasSuffix(name.Name, "Flag")
	case *ast.CompositeLit: // a table; nobody outside may write to it
		switch value.Type.(type) {
		case *ast.ArrayType, *ast.MapType:
			return !name.IsExported()
		}
	}
	return false
}

// callee returns "package.Func" for a call of that.
func callee(call *ast.CallExpr) string {
	fun := call.Fun
	if index, ok := fun.(*ast.IndexExpr); ok {
		fun = index.X // its type arguments
	}
	if sel, ok := fun.(*ast.SelectorExpr); ok {
		if pkg, ok := sel.X.(*ast.Ident); ok {
			return pkg.Name + "." + sel.Sel.Name
		}
	}
	return ""
}
