// Package golangci is the module plugin of golangci-lint with the analyzers of package vet. A golangci-lint that is built with it
// (golangci-lint custom) has a linter named setpoint:
//
//	# .custom-gcl.yml
//	version: v2.0.0
//	plugins:
//	  - module: github.com/setpoint-go/setpoint/vet
//	    import: github.com/setpoint-go/setpoint/vet/golangci
//	    version: latest
//
//	# .golangci.yml
//	version: "2"
//	linters:
//	  enable: [setpoint]
//	  settings:
//	    custom:
//	      setpoint:
//	        type: module
//
// The plugin has no settings.
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
