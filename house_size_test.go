package setpoint_test

import (
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/scanner"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A package that a newcomer can learn has at most so many lines of code and files. A larger one says why in docs/sizes.md.
const (
	fewLines = 1500
	fewFiles = 10
)

// twoScreens is how many lines go doc prints of a package at most.
const twoScreens = 105

// sizeRow is a row of docs/sizes.md: | `package` | names | lines | files | why it is larger |
var sizeRow = regexp.MustCompile("(?m)^\\| `([\\w/]+)` \\| (\\d+) \\| (\\d+) \\| (\\d+) \\| (.*)\\|$")

// size is the size of one package, or the limits of one.
type size struct{ names, lines, files int }

// packageSizes compares the packages with docs/sizes.md: the number of exported names is exact, so that it changes only on
// purpose; lines and files are limits.
func packageSizes(t *tree) (problems []string) {
	const document = "docs/sizes.md"
	limits := make(map[string]size)
	for _, row := range sizeRow.FindAllStringSubmatch(t.files[document], -1) {
		limit := size{number(row[2]), number(row[3]), number(row[4])}
		limits[row[1]] = limit
		if (limit.lines > fewLines || limit.files > fewFiles) && strings.TrimSpace(row[5]) == "" {
			problems = append(problems, fmt.Sprintf("%s: does not say why %s is larger than others", document, row[1]))
		}
	}
	for dir, files := range t.packages {
		files = slices.DeleteFunc(slices.Clone(files), func(f *goFile) bool { return !f.library() })
		if len(files) == 0 {
			continue
		}
		limit, ok := limits[dir]
		if !ok {
			problems = append(problems, fmt.Sprintf("%s: has no row for %s", document, dir))
			continue
		}
		delete(limits, dir)
		is := size{files: len(files)}
		for _, f := range files {
			is.lines += codeLines(f.src)
			is.names += exportedNames(f)
		}
		if is.names != limit.names {
			problems = append(problems, fmt.Sprintf("%s: %s has %d exported names, not %d", document, dir, is.names, limit.names))
		}
		if is.lines > limit.lines {
			problems = append(problems, fmt.Sprintf("%s: has %d lines of code, more than %d", dir, is.lines, limit.lines))
		}
		if is.files > limit.files {
			problems = append(problems, fmt.Sprintf("%s: has %d files, more than %d", dir, is.files, limit.files))
		}
	}
	for dir := range limits {
		problems = append(problems, fmt.Sprintf("%s: has a row for %s, which is no package", document, dir))
	}
	slices.Sort(problems)
	return problems
}

// flagship counts the lines of code of examples/tenants, without its fake cloud, and without the story that its demo tells.
func flagship(t *tree) (problems []string) {
	story := []string{"demo.go", "replica.go", "sys_unix.go", "sys_other.go"}
	lines := 0
	for _, f := range t.code {
		if f.dir == "examples/tenants" && !f.test && !slices.Contains(story, path.Base(f.path)) {
			lines += codeLines(f.src)
		}
	}
	if lines > 700 {
		problems = append(problems, fmt.Sprintf("examples/tenants: has %d lines of code, more than 700", lines))
	}
	return problems
}

func number(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		panic(err) // sizeRow has matched it
	}
	return n
}

// codeLines returns the number of lines that hold more than space and comments.
func codeLines(src []byte) (n int) {
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, 0)
	last := 0
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return n
		}
		if tok == token.SEMICOLON && lit == "\n" {
			continue
		}
		first := file.Line(pos)
		end := first + strings.Count(lit, "\n") // of a raw string
		n += end - max(first-1, last)
		last = end
	}
}

// exportedNames returns the number of exported names that a file declares at the top level. A method is not one of them.
func exportedNames(f *goFile) (n int) {
	for _, decl := range f.ast.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil && decl.Name.IsExported() {
				n++
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				n += exportedIn(spec)
			}
		}
	}
	return n
}

// shortDocs compares what go doc prints of each package of the library, and of the nested modules, with two screens. It also checks the
// headings and the lists.
func shortDocs(t *tree) (problems []string) {
	byDir := make(map[string][]*goFile)
	for _, f := range t.code {
		if f.library() || f.nested && !f.test {
			byDir[f.dir] = append(byDir[f.dir], f)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(byDir)) {
		if n := godocLines(byDir[dir]); n > twoScreens {
			problems = append(problems, fmt.Sprintf("%s: go doc prints %d lines, more than %d", dir, n, twoScreens))
		}
		for _, f := range byDir[dir] {
			if line := brokenMarkup(f.ast.Doc.Text()); line != "" {
				problems = append(problems, dir+": the package comment does not render: "+line)
			}
		}
	}
	return problems
}

// brokenMarkup returns the first line of a comment that go doc does not show as it is meant, or "": a heading that a blank line does not
// separate from the text, or an item of a list whose number does not follow the one before.
func brokenMarkup(doc string) string {
	item := regexp.MustCompile(`^ +(\d+)\. `)
	lines := strings.Split(doc, "\n")
	last := 0
	for i, line := range lines {
		if strings.HasPrefix(line, "# ") && (i > 0 && lines[i-1] != "" || lines[i+1] != "") {
			return line
		}
		if m := item.FindStringSubmatch(line); m != nil {
			n := number(m[1])
			if n != 1 && n != last+1 {
				return line
			}
			last = n
		}
	}
	return ""
}

// godocLines returns the number of lines that go doc prints of a package: its clause, its documentation, a line for each
// exported type and function, and a line for each declaration of exported constants or variables.
func godocLines(files []*goFile) int {
	text, decls := "", 0
	for _, f := range files {
		text += f.ast.Doc.Text()
		for _, decl := range f.ast.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Recv == nil && decl.Name.IsExported() {
					decls++
				}
			case *ast.GenDecl:
				n := 0
				for _, spec := range decl.Specs {
					n += exportedIn(spec)
				}
				if n > 0 && decl.Tok != token.TYPE {
					n = 1 // the first, and three dots
				}
				decls += n
			}
		}
	}
	known := comment.Parser{
		LookupSym:     func(_, _ string) bool { return true },
		LookupPackage: func(string) (string, bool) { return "", true },
	}
	doc := new(comment.Printer).Text(known.Parse(text))
	return 3 + strings.Count(string(doc), "\n") + decls // the clause, and a blank line before and after the documentation
}

// exportedIn returns the number of exported names that a type, or a line of constants or variables, declares.
func exportedIn(spec ast.Spec) (n int) {
	var names []*ast.Ident
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		names = []*ast.Ident{spec.Name}
	case *ast.ValueSpec:
		names = spec.Names
	}
	for _, name := range names {
		if name.IsExported() {
			n++
		}
	}
	return n
}
