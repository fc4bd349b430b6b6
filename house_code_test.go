package setpoint_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

func globals(t *tree) (problems []string) {
	for _, files := range t.packages {
		written := writtenNames(files)
		for _, f := range files {
			if !f.library() {
				continue
			}
			for _, decl := range f.ast.Decls {
				if decl, ok := decl.(*ast.FuncDecl); ok && decl.Recv == nil && decl.Name.Name == "init" {
					problems = append(problems, t.at(decl.Pos(), "func init"))
				}
			}
			for spec := range valueSpecs(f, token.VAR) {
				if name := spec.Names[0].Name; !fixed(spec) || written[name] {
					problems = append(problems, t.at(spec.Pos(), "package variable %s may change", name))
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
	case *ast.CompositeLit: // nobody outside may write to it, so that it is enough to look at this package
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

// writtenNames returns the names that are assigned to, in whole or in part, or whose address is taken.
func writtenNames(files []*goFile) map[string]bool {
	names := make(map[string]bool)
	write := func(e ast.Expr) {
		for {
			switch x := e.(type) {
			case *ast.IndexExpr:
				e = x.X
			case *ast.SelectorExpr:
				e = x.X
			case *ast.Ident:
				names[x.Name] = true
				return
			default:
				return
			}
		}
	}
	for _, f := range files {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					for _, e := range n.Lhs {
						write(e)
					}
				}
			case *ast.IncDecStmt:
				write(n.X)
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					write(n.X)
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "delete" || f.Name == "clear" || f.Name == "copy") && len(n.Args) > 0 {
					write(n.Args[0])
				}
			}
			return true
		})
	}
	return names
}

// valueSpecs yields the package variables or constants of f.
func valueSpecs(f *goFile, tok token.Token) func(yield func(*ast.ValueSpec) bool) {
	return func(yield func(*ast.ValueSpec) bool) {
		for _, decl := range f.ast.Decls {
			decl, ok := decl.(*ast.GenDecl)
			if !ok || decl.Tok != tok {
				continue
			}
			for _, spec := range decl.Specs {
				if !yield(spec.(*ast.ValueSpec)) {
					return
				}
			}
		}
	}
}

// configErrors wants an error as the last result of each exported function that takes a Config, so that a bad Config is
// reported in one way: a constructor neither panics about one nor mends it in silence.
func configErrors(t *tree) (problems []string) {
	for _, f := range t.code {
		if f.test || !strings.HasPrefix(f.dir, "examples") && !f.library() {
			continue
		}
		for _, decl := range f.ast.Decls {
			decl, ok := decl.(*ast.FuncDecl)
			if ok && decl.Recv == nil && decl.Name.IsExported() && takesConfig(decl.Type) && !returnsError(decl.Type) {
				problems = append(problems, t.at(decl.Pos(), "%s takes a Config and returns no error", decl.Name.Name))
			}
		}
	}
	return problems
}

// comparableConfigs wants that no exported Config can be compared: it has a func, a slice, a map, or an array of funcs. Otherwise, the first func
// field would break programs that compare it.
func comparableConfigs(t *tree) (problems []string) {
	for _, f := range t.code {
		if f.test || within(f.dir, "examples") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || !spec.Name.IsExported() || !strings.HasSuffix(spec.Name.Name, "Config") {
				return true
			}
			if fields, ok := spec.Type.(*ast.StructType); ok && !slices.ContainsFunc(fields.Fields.List, cannotCompare) {
				problems = append(problems, t.at(spec.Pos(), "%s can be compared: add a field _ [0]func()", spec.Name.Name))
			}
			return true
		})
	}
	return problems
}

// cannotCompare reports whether a field makes its struct one that cannot be compared.
func cannotCompare(field *ast.Field) bool {
	switch typ := field.Type.(type) {
	case *ast.FuncType, *ast.MapType:
		return true
	case *ast.ArrayType:
		_, funcs := typ.Elt.(*ast.FuncType)
		return typ.Len == nil || funcs
	}
	return false
}

