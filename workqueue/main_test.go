package workqueue_test

import (
	"os"
	"runtime/debug"
	"testing"
)

// The models make much garbage, and little is alive at once.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
