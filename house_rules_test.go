package setpoint_test

import (
	"bytes"
	"fmt"
	godoc "go/doc"
	"go/doc/comment"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

// rule is one rule of the house. check returns the violations in a tree.
type rule struct {
	name  string
	check func(*tree) []string
}

var rules = []rule{
	{"top-level directories match the design", topLevel},
	{"go.mod requires only agreed modules", goMod},
	{"go.work has every module", workspace},
	{"code imports only the standard library, x/time/rate, and the project", foreignImports},
	{"a package imports only packages below it", layers},
	{"the diagram of the layers has every package", diagram},
	{"every package is documented, and library packages list their guarantees", packageDocs},
	{"no package has global state or init", globals},
	{"functions that take a Config return an error", configErrors},
	{"a Config is not comparable", comparableConfigs},
	{"an error text has the prefix of a package once", prefixes},
	{"every exported type appears in an example", typesInExamples},
	{"every README feature appears in an example", offersInExamples},
	{"the lock table of docs/internals.md is complete", lockTable},
	{"files are small", fileSizes},
	{"packages have the agreed size", packageSizes},
	{"the flagship has at most 700 lines", flagship},
	{"the documentation of a package renders, on two screens", shortDocs},
	{"nothing is left for later", leftovers},
	{"links between documents resolve", links},
	{"documents name existing identifiers", names},
	{"the program in the README is an example", readmeCode},
}

// layersOf reads the diagram in ARCHITECTURE.md: the packages of the library and how high they stand. A package imports only
// what stands lower. A package below one of them, such as store/storetest, stands just above it, unless the diagram gives it
// a place of its own.
func layersOf(t *tree) map[string]int {
	_, section, _ := strings.Cut(t.files["ARCHITECTURE.md"], "\n## The layers\n")
	_, block, _ := strings.Cut(section, "```\n")
	block, _, _ = strings.Cut(block, "```")
	lines := strings.Split(strings.TrimSpace(block), "\n")
	layer := make(map[string]int)
	for i, line := range lines {
		for name := range strings.FieldsSeq(line) {
			layer[name] = len(lines) - i
		}
	}
	return layer
}

// diagram checks that the packages in the diagram are there, each once.
func diagram(t *tree) (problems []string) {
	layer := layersOf(t)
	for name := range layer {
		if !slices.Contains(t.dirs, name) {
			problems = append(problems, "ARCHITECTURE.md: the diagram of the layers has "+name+", which does not exist")
		}
	}
	for dir := range t.packages {
		if _, ok := height(layer, dir); !ok && dir != "." {
			problems = append(problems, "ARCHITECTURE.md: the diagram of the layers has no place for "+dir)
		}
	}
	slices.Sort(problems)
	return problems
}

// alone are the packages that use nothing of the project but internal tables and their own internal packages, so that they can be taken
// one by one.
var alone = []string{"wait", "cache", "workqueue", "expectations"}

func topLevel(t *tree) (problems []string) {
	layer := layersOf(t)
	others := []string{"bench", "docs", "internal", "lincheck", "metrics", "tracing"}
	for _, dir := range t.dirs {
		_, known := layer[dir]
		if dir != "." && path.Dir(dir) == "." && !known && !slices.Contains(others, dir) {
			problems = append(problems, dir+": is not in the design")
		}
	}
	return problems
}

func goMod(t *tree) (problems []string) {
	direct := []string{"golang.org/x/time", "github.com/google/go-cmp", "github.com/stretchr/testify"}
	brought := []string{ // by testify
		"github.com/davecgh/go-spew", "github.com/pmezard/go-difflib", "github.com/stretchr/objx",
		"go.yaml.in/yaml/v3", "gopkg.in/yaml.v3",
	}
	requires, others := modfile(t.files["go.mod"])
	for _, r := range requires {
		if !slices.Contains(direct, r.path) && !(r.indirect && slices.Contains(brought, r.path)) {
			problems = append(problems, "go.mod: requires "+r.path)
		}
	}
	for _, line := range others {
		if line != "module "+module && line != "go 1.25.0" {
			problems = append(problems, "go.mod: says "+line)
		}
	}
	return problems
}

// workspace compares the directories that go.work uses with those that have a go.mod.
func workspace(t *tree) (problems []string) {
	_, directives := modfile(t.files["go.work"])
	for _, dir := range t.dirs {
		_, module := t.files[path.Join(dir, "go.mod")]
		used := slices.ContainsFunc(directives, func(d string) bool {
			use, ok := strings.CutPrefix(d, "use ")
			return ok && path.Clean(use) == dir
		})
		if module && !used {
			problems = append(problems, "go.work: does not use "+dir)
		}
	}
	return problems
}

func foreignImports(t *tree) (problems []string) {
	for _, f := range t.code {
		if f.nested {
			continue
		}
		_, imports := f.imports()
		for _, p := range imports {
			first, _, _ := strings.Cut(p, "/")
			standard := !strings.Contains(first, ".")
			forTests := within(p, "github.com/stretchr/testify") || within(p, "github.com/google/go-cmp")
			if !standard && p != "golang.org/x/time/rate" && !(f.test && forTests) {
				problems = append(problems, f.path+": imports "+p)
			}
		}
	}
	return problems
}

// height returns how high the package in dir stands.
func height(layer map[string]int, dir string) (h int, ok bool) {
	parts := strings.Split(dir, "/")
	if h, ok = layer[dir]; !ok {
		h, ok = layer[parts[0]]
	}
	return h*10 + len(parts) - 1, ok
}

func layers(t *tree) (problems []string) {
	layer := layersOf(t)
	for _, f := range t.code {
		imports, _ := f.imports()
		if f.nested || len(imports) == 0 || f.test && f.dir == "." { // a test of the house may look at everything
			continue
		}
		own, ok := height(layer, f.dir)
		if !ok && !f.test {
			problems = append(problems, f.path+": has no place in the layers, so it may import nothing of the project")
			continue
		}
		for _, p := range imports {
			h, ok := height(layer, p)
			switch {
			case f.test && within(p, f.dir): // its own package, and the suites below it
			case f.test && forTests(p) && (path.Dir(p) == path.Dir(f.dir) || path.Dir(p) == path.Dir(f.dir)+"/internal"): // beside it
			case sameProgram(f.dir, p):
			case !ok || h >= own:
				problems = append(problems, fmt.Sprintf("%s: imports %s, which is not below it", f.path, p))
			case slices.Contains(alone, f.dir) && !within(p, "internal") && !within(p, f.dir+"/internal"):
				problems = append(problems, fmt.Sprintf("%s: imports %s, but %s uses nothing of the project", f.path, p, f.dir))
			}
		}
	}
	return problems
}

// forTests reports whether a package is there for tests: a suite, or a store in memory that fails as it is told.
func forTests(p string) bool { return strings.HasSuffix(p, "test") || p == "leaderelect/memlease" }

// sameProgram reports whether two packages belong to one example.
func sameProgram(a, b string) bool {
	program := func(dir string) string { return strings.Join(strings.SplitN(dir, "/", 3)[:2], "/") }
	return within(a, "examples") && within(b, "examples") && path.Dir(a) != "." && path.Dir(b) != "." && program(a) == program(b)
}

func packageDocs(t *tree) (problems []string) {
	for dir, files := range t.packages {
		library := inLibrary(files[0])
		doc, others := "", 0
		for _, f := range files {
			switch {
			case f.ast.Doc == nil:
			case library && path.Base(f.path) != "doc.go":
				others++
			default:
				doc += f.ast.Doc.Text()
			}
		}
		switch {
		case onlyTests(files) && dir != ".":
			problems = append(problems, dir+": has tests and nothing to test")
		case doc == "" && library:
			problems = append(problems, dir+": has no package comment in doc.go")
		case doc == "":
			problems = append(problems, dir+": has no package comment")
		case others > 0:
			problems = append(problems, dir+": has a package comment outside doc.go too")
		case library && !numbersGuarantees(doc):
			problems = append(problems, dir+": doc.go has no section Guarantees with a numbered list")
		case strings.Contains(new(godoc.Package).Synopsis(doc), "["): // lists of packages show it as it is, with the brackets
			problems = append(problems, dir+": the first sentence of the package comment has a link")
		}
	}
	return problems
}

func onlyTests(files []*goFile) bool {
	return !slices.ContainsFunc(files, func(f *goFile) bool { return !f.test })
}

// numbersGuarantees reports whether a numbered list stands under the heading Guarantees.
func numbersGuarantees(doc string) bool {
	heading := ""
	for _, block := range new(comment.Parser).Parse(doc).Content {
		switch block := block.(type) {
		case *comment.Heading:
			plain, _ := block.Text[0].(comment.Plain)
			heading = string(plain)
		case *comment.List:
			if heading == "Guarantees" && block.Items[0].Number == "1" {
				return true
			}
		}
	}
	return false
}

// lockTable compares the rows of the lock table, `package.Type.field`, with the locks of the library.
func lockTable(t *tree) (problems []string) {
	text := t.files["docs/internals.md"]
	locks := make(map[string]bool)
	for _, f := range t.code {
		if !f.library() {
			continue
		}
		for lock, pos := range locksOf(f) {
			locks[lock] = true
			if !strings.Contains(text, "| `"+lock+"` |") {
				problems = append(problems, t.at(pos, "%s is not in the lock table of docs/internals.md", lock))
			}
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+\\.\\w+\\.\\w+)` \\|").FindAllStringSubmatch(text, -1) {
		if !locks[m[1]] {
			problems = append(problems, "docs/internals.md: there is no lock "+m[1])
		}
	}
	slices.Sort(problems)
	return problems
}

func fileSizes(t *tree) (problems []string) {
	for _, f := range t.code {
		if n := f.lines(); n > 600 {
			problems = append(problems, fmt.Sprintf("%s: has %d lines, more than 600", f.path, n))
		}
	}
	for name, limit := range map[string]int{"README.md": 190, "ARCHITECTURE.md": 110} {
		if n := strings.Count(t.files[name], "\n"); n > limit {
			problems = append(problems, fmt.Sprintf("%s: has %d lines, more than %d", name, n, limit))
		}
	}
	return problems
}

func leftovers(t *tree) (problems []string) {
	for _, word := range []string{"TO" + "DO", "FIX" + "ME", "X" + "XX"} {
		whole := regexp.MustCompile(`\b` + word + `\b`)
		for _, f := range t.code {
			if !bytes.Contains(f.src, []byte(word)) { // which is much faster
				continue
			}
			if at := whole.FindIndex(f.src); at != nil {
				problems = append(problems, t.at(f.ast.FileStart+token.Pos(at[0]), "says %s", word))
			}
		}
	}
	return problems
}

// links checks the links of the Markdown files that lead to a file, a directory, or a heading of the tree.
func links(t *tree) (problems []string) {
	span, link := regexp.MustCompile("`[^`]*`"), regexp.MustCompile(`\]\(([^)\s]+)\)`)
	anchors := headings(t)
	for at, line := range t.prose {
		for _, m := range link.FindAllStringSubmatch(span.ReplaceAllString(line, ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			target, anchor, _ := strings.Cut(m[1], "#")
			if target = path.Join(path.Dir(at.file), target); m[1][0] == '#' {
				target = at.file
			}
			_, file := t.files[target]
			missing := !file && !slices.Contains(t.dirs, target)
			if missing || anchor != "" && path.Ext(target) == ".md" && !anchors[target+"#"+anchor] {
				problems = append(problems, at.String()+": links to "+m[1]+", which does not exist")
			}
		}
	}
	return problems
}

// headings returns an anchor for each heading of the Markdown files, as GitHub makes it: "docs/debug.md#the-page".
func headings(t *tree) map[string]bool {
	heading, dropped := regexp.MustCompile(`^#+ +(.*\S)`), regexp.MustCompile(`\]\([^)]*\)|[^\p{L}\p{N}_ -]`)
	anchors := make(map[string]bool)
	for at, line := range t.prose {
		if m := heading.FindStringSubmatch(line); m != nil {
			name := strings.ToLower(dropped.ReplaceAllString(m[1], ""))
			anchors[at.file+"#"+strings.ReplaceAll(name, " ", "-")] = true
		}
	}
	return anchors
}

// readmeCode checks that each Go program in the README, in the first page on elections, and in the pages on your database and on the
// live page is an example, to the letter, so that it is compiled and tested. The last two show programs piece by piece.
func readmeCode(t *tree) (problems []string) {
	block := regexp.MustCompile("(?s)```go\n(.*?)```")
	pieces := []string{"docs/your-database.md", "docs/debug.md"}
	for _, name := range append([]string{"README.md", "docs/leaderelection.md"}, pieces...) {
		for _, m := range block.FindAllStringSubmatch(t.files[name], -1) {
			code, inside := []byte(m[1]), []byte("\n"+m[1])
			same := func(f *goFile) bool {
				example := strings.Contains("/"+f.dir+"/", "/examples/") || f.test && strings.HasPrefix(path.Base(f.path), "example_")
				whole := bytes.HasSuffix(f.src, code)
				return example && (whole || slices.Contains(pieces, name) && (bytes.HasPrefix(f.src, code) || bytes.Contains(f.src, inside)))
			}
			if !slices.ContainsFunc(t.code, same) {
				first, _, _ := strings.Cut(m[1], "\n")
				problems = append(problems, name+": shows code that is not an example: "+first)
			}
		}
	}
	return problems
}
