package effective_test

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"
)

// A plan runs one goroutine at a time. A second processor would look for work in vain, and take a quarter of the CPU time.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(400) // a plan leaves little alive
	os.Exit(m.Run())
}
