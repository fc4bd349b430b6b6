package looptest

import (
	"os"
	"testing"
)

// MemoryDir returns a directory that exists until the test ends. It is in memory if the system has a file system there, so that no test
// waits for a busy disk to sync. What such a test breaks are processes, not the machine.
func MemoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "test")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