// prefixes wants that no text repeats the prefix of a package: an error that wraps a sentinel, a text that a test or a document expects, and
// the second line of a joined error, which would have none.
func prefixes(t *tree) (problems []string) {
	names := make(map[string]bool)
	sentinels := make(map[string]bool) // directory/name of those with the prefix of their package
	for _, f := range t.code {
		if f.test {
			continue
		}
		names[f.ast.Name.Name] = f.ast.Name.Name != "main"
		for spec := range valueSpecs(f, token.VAR) {
			if len(spec.Values) == 1 && strings.HasPrefix(textOf(spec.Values[0]), f.ast.Name.Name+": ") {
				sentinels[f.dir+"/"+spec.Names[0].Name] = true
			}
		}
	}
	for _, f := range t.code {
		if f.test || within(f.dir, "examples") {
			continue
		}
		for _, decl := range f.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if fn.Name.Name == "validate" && callee(call) == "errors.Join" {
					problems = append(problems, t.at(call.Pos(), "validate makes an error of several lines: use problems.Join"))
				}
				if callee(call) != "fmt.Errorf" || !strings.HasPrefix(textOf(call), f.ast.Name.Name+": ") {
					return true
				}
				for _, arg := range call.Args[1:] {
					if name, ok := arg.(*ast.Ident); ok && sentinels[f.dir+"/"+name.Name] {
						problems = append(problems, t.at(arg.Pos(), "the text has the prefix %s twice: %s has one", f.ast.Name.Name, name.Name))
					}
				}
				return true
			})
		}
	}
	for _, file := range slices.Sorted(maps.Keys(t.files)) {
		if !strings.HasSuffix(file, "_test.go") && path.Ext(file) != ".md" || path.Dir(file) == "." {
			continue
		}
		for i, line := range strings.Split(t.files[file], "\n") {
			for text := range strings.SplitSeq(line, `\n`) {
				if name := repeatedPrefix(text); names[name] {
					problems = append(problems, fmt.Sprintf("%s:%d: the text has the prefix %s twice", file, i+1, name))
				}
			}
		}
	}
	return problems
}

// textOf returns the text of a call of errors.New or fmt.Errorf, or "".
func textOf(value ast.Expr) string {
	call, ok := value.(*ast.CallExpr)
	if !ok || callee(call) != "errors.New" && callee(call) != "fmt.Errorf" || len(call.Args) == 0 {
		return ""
	}
	text, ok := call.Args[0].(*ast.BasicLit)
	if !ok {
		return ""
	}
	return strings.Trim(text.Value, "\"`")
}

// prefix matches what may be the prefix of an error text.
var prefix = regexp.MustCompile(`\b[a-z]+: `)

// repeatedPrefix returns the prefix that a text has, and that follows another colon in it; or "".
func repeatedPrefix(text string) string {
	if strings.Count(text, ": ") < 2 {
		return "" // most lines, at little cost
	}
	for _, at := range prefix.FindAllStringIndex(text, -1) {
		if name := text[at[0]:at[1]]; strings.Contains(text[at[1]-2:], ": "+name) {
			return strings.TrimSuffix(name, ": ")
		}
	}
	return ""
}

// takesConfig reports whether the type of a parameter has a name that ends in Config.
func takesConfig(fn *ast.FuncType) bool {
	return slices.ContainsFunc(fn.Params.List, func(param *ast.Field) bool {
		typ := param.Type
		for {
			switch t := typ.(type) {
			case *ast.StarExpr:
				typ = t.X
			case *ast.Ellipsis:
				typ = t.Elt
			case *ast.IndexExpr:
				typ = t.X
			case *ast.IndexListExpr:
				typ = t.X
			case *ast.SelectorExpr:
				typ = t.Sel
			case *ast.Ident:
				return strings.HasSuffix(t.Name, "Config")
			default:
				return false
			}
		}
	})
}

func returnsError(fn *ast.FuncType) bool {
	if fn.Results == nil {
		return false
	}
	last, ok := fn.Results.List[len(fn.Results.List)-1].Type.(*ast.Ident)
	return ok && last.Name == "error"
}

