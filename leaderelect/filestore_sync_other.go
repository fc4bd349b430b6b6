//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package leaderelect

import (
	"errors"
	"fmt"
	"runtime"
)

// syncDir says why there is no FileStore on this system.
func syncDir(string) error {
	return fmt.Errorf("directories cannot be synced on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
