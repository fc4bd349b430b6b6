package house_test

import (
	"bytes"
	"fmt"
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
	{"go.mod requires only agreed modules", goMod},
	{"go.work has every module", workspace},
	{"code imports only the standard library, x/time/rate, and the project", foreignImports},
	{"a package imports only packages below it", layers},
	{"the diagram of the layers has every package", diagram},
	{"no package has global state or init", globals},
	{"links between documents resolve", links},
	{"documents name existing identifiers", names},
	{"the operating guide names what exists", operating},
	{"code in a page is code of an example", pageCode},
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
	for _, f := range t.code {
		if _, ok := height(layer, f.dir); !ok && f.dir != "." && !f.nested {
			problems = append(problems, "ARCHITECTURE.md: the diagram of the layers has no place for "+f.dir)
		}
	}
	slices.Sort(problems)
	return slices.Compact(problems)
}

// alone are the packages that use nothing of the project but internal tables and their own internal packages, so that they can be taken
// one by one.
var alone = []string{"wait", "cache", "workqueue", "expectations"}

// goMod checks each line of go.mod that is not a comment.
func goMod(t *tree) (problems []string) {
	allowed := regexp.MustCompile(`^(module ` + module + `|go 1\.25\.0|require \(|\)|` +
		`(require )?(golang\.org/x/time|github\.com/google/go-cmp|github\.com/stretchr/testify) \S+|` +
		`(require )?(github\.com/(davecgh/go-spew|pmezard/go-difflib|stretchr/objx)|(go\.yaml\.in|gopkg\.in)/yaml\S*) \S+ // indirect)?$`) // by testify
	for line := range strings.Lines(t.files["go.mod"]) {
		if line = strings.TrimSpace(line); !allowed.MatchString(line) {
			problems = append(problems, "go.mod: says "+line)
		}
	}
	return problems
}

// workspace checks that go.work uses each directory that has a go.mod.
func workspace(t *tree) (problems []string) {
	for _, dir := range t.dirs {
		_, module := t.files[path.Join(dir, "go.mod")]
		name := strings.TrimSuffix("./"+dir, "/.")
		used := regexp.MustCompile(`(?m)^(use )?\s*` + regexp.QuoteMeta(name) + `$`).MatchString(t.files["go.work"])
		if module && !used && dir != "tools" { // whose requirements would decide the versions of all
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
		if f.nested || len(imports) == 0 || f.dir == "internal/house" { // which looks at everything
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

// pageCode checks that each Go program in the README, in the first page on elections, and in the pages below is an
// example, to the letter, so that it is compiled and tested. The pages below show programs piece by piece.
func pageCode(t *tree) (problems []string) {
	block := regexp.MustCompile("(?s)```go\n(.*?)```")
	pieces := []string{"docs/your-data.md", "store/postgres/README.md", "store/mysql/README.md", "store/mysql/binlog/README.md", "store/etcd/README.md", "docs/debug.md", "docs/clientgo.md", "docs/operating.md", "docs/cookbook.md",
		"docs/webhooks.md"}
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