// typesInExamples wants an example of every exported type: one that names it, or one of its constants, or calls a
// function that takes or returns it. The package of a conformance suite is exempt, since a test calls it, and so is an
// internal one, which no user meets.
func typesInExamples(t *tree) (problems []string) {
	for dir, files := range t.packages {
		if !inLibrary(files[0]) || strings.HasSuffix(dir, "test") || slices.Contains(strings.Split(dir, "/"), "internal") {
			continue
		}
		shown, called := make(map[string]bool), make(map[string]bool)
		for _, f := range files {
			if f.test && strings.HasPrefix(path.Base(f.path), "example_") {
				collectShown(f, shown, called)
			}
		}
		for _, f := range files {
			for _, name := range shownIndirectly(f, shown, called) {
				shown[name] = true
			}
		}
		for _, f := range files {
			for _, decl := range f.ast.Decls {
				decl, ok := decl.(*ast.GenDecl)
				if !ok || decl.Tok != token.TYPE || f.test {
					continue
				}
				for _, spec := range decl.Specs {
					if name := spec.(*ast.TypeSpec).Name; name.IsExported() && !shown[name.Name] {
						problems = append(problems, t.at(name.Pos(), "%s stands in no example_*_test.go of its package", name.Name))
					}
				}
			}
		}
	}
	return problems
}

// offersInExamples wants an example, or an example program, that uses each name in a table of the README. Of a qualified name,
// the last part counts.
func offersInExamples(t *tree) (problems []string) {
	shown := make(map[string]bool)
	for _, f := range t.code {
		if within(f.dir, "examples") || f.test && strings.HasPrefix(path.Base(f.path), "example_") {
			collectShown(f, shown, make(map[string]bool))
		}
	}
	span, name := regexp.MustCompile("`[^`]+`"), regexp.MustCompile(`[\w.]+`)
	for at, line := range t.prose {
		if at.file != "README.md" || !strings.HasPrefix(line, "|") {
			continue
		}
		for _, s := range span.FindAllString(line, -1) {
			for _, n := range name.FindAllString(s, -1) {
				n = n[strings.LastIndexByte(n, '.')+1:]
				if token.IsExported(n) && !shown[n] {
					problems = append(problems, at.String()+": offers "+n+", which stands in no example")
				}
			}
		}
	}
	return problems
}

// collectShown adds the names that an example file uses, and those that it calls.
func collectShown(f *goFile, shown, called map[string]bool) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if name, ok := strings.CutPrefix(n.Name.Name, "Example"); ok {
				name, _, _ = strings.Cut(name, "_")
				shown[name] = true
			}
		case *ast.Ident:
			shown[n.Name] = true
		case *ast.CallExpr:
			fun := n.Fun
			if index, ok := fun.(*ast.IndexExpr); ok {
				fun = index.X
			}
			if sel, ok := fun.(*ast.SelectorExpr); ok {
				called[sel.Sel.Name] = true
			}
		}
		return true
	})
}

// shownIndirectly returns the types of the constants that are shown, and those in the signatures of the functions that are called. A method does not count: another type may have one of its name.
func shownIndirectly(f *goFile, shown, called map[string]bool) (names []string) {
	if f.test {
		return nil
	}
	var typ ast.Expr // goes on through a group with iota
	for spec := range valueSpecs(f, token.CONST) {
		if spec.Type != nil || spec.Values != nil {
			typ = spec.Type
		}
		if name, ok := typ.(*ast.Ident); ok && shown[spec.Names[0].Name] {
			names = append(names, name.Name)
		}
	}
	for _, decl := range f.ast.Decls {
		if decl, ok := decl.(*ast.FuncDecl); ok && decl.Recv == nil && called[decl.Name.Name] {
			ast.Inspect(decl.Type, func(n ast.Node) bool {
				if name, ok := n.(*ast.Ident); ok {
					names = append(names, name.Name)
				}
				return true
			})
		}
	}
	return names
}

// locksOf returns where the mutexes in the structs of f are, by package.Type.field.
func locksOf(f *goFile) map[string]token.Pos {
	locks := make(map[string]token.Pos)
	ast.Inspect(f.ast, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if structure, ok := spec.Type.(*ast.StructType); ok {
			for _, field := range structure.Fields.List {
				sel, ok := field.Type.(*ast.SelectorExpr)
				if !ok || sel.Sel.Name != "Mutex" && sel.Sel.Name != "RWMutex" {
					continue
				}
				for _, name := range field.Names {
					locks[f.ast.Name.Name+"."+spec.Name.Name+"."+name.Name] = name.Pos()
				}
			}
		}
		return true
	})
	return locks
}
