// Package golangci is the module plugin of golangci-lint with the analyzers of package vet. A golangci-lint that is built with it
// (golangci-lint custom) has a linter named setpoint. The README of the module has the two files that this needs.
//
// The plugin has no settings. Besides //setpoint:ignore, golangci-lint's own comment suppresses a finding: //nolint:setpoint.
package golangci

import (
	"github.com/golangci/plugin-module-register/register"
	"golang.org/x/tools/go/analysis"

	"github.com/setpoint-go/setpoint/vet"
)

// golangci-lint knows only the plugins that register themselves when their package is imported.
func init() {
	register.Plugin("setpoint", func(any) (register.LinterPlugin, error) { return plugin{}, nil })
}

type plugin struct{}

func (plugin) BuildAnalyzers() ([]*analysis.Analyzer, error) { return vet.Analyzers(), nil }

// GetLoadMode asks for types, and so for facts.
func (plugin) GetLoadMode() string { return register.LoadModeTypesInfo }
