package vet_test

import "testing"

// The examples have no findings, so a finding is news. That includes the right programs of the guide. .ci/run does the same for the
// library, and with -long for all modules.
func TestExamplesHaveNoFindings(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	for _, f := range findings(t, tool(t), nil, "./examples/...") {
		t.Error(f)
	}
}
