//go:build !race

package store_test

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"
)

const raceEnabled = false

// In a bubble, few goroutines run at a time. A second processor would look for work in vain, and take a fifth of the CPU time. Under the
// race detector, the tests use all processors.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(400) // a test leaves little alive
	os.Exit(m.Run())
}
