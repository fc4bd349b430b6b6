// Command webapp is a small orchestrator, made of nothing but this library: it keeps the processes on this machine
// equal to a directory of manifests. Its replicas are real processes, reached over real TCP.
//
//	go run ./examples/webapp                      run, with the manifests in examples/webapp/manifests
//	go run ./examples/webapp -demo                demonstrate it with a script of real actions against itself
//	go run ./examples/webapp -status              print the tables of the leading copy
//
// It keeps its objects in memory. With a database, see examples/webapp/stores.
//
// The program is package orchestrator. Start reading at its New.
package main

import (
	"os"

	"github.com/setpoint-go/setpoint/examples/webapp/orchestrator"
)

func main() {
	os.Exit(orchestrator.Main(os.Args[1:], os.Stdout, os.Stderr, nil))
}
