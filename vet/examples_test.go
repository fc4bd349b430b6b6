package vet_test

import (
	"strings"
	"testing"
)

// The examples have no findings, so a finding is news. That includes the right programs of the guide. Of the wrong programs, two have
// findings. .ci/run does the same for the library, and with -long for all modules.
func TestExamplesHaveNoFindings(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	wrong := map[string]string{
		"examples/effective/levels/wrong.go":   "the key says what to do (create, delete)",
		"examples/effective/deletion/wrong.go": "DNS.Remove cleans up after an object only if its deletion is seen",
	}
	for _, f := range findings(t, tool(t), nil, "./examples/...") {
		file, sentence, _ := strings.Cut(f, ": ")
		if want, ok := wrong[file]; !ok || !strings.HasPrefix(sentence, want) {
			t.Error(f)
			continue
		}
		delete(wrong, file)
	}
	for file, want := range wrong {
		t.Errorf("%s: not found: %s", file, want)
	}
}
