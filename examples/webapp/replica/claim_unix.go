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
