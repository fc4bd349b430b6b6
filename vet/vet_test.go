package vet_test

import (
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/setpoint-go/setpoint/vet"
)

// Each analyzer has a package in testdata with what it finds, and the nearest right programs, on which it is silent.
func TestAnalyzersFindWhatIsWrongAndNothingElse(t *testing.T) {
	for _, a := range vet.Analyzers() {
		t.Run(a.Name, func(t *testing.T) {
			analysistest.Run(t, analysistest.TestData(), a, "example.com/"+a.Name, "example.com/"+a.Name+"/...")
		})
	}
}

func TestAnalyzersAreValid(t *testing.T) {
	if err := analysis.Validate(vet.Analyzers()); err != nil {
		t.Error(err)
	}
}

// A driver runs the analyzers of a package concurrently, and they share what one of them has found: with -race, this finds a write to it.
func TestAnalyzersShareNothingThatChanges(t *testing.T) {
	all := &analysis.Analyzer{
		Name:     "all",
		Doc:      "require all analyzers",
		Requires: vet.Analyzers(),
		Run:      func(*analysis.Pass) (any, error) { return nil, nil },
	}
	for _, result := range analysistest.Run(quiet{}, analysistest.TestData(), all, "example.com/...") {
		if result.Err != nil {
			t.Error(result.Err)
		}
	}
}

// quiet ignores the findings that testdata expects, which belong to other analyzers.
type quiet struct{}

func (quiet) Errorf(string, ...any) {}
