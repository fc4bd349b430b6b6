package informer_test

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestMain(m *testing.M) {
	if !underRace { // few goroutines run at a time; a second processor would look for work in vain, and take a fifth of the CPU time
		runtime.GOMAXPROCS(1)
	}
	debug.SetGCPercent(400) // the schedules make much garbage, and little is alive at once
	os.Exit(m.Run())
}
