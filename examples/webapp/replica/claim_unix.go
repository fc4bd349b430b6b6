//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package replica

import (
	"os"
	"syscall"
)

// claim makes sure that the lock on the record is held through this very descriptor, and that no child of ours
// inherits it. If the parent took the lock before it started us, this changes nothing.
func claim(record *os.File) error {
	syscall.CloseOnExec(int(record.Fd()))
	return syscall.Flock(int(record.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// removed reports whether the record no longer has a name, so that no machine can find it.
func removed(record *os.File) bool {
	info, err := record.Stat()
	if err != nil {
		return false // unknown
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink == 0
}
