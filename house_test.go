package setpoint_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRepositoryFollowsHouseRules(t *testing.T) {
	tree, err := repository()
	require.NoError(t, err)
	require.NotEmpty(t, tree.code)
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) {
			for _, problem := range rule.check(tree) {
				t.Error(problem)
			}
		})
	}
}

// goodTree keeps every rule.
var goodTree = map[string]string{
	"go.mod": "module " + module + "\n\ngo 1.25.0\n\n" +
		"require golang.org/x/time v0.15.0\n\n" +
		"require (\n\tgithub.com/stretchr/testify v1.12.1\n\tgo.yaml.in/yaml/v3 v3.0.5 // indirect\n)\n",
	"go.work": "go 1.26.0\n\nuse (\n\t.\n\t./bench\n)\n",
	"doc.go":  "// Package setpoint is a library.\npackage setpoint\n",
	"README.md": "See [the store](store), [its code](store/store.go#L1) and [Go](https://go.dev).\n" +
		"```go\nfunc init() {}\n```\n`a[0](b)`\n```sh\n[x](y)\n```\n",
	".ci/x.go": "no Go at all\n",

	"docs/internals.md": "| lock | guards |\n|---|---|\n| `wait.timers.mu` | timers |\n",
	"ARCHITECTURE.md": "\n" +
		"## The layers\n\n```\nexamples\ncontroller\nstore\nstore/backend\ninformer  expectations\ncache\nwait\ninternal/table  expectations/internal/row\n```\n",
	"docs/sizes.md": "| package | names | lines | files | why |\n|---|---|---|---|---|\n" +
		"| `cache` | 0 | 10 | 10 | |\n| `expectations/internal/row` | 0 | 10 | 10 | |\n| `controller` | 0 | 10 | 10 | |\n| `expectations` | 0 | 10 | 10 | |\n| `internal/table` | 1 | 10 | 10 | |\n| `informer` | 0 | 10 | 10 | |\n" +
		"| `store` | 2 | 10 | 10 | |\n| `store/backend` | 0 | 10 | 10 | |\n| `store/internal/rowtest` | 0 | 9 | 1 | |\n| `store/storetest` | 0 | 10 | 10 | |\n| `store/table` | 0 | 10 | 1 | |\n" +
		"| `wait` | 8 | 1501 | 11 | time is hard |\n",
	"cache/doc.go":                     "// Package cache keeps.\n//\n// # Guarantees\n//\n//  1. It does.\npackage cache\n\nimport \"" + module + "/internal/table\"\n",
	"expectations/internal/row/doc.go": "// Package row is a row.\n//\n// # Guarantees\n//\n//  1. It does.\npackage row\n",
	"controller/doc.go":                "// Package controller keeps.\n//\n// # Guarantees\n//\n//  1. It does.\npackage controller\n",
	"expectations/doc.go":              "// Package expectations keeps.\n//\n// # Guarantees\n//\n//  1. It does.\npackage expectations\n\nimport \"" + module + "/expectations/internal/row\"\n",
	"informer/doc.go":                  "// Package informer keeps.\n//\n// # Guarantees\n//\n//  1. It does.\npackage informer\n",
	"store/backend/doc.go":             "// Package backend keeps.\n//\n// # Guarantees\n//\n//  1. It does.\npackage backend\n",
	"wait/lock.go":                     "package wait\n\ntype timers struct {\n\tmu sync.RWMutex\n}\n",
	"docs/why.md":                      "[back](../README.md), `x := wait.Begin(wait.Second)`, `wait.Begun.Do`, `bench.Doer.Do`, `bench.Span.Low`, `rate.Limit`\n```\n`wait.No`\n```\n",

	"internal/table/doc.go": "// Package table is shared.\n//\n// # Guarantees\n//\n//  1. It does.\npackage table\n\ntype Table struct{}\n",

	"wait/doc.go":          "// Package wait waits.\n//\n// # Guarantees\n//\n//  1. It does.\npackage wait\n",
	"wait/wait.go":         "package wait\n\nimport \"golang.org/x/time/rate\"\n\nvar ErrGone = errors.New(\"gone\")\n\nvar _ any = (*Timer)(nil)\n\ntype Timer struct{ *rate.Limiter }\n\nvar table = []int{1}\n",
	"wait/wait_test.go":    "package wait_test\n\nimport \"" + module + "/wait\"\nimport \"github.com/stretchr/testify/assert\"\n\nvar count int\n",
	"wait/example_test.go": "package wait_test\n\nfunc ExampleTimer_short() { wait.Begin(wait.Second) }\n",
	"wait/kind.go":         "package wait\n\ntype Kind int\n\nconst (\n\tFirst Kind = iota\n\tSecond\n)\n\ntype Begun int\n\nfunc Begin(Kind) *Begun { return nil }\n\nfunc Make(c Config[int]) (b *Begun, err error)\n\nfunc withDefaults(c Config) Config\n\nfunc (b *Begun) Do() {}\n",

	"store/doc.go":          "// Package store keeps.\n//\n// # Guarantees\n//\n// These:\n//\n//  1. It does.\npackage store\n",
	"store/store.go":        "package store\n\nimport \"" + module + "/wait\"\n\nvar ErrGone = wait.ErrGone\n\ntype Store struct{}\n",
	"store/example_test.go": "package store_test\n\nfunc Example() { _ = store.Store{} }\n",
	"store/suite_test.go":   "package store_test\n\nimport \"" + module + "/store/storetest\"\n",

	"store/table/doc.go":            "// Package table keeps.\n//\n// # Guarantees\n//\n//  1. It does.\npackage table\n\nimport \"" + module + "/store\"\n",
	"store/table/table_test.go":     "package table_test\n\nimport \"" + module + "/store/storetest\"\nimport \"" + module + "/store/internal/rowtest\"\n",
	"store/internal/rowtest/doc.go": "// Package rowtest helps.\n//\n// # Guarantees\n//\n//  1. It does.\npackage rowtest\n\nimport \"" + module + "/store\"\n",

	"store/storetest/doc.go": "// Package storetest tests.\n//\n// # Guarantees\n//\n//  1. It does.\npackage storetest\n\nimport \"" + module + "/store\"\n",

	"examples/app/main.go":    "// App is a program.\npackage main\n\nimport \"" + module + "/examples/app/lib\"\n\nfunc init() {}\n",
	"examples/app/lib/lib.go": "// Package lib is a part of it.\npackage lib\n\nimport \"" + module + "/store\"\n",

	"bench/go.mod":        "module " + module + "/bench\n\nrequire k8s.io/client-go v0.37.2\n",
	"bench/bench.go":      "package bench\n\nvar count int\n\ntype Floor struct {\n\tmu sync.Mutex\n}\n\ntype Doer interface{ Do() }\n\ntype Span[T any] struct{ Low, High T }\n",
	"bench/bench_test.go": "package bench_test\n\nimport \"k8s.io/client-go/util/workqueue\"\nimport \"" + module + "/store\"\n\nfunc init() {}\n",
	"store/testdata/x.go": "no Go at all\n",
}

