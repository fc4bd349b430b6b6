//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filelease

import (
	"errors"
	"os"
	"syscall"
)

// syncDir writes the names in a directory to the disk.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// isReadOnly reports whether err says that the file system, or its mount, is read-only.
func isReadOnly(err error) bool { return errors.Is(err, syscall.EROFS) }
