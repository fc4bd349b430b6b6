package house_test

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
	"go.work": "go 1.26.0\n\nuse (\n\t.\n\t./bench\n\t./bench/inner\n)\n",
	"doc.go":  "// Package setpoint is a library.\npackage setpoint\n",
	"README.md": "See [the store](store), [its code](store/store.go#L1) and [Go](https://go.dev).\n" +
		"```go\nfunc init() {}\n```\n`a[0](b)`\n```sh\n[x](y)\n```\n",
	".ci/x.go": "no Go at all\n",

	"ARCHITECTURE.md": "\n" +
		"## The layers\n\n```\nexamples\ncontroller\nstore\nstore/backend\ninformer  expectations\ncache\nwait\ninternal/table  expectations/internal/row\n```\n",
	"cache/doc.go":                     "// Package cache keeps.\npackage cache\n\nimport \"" + module + "/internal/table\"\n",
	"expectations/internal/row/doc.go": "// Package row is a row.\npackage row\n",
	"controller/doc.go":                "// Package controller keeps.\npackage controller\n",
	"expectations/doc.go":              "// Package expectations keeps.\npackage expectations\n\nimport \"" + module + "/expectations/internal/row\"\n",
	"informer/doc.go":                  "// Package informer keeps.\npackage informer\n",
	"store/backend/doc.go":             "// Package backend keeps.\npackage backend\n",
	"docs/why.md":                      "[back](../README.md), `x := wait.Begin(wait.Second)`, `wait.Begun.Do`, `bench.Doer.Do`, `bench.Span.Low`, `rate.Limit`\n```\n`wait.No`\n```\n",

	"internal/table/doc.go": "// Package table is shared.\npackage table\n\ntype Table struct{}\n",

	"wait/doc.go":       "// Package wait waits.\npackage wait\n",
	"wait/wait.go":      "package wait\n\nimport \"golang.org/x/time/rate\"\n\nvar ErrGone = errors.New(\"gone\")\n\nvar _ any = (*Timer)(nil)\n\ntype Timer struct{ *rate.Limiter }\n\nvar table = []int{1}\n",
	"wait/wait_test.go": "package wait_test\n\nimport \"" + module + "/wait\"\nimport \"github.com/stretchr/testify/assert\"\n\nvar count int\n",
	"wait/kind.go":      "package wait\n\ntype Kind int\n\nconst (\n\tFirst Kind = iota\n\tSecond\n)\n\ntype Begun int\n\nfunc Begin(Kind) *Begun { return nil }\n\nfunc (b *Begun) Do() {}\n",

	"store/doc.go":        "// Package store keeps.\npackage store\n",
	"store/store.go":      "package store\n\nimport \"" + module + "/wait\"\n\nvar ErrGone = wait.ErrGone\n\ntype Store struct{}\n",
	"store/suite_test.go": "package store_test\n\nimport \"" + module + "/store/storetest\"\n",

	"store/table/doc.go":            "// Package table keeps.\npackage table\n\nimport \"" + module + "/store\"\n",
	"store/table/table_test.go":     "package table_test\n\nimport \"" + module + "/store/storetest\"\nimport \"" + module + "/store/internal/rowtest\"\n",
	"store/internal/rowtest/doc.go": "// Package rowtest helps.\npackage rowtest\n\nimport \"" + module + "/store\"\n",

	"store/storetest/doc.go": "// Package storetest tests.\npackage storetest\n\nimport \"" + module + "/store\"\n",

	"examples/app/main.go":    "// App is a program.\npackage main\n\nimport \"" + module + "/examples/app/lib\"\n\nfunc init() {}\n",
	"examples/app/lib/lib.go": "// Package lib is a part of it.\npackage lib\n\nimport \"" + module + "/store\"\n",

	"bench/go.mod":        "module " + module + "/bench\n\nrequire k8s.io/client-go v0.37.2\n",
	"bench/inner/go.mod":  "module " + module + "/bench/inner\n",
	"bench/last.go":       "// Package bench compares.\npackage bench\n\nimport _ \"k8s.io/client-go\"\n",
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
	cases := []struct {
		rule    string
		path    string // the file that is put in place, or taken away when its text is empty
		text    string
		problem string
	}{
		{"go.mod", "go.mod", "module " + module + "\nrequire k8s.io/client-go v0.37.2\n", "go.mod: says require k8s.io/client-go"},
		{"go.mod", "go.mod", "module " + module + "\nrequire (\n\tx.org/y v1.0.0 // indirect\n)\n", "go.mod: says x.org/y"},
		{"go.mod", "go.mod", "module " + module + "\nrequire go.yaml.in/yaml/v3 v3.0.5\n", "go.mod: says require go.yaml.in/yaml/v3"},
		{"go.mod", "go.mod", "module " + module + "\ngo 1.26.0\n", "go.mod: says go 1.26.0"},
		{"go.mod", "go.mod", "replace golang.org/x/time => ../time\n", "go.mod: says replace golang.org/x/time => ../time"},

		{"go.work", "go.work", "go 1.26.0\n\nuse .\nuse ./bench/inner\n", "go.work: does not use bench"},
		{"go.work", "go.work", "go 1.26.0\n\nuse ./bench\nuse ./bench/inner\n", "go.work: does not use ."},

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

		{"no package has", "wait/x.go", "package wait\n\nfunc init() {}\n", "wait/x.go:3: func init"},
		{"no package has", "wait/x.go", "package wait\n\nvar (\n\tcount int\n)\n", "wait/x.go:4: package variable count"},
		{"no package has", "wait/x.go", "package wait\n\nvar Table = []int{1}\n", "wait/x.go:3: package variable Table"},
		{"no package has", "wait/x.go", "package wait\n\nvar pool = sync.Pool{}\n", "wait/x.go:3: package variable pool"},
		{"no package has", "wait/x.go", "package wait\n\nvar a, b = errors.New(\"a\"), 1\n", "wait/x.go:3: package variable a"},
		{"no package has", "wait/x.go", "package wait\n\nvar _, count = 1, 2\n", "wait/x.go:3: package variable _"},
		{"no package has", "wait/x.go", "package wait\n\nvar errCount = counter.New()\n", "wait/x.go:3: package variable errCount"},

		{"the diagram", "cache/doc.go", "", "the diagram of the layers has cache, which does not exist"},
		{"the diagram", "util/x.go", "package util\n", "the diagram of the layers has no place for util"},

		{"links between", "README.md", "see\n[it](docs/missing.md)\n", "README.md:2: links to docs/missing.md"},
		{"links between", "README.md", "```\n```\n[it](docs/missing.md)\n", "README.md:3: links to docs/missing.md"},
		{"links between", "docs/why.md", "[it](README.md#why)\n", "docs/why.md:1: links to README.md#why"},
		{"links between", "docs/why.md", "## The `x.Y`, [z](why.md)\n[it](#the-xy-z)\n[it](#the-x)\n", "docs/why.md:3: links to #the-x"},
		{"links between", "docs/why.md", "[it](other.md#why)\n", "docs/why.md:1: links to other.md#why"},

		{"documents name", "docs/why.md", "\n`wait.Stop`\n", "docs/why.md:2: names wait.Stop, which does not exist"},
		{"documents name", "docs/why.md", "`wait.Begun.Undo`\n", "docs/why.md:1: names wait.Begun.Undo, which does not exist"},
		{"documents name", "README.md", "`a` b `x(bench.Span.Middle)`\n", "README.md:1: names bench.Span.Middle, which does not exist"},

		{"the operating", "docs/operating.md", "`setpoint_parked`\n", "names setpoint_parked, which"},
		{"the operating", "docs/operating.md", "`\"it was parked\"`\n", "names \"it was parked\", which"},
		{"the operating", "store/sqlite/README.md", "`\"it was parked\"`\n", "store/sqlite/README.md: names \"it was parked\", which"},
		{"the operating", "docs/operating.md", "\n## Alerts\n`SomebodyLeads`\n", "names SomebodyLeads, which"},
		{"code in a page", "README.md", "```go\npackage main // new\n```\n", "README.md: shows code that is not an example: package main // new"},
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
