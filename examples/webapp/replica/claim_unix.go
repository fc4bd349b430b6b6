//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package replica

import (
	"os"
	"syscall"
)

// claim makes sure that the lock on the record is held through this very descriptor, which changes nothing when the
// parent took it before it started us, and that no child of ours would inherit it.
func claim(record *os.File) error {
	syscall.CloseOnExec(int(record.Fd()))
	return syscall.Flock(int(record.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// removed reports whether the record has no name any more, so that nobody can find it.
func removed(record *os.File) bool {
	info, err := record.Stat()
	if err != nil {
		return false // not known
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink == 0
}
