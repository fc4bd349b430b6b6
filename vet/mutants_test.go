package vet_test

import (
	"flag"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mutant is a mistake planted in a program: one text in a file is replaced by another one. The file is named from the root of the
// repository. The old text must stand in it exactly once.
type mutant struct{ kind, file, old, new string }

// plantedFlag is for the long form of the test below, of some minutes: go test ./vet -v -run Mutants -planted
var plantedFlag = flag.Bool("planted", false, "also plant the mistakes of planted, and log which of them are found")

// known are two mistakes that show that the mutants are built and analyzed.
func known() []mutant {
	return []mutant{
		{
			"leadercontext",
			"examples/effective/stale/right.go",
			"now, err := pods.Get(ctx, key)",
			"now, err := pods.Get(context.Background(), key)",
		},
		{
			"swallowed",
			"examples/effective/proof/right.go",
			"_, err := orders.UpdateStatus(ctx, order)\n\t\treturn controller.Result{}, err",
			"_, _ = orders.UpdateStatus(ctx, order)\n\t\treturn controller.Result{}, nil",
		},
	}
}

func TestMutantsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	vettool, before := tool(t), make(map[string][]string)
	for _, m := range known() {
		if len(m.findings(t, vettool, before)) == 0 {
			t.Errorf("%s: not found: %s", m.file, m.new)
		}
	}
	if !*plantedFlag {
		return
	}
	found, all := make(map[string]int), make(map[string]int)
	for _, m := range planted() {
		news := m.findings(t, vettool, before)
		all[m.kind]++
		if len(news) > 0 {
			found[m.kind]++
		}
		t.Logf("%s in %s, found %v: %s\n\t%s", m.kind, m.file, len(news) > 0, m.new, strings.Join(news, "\n\t"))
	}
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		t.Logf("%s: found %d of %d", kind, found[kind], all[kind])
	}
}

// program returns the packages of the program that has a file: a mistake in one of its packages can be reported in another one.
func program(file string) string {
	if dir := path.Dir(file); strings.HasPrefix(dir, "examples/effective/") {
		return "./" + dir
	}
	return "./" + strings.Join(strings.Split(file, "/")[:2], "/") + "/..."
}

// findings returns what the analyzers find in the mutant, and not in the program without the mistake. before has what they find in that, by
// package.
func (m mutant) findings(t *testing.T, vettool string, before map[string][]string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(m.file)))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		t.Fatalf("%s has %d times: %s", m.file, n, m.old)
	}
	pkg := program(m.file)
	if _, ok := before[pkg]; !ok {
		before[pkg] = findings(t, vettool, nil, pkg)
	}
	after := findings(t, vettool, map[string]string{m.file: strings.Replace(string(text), m.old, m.new, 1)}, pkg)
	return slices.DeleteFunc(after, func(f string) bool { return slices.Contains(before[pkg], f) })
}
