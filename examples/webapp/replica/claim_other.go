//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package replica

import (
	"errors"
	"os"
)

// claim fails: a record needs flock.
func claim(*os.File) error { return errors.ErrUnsupported }
