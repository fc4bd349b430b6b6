package house_test

import (
	"go/ast"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// names checks that what a Markdown file names in a code span, as `store.Memory` or `informer.Handler.Filter`, is there.
// Names that are qualified by anything but a package of this repository are skipped.
func names(t *tree) (problems []string) {
	packages, declared := declarations(t)
	span, name := regexp.MustCompile("`[^`]+`"), regexp.MustCompile(`\b([a-z]\w*)\.[A-Z]\w*(\.[A-Z]\w*)*`)
	for at, line := range t.prose {
		for _, s := range span.FindAllString(line, -1) {
			for _, m := range name.FindAllStringSubmatch(s, -1) {
				if packages[m[1]] && !declared[m[0]] {
					problems = append(problems, at.String()+": names "+m[0]+", which does not exist")
				}
			}
		}
	}
	return problems
}

// declarations returns the names of the packages, and what they declare: "wait.Backoff", "wait.Backoff.Cap".
func declarations(t *tree) (packages, declared map[string]bool) {
	packages, declared = make(map[string]bool), make(map[string]bool)
	for _, f := range t.code {
		if f.test || f.ast.Name.Name == "main" {
			continue
		}
		pkg := f.ast.Name.Name
		packages[pkg] = true
		for _, decl := range f.ast.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				declared[qualified(pkg, receiver(decl), decl.Name.Name)] = true
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					switch spec := spec.(type) {
					case *ast.ValueSpec:
						for _, name := range spec.Names {
							declared[pkg+"."+name.Name] = true
						}
					case *ast.TypeSpec:
						declared[pkg+"."+spec.Name.Name] = true
						for _, member := range members(spec.Type) {
							declared[qualified(pkg, spec.Name.Name, member)] = true
						}
					}
				}
			}
		}
	}
	return packages, declared
}

// operating checks that the metrics, the log messages (in quotes), and the alerts exist that the operating guide names, and the pages of the
// databases that belong to it.
func operating(t *tree) (problems []string) {
	var code, metrics strings.Builder
	for _, f := range t.code {
		switch {
		case f.test || within(f.dir, "examples"):
		case f.dir == "metrics/prometheus":
			metrics.Write(f.src)
		default:
			code.Write(f.src)
		}
	}
	metric := regexp.MustCompile(`^(setpoint|workqueue|controller_runtime|leader_election)_\w+$`)
	pages := []string{"docs/operating.md"}
	for name := range t.files {
		if path.Dir(path.Dir(name)) == "store" && path.Base(name) == "README.md" {
			pages = append(pages, name)
		}
	}
	for _, file := range pages {
		page := t.files[file]
		alerts := strings.Index(page, "\n## Alerts\n")
		for _, m := range regexp.MustCompile("`[^`\n]+`").FindAllStringIndex(page, -1) {
			name := strings.Trim(page[m[0]:m[1]], "`")
			alert := alerts >= 0 && m[0] > alerts && !strings.Contains(page[alerts+1:m[0]], "\n## ") && regexp.MustCompile(`^[A-Z]\w+$`).MatchString(name)
			if metric.MatchString(name) && !strings.Contains(metrics.String(), `"`+name+`"`) ||
				strings.HasPrefix(name, `"`) && !strings.Contains(code.String(), name) ||
				alert && !strings.Contains(t.files["docs/metrics.md"], "alert: "+name+"\n") {
				problems = append(problems, file+": names "+name+", which does not exist")
			}
		}
	}
	return problems
}

func qualified(pkg, typ, name string) string {
	if typ == "" {
		return pkg + "." + name
	}
	return pkg + "." + typ + "." + name
}

// receiver returns the name of the type of a method, and nothing for a function.
func receiver(decl *ast.FuncDecl) (name string) {
	if decl.Recv == nil {
		return ""
	}
	ast.Inspect(decl.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return true
	})
	return name
}

// members returns the fields of a struct, and the methods of an interface.
func members(typ ast.Expr) (members []string) {
	var list *ast.FieldList
	switch typ := typ.(type) {
	case *ast.StructType:
		list = typ.Fields
	case *ast.InterfaceType:
		list = typ.Methods
	default:
		return nil
	}
	for _, field := range list.List {
		for _, name := range field.Names {
			members = append(members, name.Name)
		}
	}
	return members
}

// place is a line of a file, counted from 1.
type place struct {
	file string
	line int
}

func (p place) String() string { return p.file + ":" + strconv.Itoa(p.line) }

// prose yields the lines of the Markdown files that stand in no block of code, file by file.
func (t *tree) prose(yield func(place, string) bool) {
	for _, name := range slices.Sorted(maps.Keys(t.files)) {
		if path.Ext(name) != ".md" {
			continue
		}
		code, n := false, 0
		for line := range strings.Lines(t.files[name]) {
			n++
			if strings.HasPrefix(line, "```") {
				code = !code
			} else if !code && !yield(place{name, n}, line) {
				return
			}
		}
	}
}
