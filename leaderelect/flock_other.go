//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package leaderelect

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

// supportsFlock says why there is no FileStore.
func supportsFlock() error {
	return fmt.Errorf("no flock on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// tryFlock is never called, for there is no FileStore without flock.
func tryFlock(*os.File) (bool, error) { return false, supportsFlock() }
