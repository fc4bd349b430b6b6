package orchestrator

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBlockingManifestDelaysNeitherStartNorCtrlC(t *testing.T) {
	r := newRig(t, app(t, "hello", 1), app(t, "stuck", 1))
	f, err := os.OpenFile(r.file("stuck"), os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	// The kernel blocks every open of the file, for 45 seconds or until the lease is given back.
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_SETLEASE, syscall.F_WRLCK); errno != 0 {
		t.Skip("this file system has no leases: ", errno)
	}
	waiting := r.program()
	waiting.line("the manifests cannot be read", "stuck.json: it cannot be read in time")
	require.NoError(t, waiting.Process.Signal(os.Interrupt))
	waiting.line("webapp: stopped")
	require.Zero(t, waiting.end())

	p := r.program()
	p.line("the manifests cannot be read", "stuck.json")
	_, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_SETLEASE, syscall.F_UNLCK)
	require.Zero(t, errno)
	p.line("Running", "1 replica ready")
	p.line("Running", "1 replica ready")
}
