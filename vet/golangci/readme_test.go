package golangci_test

import (
	"errors"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/golangci/plugin-module-register/register"
)

// lint is for the long form of the test below, of some minutes, which needs git and a network:
// go test ./vet/golangci -run Custom -golangci-lint=$(which golangci-lint)
var lint = flag.String("golangci-lint", "", "the `path` of golangci-lint, which builds one with the plugin and runs it")

// written returns the two files of the README, by name. The first line of each is its name, in a comment.
func written(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, block := range regexp.MustCompile("(?s)```yaml\n# (\\S+)\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		files[block[1]] = block[2]
	}
	return files
}

// settings returns the scalars of a YAML file by their path: "linters.settings.custom.setpoint.type". An element of a list has the path of
// the list.
func settings(text string) map[string]string {
	found := make(map[string]string)
	var keys []string
	var indents []int
	for line := range strings.Lines(text) {
		content := strings.TrimLeft(strings.TrimRight(line, "\n"), " -")
		indent := strings.Index(line, content)
		key, value, ok := strings.Cut(content, ":")
		if !ok {
			continue
		}
		for len(indents) > 0 && indents[len(indents)-1] >= indent {
			keys, indents = keys[:len(keys)-1], indents[:len(indents)-1]
		}
		keys, indents = append(keys, key), append(indents, indent)
		if value = strings.Trim(value, ` "[]`); value != "" {
			found[strings.Join(keys, ".")] = value
		}
	}
	return found
}

func TestTheFilesOfTheReadmeNameThePlugin(t *testing.T) {
	files := written(t)
	if names := slices.Sorted(maps.Keys(files)); !slices.Equal(names, []string{".custom-gcl.yml", ".golangci.yml"}) {
		t.Fatalf("the README has the files %v", names)
	}
	out, err := exec.Command("go", "list", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	pkg := strings.TrimSpace(string(out))
	build, run := settings(files[".custom-gcl.yml"]), settings(files[".golangci.yml"])
	for key, want := range map[string]string{
		"plugins.module":  path.Dir(pkg),
		"plugins.import":  pkg,
		"plugins.version": "latest",
	} {
		if build[key] != want {
			t.Errorf("%s of .custom-gcl.yml is %q; must be %q", key, build[key], want)
		}
	}
	if v := build["version"]; !strings.HasPrefix(v, "v"+run["version"]+".") {
		t.Errorf("golangci-lint %s does not read a .golangci.yml of version %s", v, run["version"])
	}
	linter := run["linters.enable"]
	if _, err := register.GetPlugin(linter); err != nil {
		t.Errorf("the linter %q is not that of the plugin: %v", linter, err)
	}
	if kind := run["linters.settings.custom."+linter+".type"]; kind != "module" {
		t.Errorf("the type of the linter is %q", kind)
	}
}

// The planted mistake is reported, unless one of the two comments suppresses it.
func TestCustomGolangciLintFindsMistakes(t *testing.T) {
	if *lint == "" {
		t.Skip("builds golangci-lint: see the flag -golangci-lint")
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := written(t)
	files[".custom-gcl.yml"] = strings.Replace(files[".custom-gcl.yml"], "version: latest", "path: "+filepath.Join(root, "vet"), 1)
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	for name, mistake := range map[string]string{
		"right":     "",
		"wrong":     "context.TODO",
		"ignored":   "//setpoint:ignore leadercontext -- a test",
		"noLint":    "//nolint:setpoint // a test",
		"noReasons": "//setpoint:ignore leadercontext",
	} {
		write(t, filepath.Join(dir, name, "main.go"), planted(t, root, mistake))
	}
	command(t, dir, "go", "mod", "init", "example.com/planted")
	command(t, dir, "go", "mod", "edit", "-require=github.com/setpoint-go/setpoint@v0.0.0", "-replace=github.com/setpoint-go/setpoint="+root)
	command(t, dir, "go", "mod", "tidy")
	command(t, dir, *lint, "custom")
	out := command(t, dir, filepath.Join(dir, "custom-gcl"), "run", "--output.text.print-issued-lines=false", "./...")
	var found []string
	for _, m := range regexp.MustCompile(`(?m)^(\w+)/main.go:\d+:\d+: leadercontext: .* \(Effective controllers, chapter 8\) \(setpoint\)$`).FindAllStringSubmatch(out, -1) {
		found = append(found, m[1])
	}
	slices.Sort(found)
	if !slices.Equal(found, []string{"noReasons", "wrong"}) || !strings.Contains(out, "* setpoint: 2") {
		t.Errorf("the linter says:\n%s", out)
	}
}

// planted returns an example with a mistake, which has a comment unless that is empty.
func planted(t *testing.T, root, comment string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "examples", "07-owner", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	const call = "_, err := owner.Cascade(ctx, sites, key, children)"
	if comment == "" {
		return string(text)
	}
	wrong := strings.Replace(call, "ctx", "context.TODO()", 1)
	if strings.HasPrefix(comment, "//") {
		wrong += " " + comment
	}
	if strings.Count(string(text), call) != 1 {
		t.Fatalf("the example has not one %s", call)
	}
	return strings.Replace(string(text), call, wrong, 1)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// command returns the output of a command. golangci-lint ends with 1 if it has findings.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1 && args[0] == "run") {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}
