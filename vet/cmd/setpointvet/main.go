// Setpointvet finds mistakes of reconcilers in the source: see package vet. Run it by itself, or let go vet run it:
//
//	setpointvet ./...
//	go vet -vettool=$(which setpointvet) ./...
//
// "setpointvet help" lists the analyzers and the flags. The exit status is not zero if there is a finding.
package main

import (
	"golang.org/x/tools/go/analysis/multichecker"

	"github.com/setpoint-go/setpoint/vet"
)

func main() { multichecker.Main(vet.Analyzers()...) }
