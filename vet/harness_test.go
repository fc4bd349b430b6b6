package vet_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// tool builds setpointvet and returns its path.
func tool(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "setpointvet")
	if out, err := exec.Command("go", "build", "-o", path, "./cmd/setpointvet").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// findings lets go vet run the tool on packages of the library and its examples, with the text of some files replaced. It returns the
// findings: see parse.
func findings(t *testing.T, tool string, replaced map[string]string, packages ...string) []string {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"vet", "-vettool=" + tool}
	if len(replaced) > 0 {
		args = append(args, "-overlay="+overlay(t, root, replaced))
	}
	cmd := exec.Command("go", append(args, packages...)...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return parse(t, string(out), replaced)
}

// parse returns "file.go: sentence" for each finding, without the line, which a change above it moves. It fails the test if the output has
// anything else, such as an error of the compiler.
func parse(t *testing.T, out string, replaced map[string]string) (found []string) {
	t.Helper()
	lines, places := regexp.MustCompile(`^(?:\./)?(\S+\.go):\d+:\d+: (.*) \(Effective controllers, chapter \d+\)$`), regexp.MustCompile(`at \S+\.go:\d+`)
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		m := lines.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("go vet with %v says: %s", slices.Collect(maps.Keys(replaced)), line)
			continue
		}
		found = append(found, m[1]+": "+places.ReplaceAllString(m[2], "at another place"))
	}
	slices.Sort(found)
	return found
}

// overlay writes the replaced texts to files, and the list of them that the go command reads.
func overlay(t *testing.T, root string, replaced map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	list := struct{ Replace map[string]string }{make(map[string]string)}
	for name, text := range replaced {
		path := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		list.Replace[filepath.Join(root, name)] = path
	}
	data, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
