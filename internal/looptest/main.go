package looptest

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"
)

// Main is a TestMain for tests in bubbles. In a bubble, few goroutines run at a time. A second processor would look for work in vain, and take
// a fifth of the CPU time. So the tests take one processor, and collect garbage less often, because little is alive at once. Under the race
// detector, nothing changes.
func Main(m *testing.M) {
	if !underRace {
		runtime.GOMAXPROCS(1)
		debug.SetGCPercent(400)
	}
	os.Exit(m.Run())
}
