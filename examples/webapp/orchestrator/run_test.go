package orchestrator

import "io"

// run is the program, as the tests begin it.
func run(args []string, stdout, stderr io.Writer) int { return Main(args, stdout, stderr, nil) }
