package informer_test

import (
	"os"
	"runtime/debug"
	"testing"
)

// The schedules make much garbage, and little is alive at once.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
