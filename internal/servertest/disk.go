//go:build linux

package servertest

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// Disk is a separate file system that can be full.
type Disk struct {
	Dir string // where it is mounted

	t       testing.TB
	ballast string
}

// NewDisk mounts an empty file system of the given size until the test ends. If this process may not mount one, the test is skipped.
func NewDisk(t testing.TB, bytes int) *Disk {
	t.Helper()
	dir, err := os.MkdirTemp("", "servertest-disk")
	must(t, err)
	t.Cleanup(func() { _ = os.Remove(dir) })
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0777,size="+strconv.Itoa(bytes)); err != nil {
		t.Skip("only root can mount a file system: ", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return &Disk{Dir: dir, t: t, ballast: filepath.Join(dir, "ballast")}
}

// Fill takes all space that is left.
func (d *Disk) Fill() {
	d.t.Helper()
	f, err := os.OpenFile(d.ballast, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(d.t, err)
	for chunk := make([]byte, 1<<20); err == nil; {
		_, err = f.Write(chunk)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		d.t.Fatal(err)
	}
	must(d.t, f.Close())
}

// Free releases the space.
func (d *Disk) Free() {
	d.t.Helper()
	must(d.t, os.Remove(d.ballast))
}