func TestGoodTreeBreaksNoRule(t *testing.T) {
	for _, rule := range rules {
		assert.Empty(t, check(t, rule.name, nil), rule.name)
	}
}

func TestRulesRejectBrokenTrees(t *testing.T) {
	imports := func(pkg, p string) string { return "package " + pkg + "\n\nimport \"" + p + "\"\n" }
	later := "FIX" + "ME"
	cases := []struct {
		rule    string
		path    string // the file that is put in place, or taken away when its text is empty
		text    string
		problem string
	}{
		{"top-level", "util/util.go", "package util\n", "util: is not in the design"},
		{"top-level", "pkg/readme.txt", "here\n", "pkg: is not in the design"},

		{"go.mod", "go.mod", "module " + module + "\nrequire k8s.io/client-go v0.37.2\n", "go.mod: requires k8s.io/client-go"},
		{"go.mod", "go.mod", "module " + module + "\nrequire (\n\tx.org/y v1.0.0 // indirect\n)\n", "go.mod: requires x.org/y"},
		{"go.mod", "go.mod", "module " + module + "\nrequire go.yaml.in/yaml/v3 v3.0.5\n", "go.mod: requires go.yaml.in/yaml/v3"},
		{"go.mod", "go.mod", "module " + module + "\ngo 1.26.0\n", "go.mod: says go 1.26.0"},
		{"go.mod", "go.mod", "replace golang.org/x/time => ../time\n", "go.mod: says replace golang.org/x/time => ../time"},

		{"go.work", "go.work", "go 1.26.0\n\nuse .\n", "go.work: does not use bench"},
		{"go.work", "go.work", "go 1.26.0\n\nuse ./bench\n", "go.work: does not use ."},

		{"code imports", "wait/x.go", imports("wait", "github.com/stretchr/testify/assert"), "wait/x.go: imports github.com/stretchr/testify/assert"},
		{"code imports", "wait/x.go", imports("wait", "golang.org/x/time/rater"), "wait/x.go: imports golang.org/x/time/rater"},
		{"code imports", "wait/x_test.go", imports("wait", "k8s.io/klog/v2"), "wait/x_test.go: imports k8s.io/klog/v2"},
		{"code imports", "examples/app/x.go", imports("main", "x.org/y"), "examples/app/x.go: imports x.org/y"},

		{"a package imports", "store/x.go", imports("store", module+"/controller"), "store/x.go: imports controller, which is not below it"},
		{"a package imports", "store/table/x.go", imports("table", module+"/store/storetest"), "store/table/x.go: imports store/storetest, which is not below it"},
		{"a package imports", "store/table/x_test.go", imports("table_test", module+"/store/other"), "store/table/x_test.go: imports store/other, which is not below it"},
		{"a package imports", "store/x.go", imports("store", module+"/store/storetest"), "store/x.go: imports store/storetest, which"},
		{"a package imports", "store/backend/x.go", imports("backend", module+"/store"), "store/backend/x.go: imports store, which"},
		{"a package imports", "informer/x.go", imports("informer", module+"/expectations"), "informer/x.go: imports expectations, which"},
		{"a package imports", "informer/x_test.go", imports("informer_test", module+"/store"), "informer/x_test.go: imports store, which"},
		{"a package imports", "store/x.go", imports("store", module+"/bench"), "store/x.go: imports bench, which"},
		{"a package imports", "store/x.go", imports("store", module), "store/x.go: imports ., which"},
		{"a package imports", "cache/x.go", imports("cache", module+"/wait"), "cache/x.go: imports wait, but cache uses nothing"},
		{"a package imports", "doc.go", imports("setpoint", module+"/wait"), "doc.go: has no place in the layers"},
		{"a package imports", "examples/other/x.go", imports("main", module+"/examples/app/lib/lib"), "examples/other/x.go: imports examples/app/lib/lib, which"},

		{"every package", "wait/doc.go", "", "wait: has no package comment in doc.go"},
		{"every package", "wait/doc.go", "// Package wait waits.\npackage wait\n", "wait: doc.go has no section Guarantees"},
		{"every package", "wait/doc.go", "// Package wait waits.\n//\n//  1. It does.\npackage wait\n", "wait: doc.go has no section Guarantees"},
		{"every package", "wait/doc.go", "// Package wait waits.\n//\n// # Guarantees\n//\n//   - It does.\npackage wait\n", "wait: doc.go has no section Guarantees"},
		{"every package", "wait/doc.go", "// Package wait waits.\n//\n// # Guarantees\n//\n// # Usage\n//\n//  1. Call.\npackage wait\n", "wait: doc.go has no section Guarantees"},
		{"every package", "wait/doc.go", "// Package wait waits for a [Signal].\n//\n// # Guarantees\n//\n//  1. It does.\npackage wait\n", "wait: the first sentence of the package comment has a link"},
		{"every package", "wait/x.go", "// Package wait is x.\npackage wait\n", "wait: has a package comment outside doc.go too"},
		{"every package", "doc.go", "package setpoint\n", ".: has no package comment"},
		{"every package", "examples/app/main.go", "package main\n", "examples/app: has no package comment"},
		{"every package", "wait/far/x_test.go", "package far_test\n", "wait/far: has tests and nothing to test"},

		{"no package has", "wait/x.go", "package wait\n\nfunc init() {}\n", "wait/x.go:3: func init"},
		{"no package has", "wait/x.go", "package wait\n\nvar (\n\tcount int\n)\n", "wait/x.go:4: package variable count"},
		{"no package has", "wait/x.go", "package wait\n\nvar Table = []int{1}\n", "wait/x.go:3: package variable Table"},
		{"no package has", "wait/x.go", "package wait\n\nvar pool = sync.Pool{}\n", "wait/x.go:3: package variable pool"},
		{"no package has", "wait/x.go", "package wait\n\nvar a, b = errors.New(\"a\"), 1\n", "wait/x.go:3: package variable a"},
		{"no package has", "wait/x.go", "package wait\n\nvar _, count = 1, 2\n", "wait/x.go:3: package variable _"},
		{"no package has", "wait/x.go", "package wait\n\nvar errCount = counter.New()\n", "wait/x.go:3: package variable errCount"},
		{"no package has", "wait/x.go", "package wait\n\nfunc f() { table[0]++ }\n", "wait/wait.go:11: package variable table"},
		{"no package has", "wait/x.go", "package wait\n\nfunc f() { table = nil }\n", "wait/wait.go:11: package variable table"},
		{"no package has", "wait/x.go", "package wait\n\nfunc f() { g(&table) }\n", "wait/wait.go:11: package variable table"},
		{"no package has", "wait/x.go", "package wait\n\nfunc f() { clear(table) }\n", "wait/wait.go:11: package variable table"},

		{"functions that take", "wait/x.go", "package wait\n\nfunc New(Config) *Timer\n", "wait/x.go:3: New takes a Config and returns no error"},
		{"functions that take", "wait/x.go", "package wait\n\nfunc New(c *rate.LimitConfig[int, string]) (error, *Timer)\n", "wait/x.go:3: New takes"},
		{"functions that take", "wait/x.go", "package wait\n\nfunc Begun(more ...Config[int]) {}\n", "wait/x.go:3: Begun takes"},
		{"functions that take", "examples/app/lib/x.go", "package lib\n\nfunc Open(c Config) *File\n", "examples/app/lib/x.go:3: Open takes"},

		{"a Config is", "wait/x.go", "package wait\n\ntype Config struct{ Name string }\n", "wait/x.go:3: Config can be compared"},
		{"a Config is", "bench/x.go", "package bench\n\ntype (\n\tSizeConfig[T any] struct{ Sizes [2]int }\n)\n", "bench/x.go:4: SizeConfig can be compared"},

		{"an error text", "wait/x.go", "package wait\n\nvar ErrX = errors.New(\"wait: x\")\n\nfunc f() error {\n\treturn fmt.Errorf(\"wait: run %q: %w\", \"a\", ErrX)\n}\n",
			"wait/x.go:6: the text has the prefix wait twice: ErrX has one"},
		{"an error text", "bench/x.go", "package bench\n\nfunc (c Config) validate() error { return errors.Join(errs...) }\n",
			"bench/x.go:3: validate makes an error of several lines"},
		{"an error text", "wait/x_test.go", "package wait_test\n\nconst text = `wait: run: wait: x`\n", "wait/x_test.go:3: the text has the prefix wait twice"},
		{"an error text", "docs/x.md", "# X\n\nIt says `wait: run \"a\": b: wait: x`.\n", "docs/x.md:3: the text has the prefix wait twice"},

		{"every exported type", "wait/x.go", "package wait\n\ntype Shown int\n", "wait/x.go:3: Shown stands in no example"},
		{"every exported type", "wait/x.go", "package wait\n\ntype Shown int\n\nconst One Shown = 1\n", "wait/x.go:3: Shown stands in no example"},
		{"every exported type", "wait/x.go", "package wait\n\ntype Shown int\n\nfunc New() Shown\n", "wait/x.go:3: Shown stands in no example"},
		{"every exported type", "wait/x.go", "package wait\n\ntype Shown int\n\nfunc (t *Timer) Begin() Shown\n", "wait/x.go:3: Shown stands in no example"},
		{"every exported type", "wait/example_test.go", "package wait_test\n\n// Timer\nfunc Example_Timer() { wait.Begin(wait.Second) }\n", "wait/wait.go:9: Timer stands in no example"},
		{"every exported type", "store/example_test.go", "", "store/store.go:7: Store stands in no example"},

		{"every README feature", "README.md", "| all | `wait.Kind.Second`, `Begin`, `store.Store`, `wait` |\n| more | `wait.Third` |\n", "README.md:2: offers Third, which stands in no example"},

		{"the lock table", "wait/x.go", "package wait\n\ntype group struct {\n\tmu sync.Mutex\n}\n", "wait/x.go:4: wait.group.mu is not in the lock table"},
		{"the lock table", "wait/lock.go", "package wait\n", "docs/internals.md: there is no lock wait.timers.mu"},

		{"files are small", "wait/x.go", "package wait\n" + strings.Repeat("\n", 600), "wait/x.go: has 601 lines, more than 600"},
		{"files are small", "bench/x_test.go", "package bench\n" + strings.Repeat("\n", 600), "bench/x_test.go: has 601 lines"},
		{"files are small", "README.md", strings.Repeat("\n", 191), "README.md: has 191 lines, more than 190"},
		{"files are small", "ARCHITECTURE.md", strings.Repeat("\n", 111), "ARCHITECTURE.md: has 111 lines, more than 110"},

		{"packages have", "store/x.go", "package store\n\n/* a\nb */\n\nvar s = `\n\n\n\n`\n", "store: has 11 lines of code, more than 10"},
		{"packages have", "store/x.go", "package store\n\nvar ErrLost, errLost = 1, 2\n", "docs/sizes.md: store has 3 exported names, not 2"},
		{"packages have", "store/table/x.go", "package table\n", "store/table: has 2 files, more than 1"},
		{"packages have", "store/other/doc.go", "package other\n", "docs/sizes.md: has no row for store/other"},
		{"packages have", "cache/doc.go", "", "docs/sizes.md: has a row for cache, which is no package"},
		{"the flagship", "examples/tenants/x.go", "package main\n" + strings.Repeat("\nvar _ = 1\n", 700), "examples/tenants: has 701 lines of code, more than 700"},
		{"packages have", "docs/sizes.md", strings.Replace(goodTree["docs/sizes.md"], "time is hard ", "", 1), "docs/sizes.md: does not say why wait is larger"},

		{"the documentation of", "wait/x.go", "package wait\n" + strings.Repeat("\nfunc X()\n", 91), "wait: go doc prints 106 lines, more than 105"},
		{"the documentation of", "wait/x.go", "package wait\n" + strings.Repeat("\nfunc x()\n\nfunc (Timer) X()\n\nvar errX = 1\n\nvar ErrX, ErrY = 1, 2\n", 91), "wait: go doc prints 106 lines"},
		{"the documentation of", "bench/x.go", "package bench\n" + strings.Repeat("\nfunc X()\n", 100), "bench: go doc prints 106 lines"},
		{"the documentation of", "store/doc.go", "// Package store keeps.\n//\n// # Guarantees\n//\n//  1. It does.\n//\n" + strings.Repeat("// Long enough: [Store].\n", 95*4) + "package store\n", "store: go doc prints 106 lines"},
		{"the documentation of", "wait/doc.go", "// Package wait waits.\n//\n// # Guarantees\n//\n//  1. It does.\n// # Limits\n//\n// None.\npackage wait\n", "wait: the package comment does not render: # Limits"},
		{"the documentation of", "wait/doc.go", "// Package wait waits.\n//\n// # Guarantees\n//\n//  1. It does.\n//  1. It ends.\n//  3. It stops.\npackage wait\n", "wait: the package comment does not render:  3. It stops."},

		{"the diagram", "cache/doc.go", "", "the diagram of the layers has cache, which does not exist"},
		{"the diagram", "util/x.go", "package util\n", "the diagram of the layers has no place for util"},

		{"nothing is left", "wait/x.go", "package wait\n\n// " + later + ": mend.\n", "wait/x.go:3: says " + later},
		{"nothing is left", "bench/x_test.go", "package bench\n\nvar ctx = context.TO" + "DO()\n", "bench/x_test.go:3: says TO"},

		{"links between", "README.md", "see\n[it](docs/missing.md)\n", "README.md:2: links to docs/missing.md"},
		{"links between", "README.md", "```\n```\n[it](docs/missing.md)\n", "README.md:3: links to docs/missing.md"},
		{"links between", "docs/why.md", "[it](README.md#why)\n", "docs/why.md:1: links to README.md#why"},
		{"links between", "docs/why.md", "## The `x.Y`, [z](why.md)\n[it](#the-xy-z)\n[it](#the-x)\n", "docs/why.md:3: links to #the-x"},
		{"links between", "docs/why.md", "[it](sizes.md#why)\n", "docs/why.md:1: links to sizes.md#why"},

		{"documents name", "docs/why.md", "\n`wait.Stop`\n", "docs/why.md:2: names wait.Stop, which does not exist"},
		{"documents name", "docs/why.md", "`wait.Begun.Undo`\n", "docs/why.md:1: names wait.Begun.Undo, which does not exist"},
		{"documents name", "README.md", "`a` b `x(bench.Span.Middle)`\n", "README.md:1: names bench.Span.Middle, which does not exist"},
		{"the program", "README.md", "```go\npackage main // new\n```\n", "README.md: shows code that is not an example: package main // new"},
	}
	tested := make(map[string]bool)
	for _, c := range cases {
		t.Run(c.problem, func(t *testing.T) {
			problems := check(t, c.rule, map[string]string{c.path: c.text})
			require.Len(t, problems, 1)
			assert.Contains(t, problems[0], c.problem)
		})
		tested[find(t, c.rule).name] = true
	}
	assert.Len(t, tested, len(rules), "rules with a failing tree")
}

// check applies the rule whose name begins with prefix to the good tree with changes.
func check(t *testing.T, prefix string, changes map[string]string) []string {
	fsys := make(fstest.MapFS)
	for name, text := range goodTree {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	for name, text := range changes {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
		if text == "" {
			delete(fsys, name)
		}
	}
	tree, err := loadTree(fsys)
	require.NoError(t, err)
	return find(t, prefix).check(tree)
}

func find(t *testing.T, prefix string) rule {
	i := slices.IndexFunc(rules, func(r rule) bool { return strings.HasPrefix(r.name, prefix) })
	require.GreaterOrEqual(t, i, 0, "no rule %s", prefix)
	return rules[i]
}
