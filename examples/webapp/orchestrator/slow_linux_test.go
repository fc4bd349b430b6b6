package orchestrator

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// stuck makes a rig with two manifests. The kernel blocks every open of one of them, for 45 seconds or until release is called.
func stuck(t *testing.T) (r *rig, release func()) {
	t.Helper()
	r = newRig(t, app(t, "hello", 1), app(t, "stuck", 1))
	f, err := os.OpenFile(r.file("stuck"), os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	lease := func(kind uintptr) syscall.Errno {
		_, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_SETLEASE, kind)
		return errno
	}
	if errno := lease(syscall.F_WRLCK); errno != 0 {
		t.Skip("this file system has no leases: ", errno)
	}
	return r, func() { require.Zero(t, lease(syscall.F_UNLCK)) }
}

func TestCtrlCStopsProgramThatWaitsForManifest(t *testing.T) {
	r, _ := stuck(t)
	p := r.program()
	p.line("the manifests cannot be read", "stuck.json: it cannot be read in time")
	require.NoError(t, p.Process.Signal(os.Interrupt))
	p.line("webapp: stopped")
	require.Zero(t, p.end())
}

func TestProgramStartsWhenManifestCanBeRead(t *testing.T) {
	r, release := stuck(t)
	p := r.program()
	p.line("the manifests cannot be read", "stuck.json")
	release()
	p.line("Running", "1 replica ready")
	p.line("Running", "1 replica ready")
}
