//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package leaderelect

import (
	"errors"
	"os"
	"syscall"
)

// supportsFlock returns nil: this system has flock(2).
func supportsFlock() error { return nil }

// tryFlock takes the exclusive lock of f if nobody holds it. The lock belongs to the open file, so it also excludes other
// goroutines that have opened the same file.
func tryFlock(f *os.File) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case errors.Is(err, syscall.EINTR):
		default:
			return false, os.NewSyscallError("flock", err)
		}
	}
}
