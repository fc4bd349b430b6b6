package files_test

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var mutants = flag.Bool("mutants", false, "run the tests on broken variants of the package")

// Each is a mistake that a source of files may make. The tests must notice it.
var mistakes = []struct{ name, file, old, new string }{
	{"a bad file is taken as deleted", "look.go", "if st.bad == nil {\n\t\t\ts.watchFile(f)", "{\n\t\t\tf.err = nil\n\t\t\ts.watchFile(f)"},
	{"a forbidden directory is taken as empty", "look.go", "s.fail(d, &Error{d.path, cause(p.listing.err)})", "s.drop(d)\n\t\td.files = nil"},
	{"there is no grace", "config.go", "cfg.Grace = cmp.Or(cfg.Grace, 2*time.Second)", "cfg.Grace = -1"},
	{"a key is deleted when its directory lacks it", "look.go", "if st.all {\n\t\ts.remove", "if true {\n\t\ts.remove"},
	{"a comparison of one directory loses its events", "look.go", "s.publish(problems,", "if !st.all {\n\t\ts.events = nil\n\t}\n\ts.publish(problems,"},
	{"a bad file does not hold up deletions", "keys.go", "case len(problems) > 0:", "case false:"},
	{"only size and time of modification count", "stamp.go", "s.device, s.inode, s.changed = identity(info)", "_, _, _ = identity(info)"},
	{"a state mixes two releases", "look.go", "err != nil || now != target", "err != nil && now == target"},
	{"a half-written file is read", "config.go", "cfg.Settle = cmp.Or(cfg.Settle, 50*time.Millisecond)", "cfg.Settle = -1"},
	{"a file of no bytes has no objects", "look.go", "case st.stamp.size == 0:", "case st.stamp.size < 0:"},
	{"an empty root has no objects", "look.go", "if s.isEmpty(st) && !s.cfg.Empty {", "if s.isEmpty(nil) && s.cfg.Empty && false {"},
	{"a new file takes a key", "keys.go", "if e.file == f || e.file == nil && len(rivals) == 0 {", "if true {"},
	{"a nudge during an outage is lost", "files.go", "s.nudged.join(nudged)\n", ""},
	{"what is missing does not end the watches", "look.go", "if turned {", "if false && turned {"},
}

func TestBrokenVariantsAreNoticed(t *testing.T) {
	if !*mutants {
		t.Skip("needs -mutants")
	}
	here, err := os.Getwd()
	require.NoError(t, err)
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			dir := t.TempDir()
			source, err := os.ReadFile(m.file)
			require.NoError(t, err)
			require.Equal(t, 1, strings.Count(string(source), m.old))
			mutant := filepath.Join(dir, m.file)
			require.NoError(t, os.WriteFile(mutant, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o600))
			overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(here, m.file): mutant}})
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
			out, err := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-timeout=60s", "-failfast", "-skip=Killed|Broken|Contract", "-overlay="+filepath.Join(dir, "overlay.json"), ".").CombinedOutput()
			require.Error(t, err, "no test notices it")
			require.NotContains(t, string(out), "build failed")
			for line := range strings.Lines(string(out)) {
				if strings.Contains(line, "--- FAIL") || strings.HasPrefix(line, "panic:") {
					t.Log(strings.TrimSpace(line))
				}
			}
		})
	}
}
