//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package filelease

import (
	"errors"
	"fmt"
	"runtime"
)

// syncDir returns the reason why a Store does not work on this system.
func syncDir(string) error {
	return fmt.Errorf("directories cannot be synced on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// isReadOnly reports whether err says that the file system is read-only. New does not return a store on this system.
func isReadOnly(error) bool { return false }
